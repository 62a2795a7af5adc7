//! What a `Retry-After` says (RFC 9110 §10.2.3).

use std::time::UNIX_EPOCH;

use crate::time::{Millis, Timestamp};

/// How long to hold off from `now`: whole seconds or an HTTP date, never negative. `None` when it is neither.
pub fn retry_after(text: &str, now: Timestamp) -> Option<Millis> {
    let text = text.trim_matches([' ', '\t']);
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // Digits that overflow still say "very long".
        return Some(Millis::from_secs(text.parse().unwrap_or(i64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    let at = Timestamp::from_millis(i64::try_from(date.as_millis()).unwrap_or(i64::MAX));
    Some(at.remaining_from(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_all_three_date_forms_are_read() {
        // 1994-11-06T08:49:37Z, the example of RFC 9110 §5.6.7.
        let now = Timestamp::from_millis(784_111_777_000 - 2_500);
        assert_eq!(retry_after("120", now), Some(Millis::from_secs(120)));
        assert_eq!(retry_after(" 0 ", now), Some(Millis::ZERO));
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(retry_after(date, now), Some(Millis::new(2_500)), "{date}");
        }
    }

    #[test]
    fn a_past_date_is_no_delay_and_nonsense_is_nothing() {
        let now = Timestamp::from_millis(1_783_728_000_000);
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", now), Some(Millis::ZERO));
        for text in ["", "soon", "-1", "1.5", "+3", "Sun, 06 Nov 1994", "１２"] {
            assert_eq!(retry_after(text, now), None, "{text}");
        }
        let long = retry_after("99999999999999999999", now).unwrap();
        assert!(now.plus(long) > now, "an overlong delay saturates instead of wrapping");
    }
}
