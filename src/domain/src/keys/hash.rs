//! Keyed hashes: what rows are found and compared by where the value itself must not be readable.
//!
//! HMAC-SHA256 under a key of its own per purpose, written in base64url without padding (43 characters). Equal
//! values hash alike only within one purpose.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::aead::frame;

macro_rules! labels {
    ($($(#[$doc:meta])* $variant:ident => $label:literal,)+) => {
        /// What a keyed hash is for. The labels are part of stored data: never change or reuse one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum HashLabel { $($(#[$doc])* $variant,)+ }

        impl HashLabel {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The text that separates this purpose from every other.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }
        }
    };
}

labels! {
    /// The subject of an upstream identity; parts: idp, subject.
    IdentitySubject => "identity-subject",
    /// A person's address on a channel; parts: gateway, channel, external id.
    ExternalAddress => "external-address",
    /// A gateway's webhook secret.
    WebhookSecret => "webhook-secret",
    /// The `jti` of a client assertion; parts: gateway, jti.
    AssertionId => "assertion-id",
    /// An `Idempotency-Key`.
    IdempotencyKey => "idempotency-key",
    /// The canonical JSON of a request's body.
    RequestBody => "request-body",
    /// A prompt or an answer in the ledger.
    Content => "content",
    /// The network address a request came from.
    SourceAddress => "source-address",
    /// An access token, as the key of a cache.
    AccessToken => "access-token",
    /// A user, family or gateway as it may stand in a log line.
    LogSubject => "log-subject",
    /// A channel ingress id; parts: gateway, channel, id.
    IngressId => "ingress-id",
    /// A link code as it is stored and looked up.
    LinkCode => "link-code",
    /// What a link code is made out of; parts: user, channel, idempotency key.
    LinkCodeSource => "link-code-source",
}

/// HMAC-SHA256 of the framed parts, in base64url.
pub(super) fn hmac_text(key: &[u8; 32], domain: &str, parts: &[&[u8]]) -> String {
    URL_SAFE_NO_PAD.encode(hmac_bytes(key, domain, parts))
}

/// HMAC-SHA256 of the framed parts.
pub(super) fn hmac_bytes(key: &[u8; 32], domain: &str, parts: &[&[u8]]) -> [u8; 32] {
    // A key shorter than the block is padded with zeros (RFC 2104 §2): 32 bytes become the 64 of SHA-256's block.
    let mut block = [0_u8; 64];
    let (head, _) = block.split_at_mut(key.len());
    head.copy_from_slice(key);
    let mac = <Hmac<Sha256> as Mac>::new(&block.into()).chain_update(frame(domain, parts));
    mac.finalize().into_bytes().into()
}

/// Compares two hashes without telling by its duration where they differ.
pub fn hashes_equal(left: &str, right: &str) -> bool {
    left.as_bytes().ct_eq(right.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn labels_are_distinct() {
        let labels: BTreeSet<&str> = HashLabel::ALL.iter().map(|label| label.as_str()).collect();
        assert_eq!(labels.len(), HashLabel::ALL.len());
    }

    /// Computed with Python's hmac module over the framed bytes.
    #[test]
    fn the_hash_is_hmac_sha256_of_the_framed_parts() {
        assert_eq!(
            hmac_text(&[7; 32], "d", &[b"e"]),
            "0rW6x-OJ0Wxi4OQ6Ll0idpBnYNvE5jSsMrJg0db6urs"
        );
    }

    #[test]
    fn equality_needs_the_whole_text() {
        assert!(hashes_equal("abc", "abc"));
        assert!(!hashes_equal("abc", "abd"));
        assert!(!hashes_equal("abc", "abcd"));
        assert!(!hashes_equal("", "a"));
    }
}
