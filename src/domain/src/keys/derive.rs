//! HKDF-SHA256 (RFC 5869).

use hkdf::Hkdf;
use sha2::Sha256;

/// The wanted length was not one that HKDF can give; with a fixed length of at most 8,160 bytes it cannot happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeriveError;

/// Extract and expand.
pub(super) fn derive<const N: usize>(salt: &[u8], secret: &[u8], info: &[u8]) -> Result<[u8; N], DeriveError> {
    let mut key = [0_u8; N];
    Hkdf::<Sha256>::new(Some(salt), secret)
        .expand(info, &mut key)
        .map_err(|_| DeriveError)?;
    Ok(key)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::keys) fn hex(text: &str) -> Vec<u8> {
        let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
        text.as_bytes()
            .chunks(2)
            .map(|pair| digit(pair[0]) * 16 + digit(pair[1]))
            .collect()
    }

    /// RFC 5869 appendix A.1.
    #[test]
    fn rfc_5869_basic_case() {
        let okm = derive::<42>(
            &hex("000102030405060708090a0b0c"),
            &[0x0b; 22],
            &hex("f0f1f2f3f4f5f6f7f8f9"),
        );
        let expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
        assert_eq!(okm.map(|bytes| bytes.to_vec()), Ok(hex(expected)));
    }

    /// RFC 5869 appendix A.3.
    #[test]
    fn rfc_5869_with_empty_salt_and_info() {
        let okm = derive::<42>(b"", &[0x0b; 22], b"");
        let expected = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8";
        assert_eq!(okm.map(|bytes| bytes.to_vec()), Ok(hex(expected)));
    }

    #[test]
    fn a_length_hkdf_cannot_give_is_an_error() {
        assert_eq!(derive::<8161>(b"", b"secret", b"").map(|_| ()), Err(DeriveError));
    }
}
