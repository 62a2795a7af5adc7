//! W3C Trace Context, and the request id a client brings along.

use crate::ports::Entropy;

/// Where a request stands in a distributed trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// 32 lower-case hex digits, not all zero.
    pub trace_id: String,
    /// Our own span: 16 lower-case hex digits, not all zero.
    pub span_id: String,
    /// Whether the caller records this trace.
    pub sampled: bool,
}

impl Trace {
    /// Continues the trace of a `traceparent` header; starts a new one when there is none that can be understood.
    pub fn continue_from(header: Option<&str>, entropy: &impl Entropy) -> Self {
        let span_id = mint::<8>(entropy);
        match header.and_then(parse) {
            Some((trace_id, sampled)) => Self {
                trace_id,
                span_id,
                sampled,
            },
            None => Self {
                trace_id: mint::<16>(entropy),
                span_id,
                sampled: false,
            },
        }
    }

    /// The `traceparent` header that names our span.
    pub fn header(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

fn mint<const N: usize>(entropy: &impl Entropy) -> String {
    let mut bytes = [0_u8; N];
    entropy.fill(&mut bytes);
    if bytes.iter().all(|byte| *byte == 0)
        && let Some(last) = bytes.last_mut()
    {
        // All zero means "invalid".
        *last = 1;
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn parse(header: &str) -> Option<(String, bool)> {
    let mut parts = header.trim().split('-');
    let (version, trace_id, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, length: usize| {
        text.len() == length
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    let zero = |text: &str| text.bytes().all(|byte| byte == b'0');
    let well_formed = hex(version, 2) && hex(trace_id, 32) && hex(parent, 16) && hex(flags, 2);
    // Later versions may append fields; version 00 may not, and ff is never valid.
    let ends = version != "00" || parts.next().is_none();
    if !well_formed || !ends || version == "ff" || zero(trace_id) || zero(parent) {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    Some((trace_id.to_owned(), flags & 1 == 1))
}

/// The longest client request id that is kept, in bytes.
pub const CLIENT_REQUEST_ID_MAX: usize = 64;

/// A client's `X-Request-Id`, if it is 1 to 64 of `0-9 A-Z a-z . _ : -`. Anything else is ignored.
pub fn client_request_id(header: Option<&str>) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    header
        .filter(|id| (1..=CLIENT_REQUEST_ID_MAX).contains(&id.len()) && id.bytes().all(plain))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Byte(u8);
    impl Entropy for Byte {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    #[test]
    fn a_trace_is_continued_under_our_own_span() {
        let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let trace = Trace::continue_from(Some(header), &Byte(0xab));
        assert_eq!(
            trace.header(),
            "00-0af7651916cd43dd8448eb211c80319c-abababababababab-01"
        );
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00-more";
        assert_eq!(
            Trace::continue_from(Some(later), &Byte(1)).trace_id,
            "0af7651916cd43dd8448eb211c80319c"
        );
    }

    #[test]
    fn what_cannot_be_understood_starts_a_new_trace() {
        let fresh = "00-abababababababababababababababab-abababababababab-00";
        for header in [
            None,
            Some(""),
            Some("00"),
            Some("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"),
            Some("00-00000000000000000000000000000000-b7ad6b7169203331-01"),
            Some("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"),
            Some("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x"),
            Some("00-éaf7651916cd43dd8448eb211c80319-b7ad6b7169203331-01"),
        ] {
            assert_eq!(Trace::continue_from(header, &Byte(0xab)).header(), fresh, "{header:?}");
        }
        assert_eq!(
            Trace::continue_from(None, &Byte(0)).trace_id,
            format!("{}01", "0".repeat(30))
        );
    }

    #[test]
    fn client_request_ids_are_short_and_plain() {
        assert_eq!(client_request_id(Some("app-7:42.x_y")), Some("app-7:42.x_y".to_owned()));
        for id in ["", "a b", "a\"b", "é", "{}", &"x".repeat(65)] {
            assert_eq!(client_request_id(Some(id)), None, "{id:?}");
        }
        assert_eq!(client_request_id(None), None);
    }
}
