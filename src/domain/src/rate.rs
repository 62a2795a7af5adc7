//! Rate limits: token buckets in a bounded table.
//!
//! Each isolate counts for itself, so this is a brake on abuse and not an account. It is the generic cell rate
//! algorithm: one number per key, the instant at which its bucket would be full again.

use std::collections::{BTreeMap, HashMap};

use sha2::{Digest as _, Sha256};

use crate::time::{Millis, Timestamp};

const MINUTE_MICROS: i64 = 60_000_000;

/// How many requests a key may make in a minute, all at once or spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerMinute(u32);

impl PerMinute {
    /// `None` for zero and for more than 60,000,000, which no bucket of microseconds can tell apart.
    pub fn new(requests: u32) -> Option<Self> {
        (1..=60_000_000).contains(&requests).then_some(Self(requests))
    }

    fn interval_micros(self) -> i64 {
        MINUTE_MICROS
            .checked_div(i64::from(self.0))
            .unwrap_or(MINUTE_MICROS)
            .max(1)
    }
}

/// Whether a request may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    /// Not before this much time has passed.
    Limited(Millis),
}

type KeyHash = [u8; 16];

/// A bounded table of buckets. When it is full, the bucket that is nearest to being full again is forgotten, which
/// changes the least; ties go by key, so the same calls always leave the same table.
#[derive(Debug)]
pub struct RateLimiter {
    limit: PerMinute,
    keys_max: usize,
    full_at: HashMap<KeyHash, i64>,
    by_time: BTreeMap<(i64, KeyHash), ()>,
}

impl RateLimiter {
    /// A table of at most `keys_max` buckets (at least one).
    pub fn new(limit: PerMinute, keys_max: usize) -> Self {
        Self {
            limit,
            keys_max: keys_max.max(1),
            full_at: HashMap::new(),
            by_time: BTreeMap::new(),
        }
    }

    /// Counts one request of `key`, which should be a hash already; only a digest of it is kept.
    pub fn check(&mut self, key: &str, now: Timestamp) -> Verdict {
        let now = now.as_millis().saturating_mul(1_000);
        let key = digest(key);
        let interval = self.limit.interval_micros();
        let burst = interval.saturating_mul(i64::from(self.limit.0));
        let known = self.full_at.get(&key).copied();
        // After a clock that went back, an old entry may lie further ahead than any bucket can be.
        let full_at = known.unwrap_or(now).clamp(now, now.saturating_add(burst));
        let next = full_at.saturating_add(interval);
        let wait = next.saturating_sub(now).saturating_sub(burst);
        if wait > 0 {
            if known != Some(full_at) {
                self.store(key, full_at);
            }
            return Verdict::Limited(Millis::new(wait.saturating_add(999) / 1_000));
        }
        self.store(key, next);
        Verdict::Allowed
    }

    /// How many buckets are kept.
    pub fn len(&self) -> usize {
        self.full_at.len()
    }

    /// Whether no bucket is kept.
    pub fn is_empty(&self) -> bool {
        self.full_at.is_empty()
    }

    fn store(&mut self, key: KeyHash, full_at: i64) {
        if let Some(old) = self.full_at.remove(&key) {
            self.by_time.remove(&(old, key));
        }
        while self.full_at.len() >= self.keys_max {
            let Some(((_, nearest), ())) = self.by_time.pop_first() else {
                break;
            };
            self.full_at.remove(&nearest);
        }
        self.full_at.insert(key, full_at);
        self.by_time.insert((full_at, key), ());
    }
}

fn digest(key: &str) -> KeyHash {
    let mut short = KeyHash::default();
    for (to, from) in short.iter_mut().zip(Sha256::digest(key.as_bytes())) {
        *to = from;
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(1_783_728_000_000 + ms)
    }

    #[test]
    fn a_bucket_gives_its_burst_and_then_one_per_interval() {
        let mut limiter = RateLimiter::new(PerMinute::new(60).unwrap(), 10);
        for _ in 0..60 {
            assert_eq!(limiter.check("a", at(0)), Verdict::Allowed);
        }
        assert_eq!(limiter.check("a", at(0)), Verdict::Limited(Millis::from_secs(1)));
        assert_eq!(limiter.check("a", at(400)), Verdict::Limited(Millis::new(600)));
        assert_eq!(limiter.check("b", at(400)), Verdict::Allowed);
        assert_eq!(limiter.check("a", at(1_000)), Verdict::Allowed);
        assert_eq!(limiter.check("a", at(1_000)), Verdict::Limited(Millis::from_secs(1)));
        let later = (0..100)
            .filter(|_| limiter.check("a", at(3_600_000)) == Verdict::Allowed)
            .count();
        assert_eq!(later, 60);
    }

    #[test]
    fn the_table_is_bounded_and_forgets_the_least_used() {
        let mut limiter = RateLimiter::new(PerMinute::new(2).unwrap(), 2);
        assert_eq!(limiter.check("busy", at(0)), Verdict::Allowed);
        assert_eq!(limiter.check("busy", at(0)), Verdict::Allowed);
        for key in ["x", "y", "z"] {
            assert_eq!(limiter.check(key, at(1)), Verdict::Allowed);
            assert_eq!(limiter.len(), 2);
        }
        assert_eq!(limiter.check("busy", at(2)), Verdict::Limited(Millis::new(29_998)));
    }

    #[test]
    fn a_clock_that_goes_back_does_not_lock_anyone_out() {
        let mut limiter = RateLimiter::new(PerMinute::new(1).unwrap(), 2);
        assert_eq!(limiter.check("a", at(86_400_000)), Verdict::Allowed);
        assert_eq!(limiter.check("a", at(0)), Verdict::Limited(Millis::from_secs(60)));
        assert_eq!(limiter.check("a", at(60_000)), Verdict::Allowed);
    }

    #[test]
    fn limits_have_bounds() {
        assert_eq!(PerMinute::new(0), None);
        assert_eq!(PerMinute::new(60_000_001), None);
        let mut fast = RateLimiter::new(PerMinute::new(60_000_000).unwrap(), 1);
        assert_eq!(fast.check("a", at(0)), Verdict::Allowed);
    }
}
