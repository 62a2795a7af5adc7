//! Hermod's own access tokens: ES256, short-lived, and never more than a hint of what the database says now.
//!
//! Header: `alg` = `ES256`, `typ` = `at+jwt` (`JWT` or none is accepted too), `kid`. Claims: `iss aud sub family_id
//! roles scope iat nbf exp jti idp idp_sub auth rev`, `scope` an array of strings. A gateway's `sub` is its id, an
//! operator's is a plain name; both have no family. Operators' tokens are signed offline with the same keys.

use serde::{Deserialize, Serialize};

use super::claims::{Audience, NumericDate, TimeError, Times};
use super::jws::{JwsError, Unverified};
use super::keyset::{KeySet, Lookup};
use super::principal::{AuthMethod, Principal, Role, Scope, Subject, is_operator_name};
use crate::ids::{FamilyId, GatewayId, TokenId, UserId};
use crate::ports::Entropy;
use crate::sql::SAFE_INTEGER_MAX;
use crate::time::{Millis, Timestamp};

const TYP: &str = "at+jwt";
const LIST_MAX: usize = 32;
const TEXT_MAX: usize = 512;

/// How long a token of this kind lives, at most.
pub const fn lifetime(method: AuthMethod) -> Millis {
    match method {
        AuthMethod::UserJwt => Millis::from_mins(60),
        AuthMethod::GatewayService | AuthMethod::Synthetic => Millis::from_mins(10),
        AuthMethod::Operator => Millis::from_mins(15),
        AuthMethod::Webhook => Millis::ZERO,
    }
}

/// Why an access token was not accepted. All of them answer 401 `unauthenticated`; the difference is for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenError {
    Malformed,
    WrongAlgorithm,
    UnknownKey,
    RetiredKey,
    BadSignature,
    WrongIssuer,
    WrongAudience,
    Expired,
    NotYetValid,
    BadLifetime,
    /// Claims that contradict each other or are out of bounds.
    BadClaims,
}

impl From<JwsError> for TokenError {
    fn from(error: JwsError) -> Self {
        match error {
            JwsError::Malformed => Self::Malformed,
            JwsError::WrongAlgorithm => Self::WrongAlgorithm,
            JwsError::BadSignature => Self::BadSignature,
        }
    }
}

impl From<TimeError> for TokenError {
    fn from(error: TimeError) -> Self {
        match error {
            TimeError::Expired => Self::Expired,
            TimeError::NotYetValid => Self::NotYetValid,
            TimeError::BadLifetime => Self::BadLifetime,
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Claims {
    iss: String,
    aud: Audience,
    sub: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    family_id: Option<FamilyId>,
    roles: Vec<Role>,
    scope: Vec<String>,
    iat: NumericDate,
    nbf: NumericDate,
    exp: NumericDate,
    jti: TokenId,
    #[serde(skip_serializing_if = "Option::is_none")]
    idp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    idp_sub: Option<String>,
    auth: AuthMethod,
    rev: i64,
}

/// What a new token is to say.
#[derive(Debug, Clone)]
pub struct Grant {
    pub subject: Subject,
    pub family: Option<FamilyId>,
    pub roles: Vec<Role>,
    pub scopes: Vec<Scope>,
    pub auth_method: AuthMethod,
    pub revision: i64,
    pub identity: Option<Identity>,
}

/// A person as an upstream names them.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The upstream's short name.
    pub idp: String,
    /// Personal: never logged.
    pub subject: String,
}

// Written by hand so that the upstream's name for a person never reaches a log.
impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity")
            .field("idp", &self.idp)
            .finish_non_exhaustive()
    }
}

/// A token just issued. Not `Debug`: it is a credential.
pub struct Minted {
    pub token: String,
    pub principal: Principal,
}

/// The token could not be signed, or `grant` contradicts itself: a defect, never a caller's fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MintError;

/// Issues an access token for `grant`, valid from the second of `now` for its kind's lifetime.
pub fn mint(
    keys: &KeySet,
    issuer: &str,
    audience: &str,
    grant: Grant,
    now: Timestamp,
    entropy: &impl Entropy,
) -> Result<Minted, MintError> {
    let issued = NumericDate::of(now);
    let expires = NumericDate::of(issued.to_timestamp().plus(lifetime(grant.auth_method)));
    let (idp, idp_sub) = grant.identity.map(|identity| (identity.idp, identity.subject)).unzip();
    let claims = Claims {
        iss: issuer.to_owned(),
        aud: Audience::One(audience.to_owned()),
        sub: grant.subject.as_str().to_owned(),
        family_id: grant.family,
        roles: grant.roles,
        scope: grant.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        iat: issued,
        nbf: issued,
        exp: expires,
        jti: TokenId::mint(now, entropy),
        idp,
        idp_sub,
        auth: grant.auth_method,
        rev: grant.revision,
    };
    let token = keys.sign(&claims, TYP).map_err(|_| MintError)?;
    let principal = principal(claims).map_err(|_| MintError)?;
    Ok(Minted { token, principal })
}

/// Checks an access token and says who it is from. Whether it was revoked since is the database's to say.
pub fn verify(
    token: &str,
    keys: &KeySet,
    issuer: &str,
    audience: &str,
    now: Timestamp,
) -> Result<Principal, TokenError> {
    let unverified = Unverified::parse(token)?;
    if !unverified.typ().is_none_or(is_access_token_type) {
        return Err(TokenError::Malformed);
    }
    let kid = unverified.kid().ok_or(TokenError::UnknownKey)?;
    let key = match keys.find(kid) {
        Lookup::Usable(key) => key,
        Lookup::Retired => return Err(TokenError::RetiredKey),
        Lookup::Unknown => return Err(TokenError::UnknownKey),
    };
    let claims: Claims = unverified.verify(key)?;
    if claims.iss != issuer {
        return Err(TokenError::WrongIssuer);
    }
    if !claims.aud.names(audience) {
        return Err(TokenError::WrongAudience);
    }
    let times = Times {
        issued_at: Some(claims.iat),
        not_before: Some(claims.nbf),
        expires: claims.exp,
    };
    // No grace at the end: the same service set the time and now reads it.
    times.check(now, Millis::ZERO, Some(lifetime(claims.auth)))?;
    principal(claims)
}

fn is_access_token_type(typ: &str) -> bool {
    let short = typ
        .get(..12)
        .filter(|head| head.eq_ignore_ascii_case("application/"))
        .map_or(Some(typ), |_| typ.get(12..));
    short.is_some_and(|short| short.eq_ignore_ascii_case(TYP) || short.eq_ignore_ascii_case("JWT"))
}

fn principal(claims: Claims) -> Result<Principal, TokenError> {
    let long = |text: &Option<String>| {
        text.as_ref()
            .is_some_and(|text| text.is_empty() || text.len() > TEXT_MAX)
    };
    if claims.roles.len() > LIST_MAX || claims.scope.len() > LIST_MAX || long(&claims.idp) || long(&claims.idp_sub) {
        return Err(TokenError::BadClaims);
    }
    if !(0..=SAFE_INTEGER_MAX).contains(&claims.rev) || claims.idp.is_some() != claims.idp_sub.is_some() {
        return Err(TokenError::BadClaims);
    }
    let bad = |_| TokenError::BadClaims;
    let (subject, gateway) = match claims.auth {
        AuthMethod::UserJwt | AuthMethod::Synthetic => (Subject::User(UserId::parse(&claims.sub).map_err(bad)?), None),
        AuthMethod::GatewayService => {
            let id = GatewayId::parse(&claims.sub).map_err(bad)?;
            (Subject::Gateway(id.clone()), Some(id))
        }
        AuthMethod::Operator if is_operator_name(&claims.sub) => (Subject::Operator(claims.sub), None),
        AuthMethod::Operator | AuthMethod::Webhook => return Err(TokenError::BadClaims),
    };
    // A user always has a family and nobody else ever does; only a person comes through an upstream.
    let of_user = matches!(subject, Subject::User(_));
    if of_user != claims.family_id.is_some() || (claims.auth != AuthMethod::UserJwt && claims.idp.is_some()) {
        return Err(TokenError::BadClaims);
    }
    Ok(Principal {
        subject,
        family: claims.family_id,
        roles: claims.roles,
        // A scope of a newer version allows nothing here, so it is passed over.
        scopes: claims.scope.iter().filter_map(|name| Scope::from_name(name)).collect(),
        jti: claims.jti,
        auth_method: claims.auth,
        gateway,
        revision: claims.rev,
        issued_at: claims.iat.to_timestamp(),
        expires_at: claims.exp.to_timestamp(),
        idp: claims.idp,
        idp_sub: claims.idp_sub,
    })
}
