//! `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header): reading the header, and deciding whether two
//! requests under one key are the same request.

mod canonical;

pub use canonical::{CanonicalError, DEPTH_MAX, canonical_json};

use std::fmt;

use crate::auth::{Principal, Subject};
use crate::keys::{HashLabel, MasterSecrets};
use crate::time::Millis;

/// The longest key, in bytes, without the quotes.
pub const KEY_MAX: usize = 255;
/// How long a stored result is kept for the same key.
pub const RETENTION: Millis = Millis::from_mins(24 * 60);

/// A key as the client meant it: quoted and bare forms of one key are the same key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

// Clients put all sorts of things into their keys.
impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(..)")
    }
}

/// The header is not 1 to [`KEY_MAX`] visible ASCII characters, bare or as a quoted string (RFC 9651 section 3.3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidKey;

impl IdempotencyKey {
    /// Reads the header's value. Two header lines arrive joined by a comma and a space, which no bare key contains
    /// and no quoted one may be followed by.
    pub fn parse(header: &str) -> Result<Self, InvalidKey> {
        let header = header.trim_matches(|c| c == ' ' || c == '\t');
        let key = match header.strip_prefix('"') {
            Some(rest) => unquote(rest)?,
            None if header.bytes().all(|byte| byte.is_ascii_graphic()) => header.to_owned(),
            None => return Err(InvalidKey),
        };
        if key.is_empty() || key.len() > KEY_MAX {
            Err(InvalidKey)
        } else {
            Ok(Self(key))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the key of `caller` is stored and looked up as where callers share one table of keys; see [`caller`].
    pub fn hash_of_caller(&self, master: &MasterSecrets, caller: &str) -> String {
        master.keyed_hash_of(HashLabel::IdempotencyKey, &[caller.as_bytes(), self.0.as_bytes()])
    }

    /// What the key is stored and looked up as, beside its caller.
    pub fn hash(&self, master: &MasterSecrets) -> String {
        master.keyed_hash(HashLabel::IdempotencyKey, self.0.as_bytes())
    }
}

fn unquote(rest: &str) -> Result<String, InvalidKey> {
    let mut key = String::new();
    let mut bytes = rest.bytes();
    loop {
        match bytes.next() {
            Some(b'"') if bytes.next().is_none() => return Ok(key),
            Some(b'"') | None => return Err(InvalidKey),
            Some(b'\\') => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => key.push(char::from(escaped)),
                Some(_) | None => return Err(InvalidKey),
            },
            // A quoted string may hold spaces.
            Some(plain @ 0x20..=0x7e) => key.push(char::from(plain)),
            Some(_) => return Err(InvalidKey),
        }
    }
}

/// Who a key belongs to: two callers may use the same key without meeting.
pub fn caller(principal: &Principal) -> String {
    let kind = match principal.subject {
        Subject::User(_) => "user",
        Subject::Gateway(_) => "gateway",
        Subject::Operator(_) => "operator",
    };
    format!("{kind}:{}", principal.subject.as_str())
}

/// What a request is compared by under one key: its path and the canonical JSON of its body, under a keyed hash.
pub fn request_hash(master: &MasterSecrets, path: &str, body: &str) -> Result<String, CanonicalError> {
    let canonical = canonical_json(body)?;
    Ok(master.keyed_hash_of(HashLabel::RequestBody, &[path.as_bytes(), canonical.as_bytes()]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(header: &str) -> Result<String, InvalidKey> {
        IdempotencyKey::parse(header).map(|key| key.0)
    }

    #[test]
    fn bare_and_quoted_keys_are_the_same() {
        for (header, expected) in [
            ("abc", "abc"),
            ("\"abc\"", "abc"),
            ("  abc ", "abc"),
            (
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
                "8e03978e-40d5-43e8-bc93-6894a57f9324",
            ),
            (r#""a\"b\\c""#, r#"a"b\c"#),
            ("\"two words\"", "two words"),
            ("a,b;c=d", "a,b;c=d"),
        ] {
            assert_eq!(key(header), Ok(expected.to_owned()), "{header}");
        }
        assert_eq!(key(&"k".repeat(255)), Ok("k".repeat(255)));
        assert_eq!(key(&format!("\"{}\"", "k".repeat(255))), Ok("k".repeat(255)));
    }

    #[test]
    fn other_values_are_refused() {
        let rows = [
            "",
            " ",
            "\"\"",
            "\"",
            "\"a",
            "\"a\" ;x=1",
            "\"a\", \"b\"",
            "a, b",
            "a b",
            "é",
            "a\u{7f}",
            "\"a\\b\"",
            "\"é\"",
            "\"a\\",
        ];
        for header in rows {
            assert_eq!(key(header), Err(InvalidKey), "{header}");
        }
        assert_eq!(key(&"k".repeat(256)), Err(InvalidKey));
    }

    #[test]
    fn two_callers_with_the_same_key_do_not_meet() {
        let text = r#"{"current":1,"versions":{"1":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="},"hash_version":1}"#;
        let master = MasterSecrets::from_json(text).unwrap();
        let key = IdempotencyKey::parse("update-1").unwrap();
        let quoted = IdempotencyKey::parse("\"update-1\"").unwrap();
        let of = |key: &IdempotencyKey, caller| key.hash_of_caller(&master, caller);
        assert_eq!(of(&key, "gateway:gateway_00a"), of(&quoted, "gateway:gateway_00a"));
        assert_ne!(of(&key, "gateway:gateway_00a"), of(&key, "gateway:gateway_00b"));
        assert_ne!(of(&key, "gateway:gateway_00a"), key.hash(&master));
    }
}
