//! Instants as text (RFC 3339), to the millisecond.

use crate::time::Timestamp;

const DAY_MILLIS: i64 = 86_400_000;

/// Reads `2026-07-11T09:30:00Z`, with an optional fraction of a second and `Z` or a numeric offset. Digits after the
/// third of the fraction are dropped. `None` for anything else, impossible dates and leap seconds included: the ledger
/// counts POSIX time, which has none.
pub fn parse(text: &str) -> Option<Timestamp> {
    let mut reader = Reader { rest: text };
    let year = reader.number(4)?;
    reader.take(b"-")?;
    let month = reader.number(2)?;
    reader.take(b"-")?;
    let day = reader.number(2)?;
    reader.take(b"Tt")?;
    let hour = reader.number(2)?;
    reader.take(b":")?;
    let minute = reader.number(2)?;
    reader.take(b":")?;
    let second = reader.number(2)?;
    let fraction = reader.fraction()?;
    let offset = reader.offset()?;
    let possible = (1..=12).contains(&month)
        && (1..=days_in_month(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !possible || !reader.rest.is_empty() {
        return None;
    }
    let seconds = hour
        .saturating_mul(3_600)
        .saturating_add(minute.saturating_mul(60))
        .saturating_add(second)
        .saturating_sub(offset.saturating_mul(60));
    let millis = days_before(year, month)
        .saturating_add(day.saturating_sub(1))
        .saturating_mul(DAY_MILLIS)
        .saturating_add(seconds.saturating_mul(1_000))
        .saturating_add(fraction);
    Some(Timestamp::from_millis(millis))
}

/// Writes `2026-07-11T09:30:00.000Z`. Instants outside the years 0 to 9999 are written as the nearest one inside.
pub fn format(at: Timestamp) -> String {
    let first = days_before(0, 1).saturating_mul(DAY_MILLIS);
    let last = days_before(10_000, 1).saturating_mul(DAY_MILLIS).saturating_sub(1);
    let millis = at.as_millis().clamp(first, last);
    let day_number = millis.div_euclid(DAY_MILLIS);
    let of_day = millis.rem_euclid(DAY_MILLIS);
    // A guess that is never too late and at most one year early.
    let mut year = day_number.div_euclid(366).saturating_add(1_970).max(0);
    while days_before(year.saturating_add(1), 1) <= day_number {
        year = year.saturating_add(1);
    }
    while days_before(year, 1) > day_number {
        year = year.saturating_sub(1);
    }
    let mut month = 1_i64;
    while month < 12 && days_before(year, month.saturating_add(1)) <= day_number {
        month = month.saturating_add(1);
    }
    let day = day_number.saturating_sub(days_before(year, month)).saturating_add(1);
    let seconds = of_day.div_euclid(1_000);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
        seconds.div_euclid(3_600),
        seconds.div_euclid(60).rem_euclid(60),
        seconds.rem_euclid(60),
        of_day.rem_euclid(1_000),
    )
}

fn is_leap(year: i64) -> bool {
    (year.rem_euclid(4) == 0 && year.rem_euclid(100) != 0) || year.rem_euclid(400) == 0
}

fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01 to the first of the month.
fn days_before(year: i64, month: i64) -> i64 {
    let earlier = year.saturating_sub(1);
    let leap_days = earlier
        .div_euclid(4)
        .saturating_sub(earlier.div_euclid(100))
        .saturating_add(earlier.div_euclid(400));
    // 719,162 days lie between 0001-01-01 and 1970-01-01.
    let years = earlier
        .saturating_mul(365)
        .saturating_add(leap_days)
        .saturating_sub(719_162);
    (1..month).fold(years, |days, month| days.saturating_add(days_in_month(year, month)))
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Option<i64> {
        let (head, rest) = self.rest.split_at_checked(digits)?;
        if !head.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.rest = rest;
        head.parse().ok()
    }

    /// One of these characters.
    fn take(&mut self, any_of: &[u8]) -> Option<u8> {
        let byte = self.rest.bytes().next().filter(|byte| any_of.contains(byte))?;
        self.rest = self.rest.get(1..)?;
        Some(byte)
    }

    /// Milliseconds, if there is a fraction.
    fn fraction(&mut self) -> Option<i64> {
        if self.take(b".").is_none() {
            return Some(0);
        }
        let end = self
            .rest
            .bytes()
            .position(|byte| !byte.is_ascii_digit())
            .unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at_checked(end)?;
        if digits.is_empty() {
            return None;
        }
        self.rest = rest;
        let padded: String = digits.chars().chain("000".chars()).take(3).collect();
        padded.parse().ok()
    }

    /// Minutes east of UTC.
    fn offset(&mut self) -> Option<i64> {
        let sign = self.take(b"Zz+-")?;
        if matches!(sign, b'Z' | b'z') {
            return Some(0);
        }
        let hours = self.number(2)?;
        self.take(b":")?;
        let minutes = self.number(2)?;
        if hours > 23 || minutes > 59 {
            return None;
        }
        let offset = hours.saturating_mul(60).saturating_add(minutes);
        Some(if sign == b'-' { offset.saturating_neg() } else { offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2026-07-11T00:00:00Z", 1_783_728_000_000),
            ("2026-07-11t02:00:00.5+02:00", 1_783_728_000_500),
            ("2026-07-10T18:30:00.1239-05:30", 1_783_728_000_123),
            ("2024-02-29T23:59:59.999z", 1_709_251_199_999),
            ("1969-12-31T23:59:59.999Z", -1),
            ("0000-01-01T00:00:00Z", -62_167_219_200_000),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(parse(text), Some(Timestamp::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "2026-07-11",
            "2026-07-11T09:30Z",
            "2026-07-11 09:30:00Z",
            "2026-07-11T09:30:00",
            "2026-07-11T09:30:00.Z",
            "2026-07-11T09:30:00+0200",
            "2026-07-11T09:30:00+24:00",
            "2026-07-11T09:30:00Zx",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-07-00T00:00:00Z",
            "2026-07-11T24:00:00Z",
            "2026-07-11T23:60:00Z",
            "2016-12-31T23:59:60Z",
            "+2026-07-11T09:30:00Z",
            "2026-07-1１T09:30:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_many_years_is_written_and_read_back() {
        assert_eq!(
            format(Timestamp::from_millis(1_783_728_000_123)),
            "2026-07-11T00:00:00.123Z"
        );
        assert_eq!(format(Timestamp::from_millis(-1)), "1969-12-31T23:59:59.999Z");
        assert_eq!(format(Timestamp::from_millis(i64::MAX)), "9999-12-31T23:59:59.999Z");
        assert_eq!(format(Timestamp::from_millis(i64::MIN)), "0000-01-01T00:00:00.000Z");
        for day in (-719_528..2_932_896).step_by(97) {
            let at = Timestamp::from_millis(day * DAY_MILLIS + 43_200_001);
            assert_eq!(parse(&format(at)), Some(at), "day {day}");
        }
    }
}
