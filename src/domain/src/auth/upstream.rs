//! Identity tokens of upstream issuers: an allowlist, and a strict reading of what an allowed one says.

use serde::Deserialize;
use url::Url;

use super::claims::{Audience, NumericDate, SKEW, TimeError, Times};
use super::jwk::{KeyRing, PublicKey};
use super::jws::{Algorithm, JwsError, Unverified};
use super::token::Identity;
use crate::ids::GatewayId;
use crate::time::Timestamp;

/// The longest short name of an upstream, in bytes.
pub const IDP_MAX: usize = 32;
/// The longest issuer, audience or key set URL, in bytes.
pub const TEXT_MAX: usize = 1_024;
/// The longest subject, in bytes: OpenID Connect Core section 2 allows no more.
pub const SUBJECT_MAX: usize = 255;

/// Where an upstream's keys come from.
#[derive(Debug, Clone)]
pub enum KeySource {
    /// Fetched from this URL and kept for a while.
    Url(String),
    /// Written down by the operator; they change only by hand.
    Pinned(KeyRing),
}

/// One entry of the allowlist.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// The short name; see [`is_idp_name`].
    pub idp: String,
    pub issuer: String,
    pub audience: String,
    pub algorithms: Vec<Algorithm>,
    pub keys: KeySource,
}

/// Whether `name` may be an upstream's short name: 1 to [`IDP_MAX`] of `0-9 a-z _ -`.
pub fn is_idp_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    !name.is_empty() && name.len() <= IDP_MAX && name.bytes().all(plain)
}

/// Whether keys may be fetched from `text`: `https`, a host, no user, no fragment. With `loopback` also plain `http`
/// to this machine, which only development and tests have a use for.
pub fn is_jwks_url(text: &str, loopback: bool) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let host = match url.host_str() {
        Some(host) if !host.is_empty() => host,
        Some(_) | None => return false,
    };
    let local = loopback && url.scheme() == "http" && matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    text.len() <= TEXT_MAX && plain && (url.scheme() == "https" || local)
}

/// Who seems to have issued the token presented at the exchange. Not proven yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presented {
    /// A client assertion: `iss` and `sub` both name the gateway (RFC 7523 section 3).
    Gateway(GatewayId),
    /// An identity token of this issuer.
    Issuer(String),
}

#[derive(Deserialize)]
struct Peek {
    iss: String,
    sub: String,
}

/// Whose keys to ask for `token`.
pub fn presented_by(token: &Unverified<'_>) -> Result<Presented, IdentityError> {
    let Peek { iss, sub } = token.peek()?;
    if iss.is_empty() || iss.len() > TEXT_MAX {
        return Err(IdentityError::Malformed);
    }
    match GatewayId::parse(&iss) {
        Ok(gateway) if iss == sub => Ok(Presented::Gateway(gateway)),
        Ok(_) | Err(_) => Ok(Presented::Issuer(iss)),
    }
}

/// Why an identity token was not accepted. All of them answer 401; the difference is for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityError {
    Malformed,
    /// Not an algorithm of this upstream, or not the one of the key.
    WrongAlgorithm,
    BadSignature,
    WrongIssuer,
    WrongAudience,
    Expired,
    NotYetValid,
    /// No usable subject.
    BadSubject,
}

impl From<JwsError> for IdentityError {
    fn from(error: JwsError) -> Self {
        match error {
            JwsError::Malformed => Self::Malformed,
            JwsError::WrongAlgorithm => Self::WrongAlgorithm,
            JwsError::BadSignature => Self::BadSignature,
        }
    }
}

impl From<TimeError> for IdentityError {
    fn from(error: TimeError) -> Self {
        match error {
            TimeError::Expired => Self::Expired,
            // An upstream decides itself how long its tokens live.
            TimeError::NotYetValid | TimeError::BadLifetime => Self::NotYetValid,
        }
    }
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    sub: String,
    exp: NumericDate,
    iat: Option<NumericDate>,
    nbf: Option<NumericDate>,
}

/// Checks an identity token against `upstream` and `key`, the key that the token names in the upstream's set.
pub fn verify(
    token: &Unverified<'_>,
    upstream: &Upstream,
    key: &PublicKey,
    now: Timestamp,
) -> Result<Identity, IdentityError> {
    if !upstream.algorithms.contains(&key.algorithm()) {
        return Err(IdentityError::WrongAlgorithm);
    }
    let claims: Claims = token.verify(key)?;
    if claims.iss != upstream.issuer {
        return Err(IdentityError::WrongIssuer);
    }
    if !claims.aud.names(&upstream.audience) {
        return Err(IdentityError::WrongAudience);
    }
    let times = Times {
        issued_at: claims.iat,
        not_before: claims.nbf,
        expires: claims.exp,
    };
    times.check(now, SKEW, None)?;
    if !is_subject(&claims.sub) {
        return Err(IdentityError::BadSubject);
    }
    Ok(Identity {
        idp: upstream.idp.clone(),
        subject: claims.sub,
    })
}

/// Whether `subject` may name a person at an upstream: 1 to [`SUBJECT_MAX`] bytes without control characters.
pub fn is_subject(subject: &str) -> bool {
    !subject.is_empty() && subject.len() <= SUBJECT_MAX && !subject.chars().any(char::is_control)
}
