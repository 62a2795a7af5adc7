//! Paths, decoded strictly: what cannot be decoded in exactly one way is refused.

/// The longest path that is looked at, in bytes.
pub const PATH_MAX: usize = 1_024;

/// The path cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidPath;

/// Splits an absolute path into its decoded segments (RFC 3986 §3.3).
///
/// Refused: no leading slash, more than [`PATH_MAX`] bytes, an incomplete or non-hexadecimal escape, bytes that are
/// not UTF-8 once decoded, and segments that decode to something with a slash, a backslash or a control character.
/// `+` is a plus sign. An empty segment stays empty; no route has one.
pub fn segments(path: &str) -> Result<Vec<String>, InvalidPath> {
    if path.len() > PATH_MAX {
        return Err(InvalidPath);
    }
    path.strip_prefix('/')
        .ok_or(InvalidPath)?
        .split('/')
        .map(decode)
        .collect()
}

fn decode(segment: &str) -> Result<String, InvalidPath> {
    let mut decoded = Vec::with_capacity(segment.len());
    let mut bytes = segment.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let high = bytes.next().and_then(hex).ok_or(InvalidPath)?;
            let low = bytes.next().and_then(hex).ok_or(InvalidPath)?;
            decoded.push((high << 4) | low);
        } else {
            decoded.push(byte);
        }
    }
    let text = String::from_utf8(decoded).map_err(|_| InvalidPath)?;
    if text
        .chars()
        .any(|char| char == '/' || char == '\\' || char.is_control())
    {
        return Err(InvalidPath);
    }
    Ok(text)
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_decoded() {
        assert_eq!(
            segments("/turns/turn_00a%62/ack"),
            Ok(vec!["turns".into(), "turn_00ab".into(), "ack".into()])
        );
        assert_eq!(segments("/"), Ok(vec![String::new()]));
        assert_eq!(segments("/a+b/%C3%A9"), Ok(vec!["a+b".into(), "é".into()]));
    }

    #[test]
    fn what_has_no_single_meaning_is_refused() {
        for path in [
            "", "chat", "/%", "/%4", "/%zz", "/%+1", "/a%2Fb", "/a%5cb", "/%00", "/%0a", "/%ff", "/%C3",
        ] {
            assert_eq!(segments(path), Err(InvalidPath), "{path}");
        }
        assert_eq!(segments(&format!("/{}", "a".repeat(PATH_MAX))), Err(InvalidPath));
        assert!(segments(&format!("/{}", "a".repeat(PATH_MAX - 1))).is_ok());
    }
}
