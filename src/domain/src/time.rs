//! Instants and durations in milliseconds, the only time units of the ledger.
//!
//! Both stay within ±(2^53 − 1), the integers that survive D1's number binding, by saturating.

use serde::{Deserialize, Serialize};

use crate::sql::SAFE_INTEGER_MAX;

fn clamp(value: i64) -> i64 {
    value.clamp(-SAFE_INTEGER_MAX, SAFE_INTEGER_MAX)
}

/// A duration in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Millis(i64);

impl Millis {
    pub const ZERO: Self = Self(0);

    /// A duration of `value` milliseconds.
    pub const fn new(value: i64) -> Self {
        Self(value)
    }

    /// A duration of `value` seconds.
    pub const fn from_secs(value: i64) -> Self {
        Self(value.saturating_mul(1_000))
    }

    /// A duration of `value` minutes.
    pub const fn from_mins(value: i64) -> Self {
        Self(value.saturating_mul(60_000))
    }

    /// The number of milliseconds.
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Whole seconds, rounded up, never negative: what `Retry-After` wants.
    pub fn ceil_secs(self) -> i64 {
        self.0.max(0).saturating_add(999) / 1_000
    }

    pub fn saturating_add(self, other: Self) -> Self {
        Self(clamp(self.0.saturating_add(other.0)))
    }

    pub fn saturating_sub(self, other: Self) -> Self {
        Self(clamp(self.0.saturating_sub(other.0)))
    }
}

/// An instant: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The instant `value` milliseconds after the Unix epoch, held within the safe integers.
    pub fn from_millis(value: i64) -> Self {
        Self(clamp(value))
    }

    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Whole seconds since the Unix epoch, rounded down: the unit of JWT claims.
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1_000)
    }

    pub fn plus(self, duration: Millis) -> Self {
        Self(clamp(self.0.saturating_add(duration.get())))
    }

    pub fn minus(self, duration: Millis) -> Self {
        Self(clamp(self.0.saturating_sub(duration.get())))
    }

    /// How long after `earlier` this instant is; negative when it is before.
    pub fn since(self, earlier: Self) -> Millis {
        Millis(clamp(self.0.saturating_sub(earlier.0)))
    }

    /// How long until this instant from `now`; zero when it has passed.
    pub fn remaining_from(self, now: Self) -> Millis {
        Millis(self.since(now).get().max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_rounds_up_and_never_goes_negative() {
        assert_eq!(Millis::new(1).ceil_secs(), 1);
        assert_eq!(Millis::new(1_000).ceil_secs(), 1);
        assert_eq!(Millis::new(1_001).ceil_secs(), 2);
        assert_eq!(Millis::new(-5).ceil_secs(), 0);
    }

    #[test]
    fn instants_saturate_at_the_safe_integers() {
        let end = Timestamp::from_millis(i64::MAX);
        assert_eq!(end.as_millis(), 9_007_199_254_740_991);
        assert_eq!(end.plus(Millis::from_secs(1)), end);
    }
}
