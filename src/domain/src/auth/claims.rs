//! The registered claims (RFC 7519) as every kind of token here reads them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::time::{Millis, Timestamp};

/// How far apart two honest clocks may be.
pub const SKEW: Millis = Millis::from_secs(60);

const AUDIENCES_MAX: usize = 16;

/// The `aud` claim: one string or a flat array of strings. Any other shape does not parse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    /// Whether `wanted` is named, exactly and as a whole.
    pub fn names(&self, wanted: &str) -> bool {
        match self {
            Self::One(one) => one == wanted,
            Self::Many(many) => many.len() <= AUDIENCES_MAX && many.iter().any(|one| one == wanted),
        }
    }
}

/// A NumericDate: seconds since 1970. A fraction, which the RFC allows, is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct NumericDate(i64);

/// Far beyond any date that makes sense (the year 5138), and safe to multiply.
const SECONDS_MAX: i64 = 100_000_000_000;

impl NumericDate {
    /// The whole second that `at` falls in.
    pub fn of(at: Timestamp) -> Self {
        Self(at.as_secs())
    }

    pub fn to_timestamp(self) -> Timestamp {
        Timestamp::from_millis(self.0.saturating_mul(1_000))
    }
}

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        let whole = number.as_i64().or_else(|| {
            // Only whole parts within the bound are taken, where the conversion is exact.
            #[allow(clippy::cast_possible_truncation)]
            number
                .as_f64()
                .filter(|seconds| (0.0..1e11).contains(seconds))
                .map(|seconds| seconds.floor() as i64)
        });
        match whole {
            Some(seconds) if (0..=SECONDS_MAX).contains(&seconds) => Ok(Self(seconds)),
            Some(_) | None => Err(D::Error::custom("not a date")),
        }
    }
}

/// Why a token does not count at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeError {
    Expired,
    NotYetValid,
    /// It lives longer than its kind may, or ends before it begins.
    BadLifetime,
}

/// The times of a token; `iat` and `nbf` may be missing where the issuer is not ours.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub issued_at: Option<NumericDate>,
    pub not_before: Option<NumericDate>,
    pub expires: NumericDate,
}

impl Times {
    /// Checks the times against `now`. `grace` is granted after the end; clocks before the start may differ by
    /// [`SKEW`]. With `life_max` the token must say when it was issued and end no later than that much afterwards.
    pub fn check(&self, now: Timestamp, grace: Millis, life_max: Option<Millis>) -> Result<(), TimeError> {
        let expires = self.expires.to_timestamp();
        if now >= expires.plus(grace) {
            return Err(TimeError::Expired);
        }
        let early = |at: NumericDate| at.to_timestamp() > now.plus(SKEW);
        if self.issued_at.is_some_and(early) || self.not_before.is_some_and(early) {
            return Err(TimeError::NotYetValid);
        }
        if let Some(life_max) = life_max {
            let life = self.issued_at.map(|issued| expires.since(issued.to_timestamp()));
            if !life.is_some_and(|life| life > Millis::ZERO && life <= life_max) {
                return Err(TimeError::BadLifetime);
            }
        }
        Ok(())
    }
}
