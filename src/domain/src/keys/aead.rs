//! AES-256-GCM with a 96-bit random nonce: the one sealed form.
//!
//! A sealed value is `version (1 byte) ‖ nonce (12) ‖ ciphertext ‖ tag (16)`. The version byte is associated data
//! too. 96 random bits allow 2^32 values under one key with a collision chance below 2^-32 (NIST SP 800-38D §8.3);
//! a data key belongs to one person or family and stays far below that.

use aes_gcm::aead::{Aead, Payload};
use aes_gcm::{Aes256Gcm, KeyInit};

use crate::ports::Entropy;

const VERSION: u8 = 1;
const NONCE_BYTES: usize = 12;

/// The value is too large to be sealed (over 64 GiB).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SealError;

/// Why a sealed value did not open. Neither case says anything about the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// Too short, or of a version this build does not know.
    Form,
    /// The key, the associated data or the bytes are not those it was sealed with.
    Authentication,
}

/// Length-prefixed concatenation: no two different lists of parts give the same bytes.
pub(super) fn frame(domain: &str, parts: &[&[u8]]) -> Vec<u8> {
    let mut framed = Vec::new();
    for part in std::iter::once(domain.as_bytes()).chain(parts.iter().copied()) {
        // A length fits 64 bits on every platform there is.
        let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
        framed.extend_from_slice(&length.to_be_bytes());
        framed.extend_from_slice(part);
    }
    framed
}

fn encrypt(key: &[u8; 32], nonce: [u8; NONCE_BYTES], aad: &[u8], plaintext: &[u8]) -> Result<Vec<u8>, SealError> {
    Aes256Gcm::new(key.into())
        .encrypt(&nonce.into(), Payload { msg: plaintext, aad })
        .map_err(|_| SealError)
}

pub(super) fn seal(key: &[u8; 32], aad: &[u8], plaintext: &[u8], entropy: &impl Entropy) -> Result<Vec<u8>, SealError> {
    let mut nonce = [0_u8; NONCE_BYTES];
    entropy.fill(&mut nonce);
    let ciphertext = encrypt(key, nonce, &[&[VERSION], aad].concat(), plaintext)?;
    Ok([&[VERSION], nonce.as_slice(), &ciphertext].concat())
}

pub(super) fn open(key: &[u8; 32], aad: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let (version, rest) = sealed.split_first().ok_or(OpenError::Form)?;
    let (nonce, ciphertext) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(OpenError::Form)?;
    if *version != VERSION {
        return Err(OpenError::Form);
    }
    Aes256Gcm::new(key.into())
        .decrypt(
            nonce.into(),
            Payload {
                msg: ciphertext,
                aad: &[&[VERSION], aad].concat(),
            },
        )
        .map_err(|_| OpenError::Authentication)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::derive::tests::hex;

    /// AES-256 test case 16 of the GCM specification that NIST SP 800-38D refers to (McGrew and Viega, 2005).
    #[test]
    fn the_published_vector_comes_out() {
        let key: [u8; 32] = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308")
            .try_into()
            .unwrap();
        let nonce: [u8; 12] = hex("cafebabefacedbaddecaf888").try_into().unwrap();
        let aad = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        let plaintext = hex(concat!(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72",
            "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
        ));
        let expected = hex(concat!(
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa",
            "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b"
        ));
        assert_eq!(encrypt(&key, nonce, &aad, &plaintext), Ok(expected));
    }

    struct Sevens;
    impl Entropy for Sevens {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(7);
        }
    }

    #[test]
    fn every_byte_of_a_sealed_value_matters() {
        let key = [9; 32];
        let sealed = seal(&key, b"place", b"text", &Sevens).unwrap();
        assert_eq!(sealed.len(), 1 + 12 + 4 + 16);
        assert_eq!(&sealed[..13], &[1, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        assert_eq!(open(&key, b"place", &sealed), Ok(b"text".to_vec()));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            let expected = if at == 0 {
                OpenError::Form
            } else {
                OpenError::Authentication
            };
            assert_eq!(open(&key, b"place", &changed), Err(expected), "byte {at}");
        }
        for length in 0..sealed.len() {
            assert!(open(&key, b"place", &sealed[..length]).is_err(), "{length} bytes");
        }
        assert_eq!(open(&[8; 32], b"place", &sealed), Err(OpenError::Authentication));
        assert_eq!(open(&key, b"elsewhere", &sealed), Err(OpenError::Authentication));
    }

    #[test]
    fn framing_keeps_parts_apart() {
        assert_ne!(frame("d", &[b"ab", b"c"]), frame("d", &[b"a", b"bc"]));
        assert_ne!(frame("d", &[b""]), frame("d", &[]));
        assert_eq!(
            frame("d", &[b"e"]),
            [0, 0, 0, 0, 0, 0, 0, 1, b'd', 0, 0, 0, 0, 0, 0, 0, 1, b'e']
        );
    }
}
