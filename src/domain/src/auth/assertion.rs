//! Client assertions: how a gateway proves itself at the token exchange (RFC 7523, `private_key_jwt`).

use serde::Deserialize;

use super::claims::{Audience, NumericDate, SKEW, TimeError, Times};
use super::jwk::PublicKey;
use super::jws::{JwsError, Unverified};
use crate::ids::GatewayId;
use crate::time::{Millis, Timestamp};

/// The longest life of an assertion.
pub const LIFE_MAX: Millis = Millis::from_mins(5);
/// The longest `jti`, in bytes.
pub const JTI_MAX: usize = 128;

/// Why an assertion was not accepted. All of them answer 401; the difference is for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssertionError {
    Malformed,
    WrongAlgorithm,
    /// It names another key than the gateway's.
    UnknownKey,
    BadSignature,
    /// `iss` and `sub` are not both the gateway.
    WrongSubject,
    WrongAudience,
    Expired,
    NotYetValid,
    /// It may live longer than [`LIFE_MAX`].
    TooLong,
    /// No usable `jti`.
    BadId,
}

impl From<JwsError> for AssertionError {
    fn from(error: JwsError) -> Self {
        match error {
            JwsError::Malformed => Self::Malformed,
            JwsError::WrongAlgorithm => Self::WrongAlgorithm,
            JwsError::BadSignature => Self::BadSignature,
        }
    }
}

impl From<TimeError> for AssertionError {
    fn from(error: TimeError) -> Self {
        match error {
            TimeError::Expired => Self::Expired,
            TimeError::NotYetValid => Self::NotYetValid,
            TimeError::BadLifetime => Self::TooLong,
        }
    }
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    sub: String,
    aud: Audience,
    exp: NumericDate,
    iat: Option<NumericDate>,
    nbf: Option<NumericDate>,
    jti: String,
}

/// An assertion whose form and signature are right. Whether it was used before is the database's to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    pub gateway: GatewayId,
    pub jti: String,
    /// Until then the `jti` must be remembered: afterwards the assertion is refused for its age.
    pub remember_until: Timestamp,
}

/// Checks an assertion of `gateway` against the public key in its row. `issuer` is this service, as `aud` names it.
pub fn verify(
    token: &Unverified<'_>,
    gateway: &GatewayId,
    key: &PublicKey,
    issuer: &str,
    now: Timestamp,
) -> Result<Assertion, AssertionError> {
    // A key that has no name of its own answers to any.
    if key.kid().is_some() && token.kid().is_some_and(|kid| key.kid() != Some(kid)) {
        return Err(AssertionError::UnknownKey);
    }
    let claims: Claims = token.verify(key)?;
    if claims.iss != gateway.as_str() || claims.sub != gateway.as_str() {
        return Err(AssertionError::WrongSubject);
    }
    if !claims.aud.names(issuer) {
        return Err(AssertionError::WrongAudience);
    }
    let times = Times {
        issued_at: claims.iat,
        not_before: claims.nbf,
        expires: claims.exp,
    };
    times.check(now, SKEW, claims.iat.map(|_| LIFE_MAX))?;
    // Where it does not say when it was issued, it was at the latest now, on a clock that may differ.
    let expires = claims.exp.to_timestamp();
    if expires > now.plus(LIFE_MAX).plus(SKEW) {
        return Err(AssertionError::TooLong);
    }
    if claims.jti.is_empty() || claims.jti.len() > JTI_MAX {
        return Err(AssertionError::BadId);
    }
    Ok(Assertion {
        gateway: gateway.clone(),
        jti: claims.jti,
        remember_until: expires.plus(SKEW),
    })
}
