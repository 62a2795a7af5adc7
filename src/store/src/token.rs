//! Whether a verified token still counts: revocation times, account states and the authorization revision.
//!
//! A signature proves only that a token was issued. These statements stand in the first batch of every protected
//! route, so that what was revoked since is refused (`token_stale`) without a round trip of its own.

use domain::auth::{AuthMethod, Principal, Subject};
use domain::guard::Guard;
use domain::ids::{FamilyId, GatewayId, TokenId, UserId};
use domain::sql::{Row, RowError, Rows, Statement, Value};
use domain::time::Timestamp;

// The issue time is a whole second, so a token issued in the very second of a revocation is refused as well:
// asking again a moment later costs less than letting a revoked one pass.
macro_rules! user_is_current {
    () => {
        "EXISTS (SELECT 1 FROM users u JOIN families f ON f.family_id = u.family_id, meta m
  WHERE u.user_id = ?1 AND u.family_id = ?2 AND u.status = 'active' AND f.status = 'active'
    AND u.authorization_revision = CAST(?3 AS INTEGER)
    AND u.tokens_valid_from <= CAST(?4 AS INTEGER)
    AND m.id = 1 AND m.tokens_valid_from <= CAST(?4 AS INTEGER))"
    };
}

// A gateway marked broken cannot send on its channel; what it hands in is still taken.
macro_rules! gateway_is_current {
    () => {
        "EXISTS (SELECT 1 FROM gateways g, meta m
  WHERE g.gateway_id = ?1 AND g.status IN ('active', 'broken')
    AND g.authorization_revision = CAST(?2 AS INTEGER)
    AND g.tokens_valid_from <= CAST(?3 AS INTEGER)
    AND m.id = 1 AND m.tokens_valid_from <= CAST(?3 AS INTEGER))"
    };
}

macro_rules! operator_is_current {
    () => {
        "EXISTS (SELECT 1 FROM meta m WHERE m.id = 1 AND m.tokens_valid_from <= CAST(?1 AS INTEGER))"
    };
}

/// The guard `token_current` for the head of a write batch.
pub fn token_current(principal: &Principal) -> Statement {
    let sql = match principal.subject {
        Subject::User(_) => concat!(
            "INSERT INTO must(label, ok) SELECT 'token_current', ",
            user_is_current!()
        ),
        Subject::Gateway(_) => concat!(
            "INSERT INTO must(label, ok) SELECT 'token_current', ",
            gateway_is_current!()
        ),
        Subject::Operator(_) => concat!(
            "INSERT INTO must(label, ok) SELECT 'token_current', ",
            operator_is_current!()
        ),
    };
    Statement {
        name: "token_current",
        sql,
        binds: binds(principal),
    }
}

/// The guards `token_current` for a batch that writes on behalf of `user`: the token still counts, and so does the
/// person. A gateway's token says nothing of the people it speaks for, so theirs is a guard of its own; that the
/// gateway may speak for their family is part of its revision.
pub fn may_act_for(principal: &Principal, user: &UserId, family: &FamilyId) -> Vec<Statement> {
    match principal.subject {
        Subject::User(_) => vec![token_current(principal)],
        Subject::Gateway(_) | Subject::Operator(_) => vec![
            token_current(principal),
            Statement {
                name: Guard::TokenCurrent.label(),
                sql: "INSERT INTO must(label, ok)
SELECT 'token_current', EXISTS (SELECT 1 FROM users u JOIN families f ON f.family_id = u.family_id
  WHERE u.user_id = ?1 AND u.family_id = ?2 AND u.status = 'active' AND f.status = 'active')",
                binds: vec![user.into(), family.into()],
            },
        ],
    }
}

/// One row with `fresh` 0 or 1, for the head of a read batch; see [`is_fresh`].
pub fn freshness(principal: &Principal) -> Statement {
    let sql = match principal.subject {
        Subject::User(_) => concat!("SELECT ", user_is_current!(), " AS fresh"),
        Subject::Gateway(_) => concat!("SELECT ", gateway_is_current!(), " AS fresh"),
        Subject::Operator(_) => concat!("SELECT ", operator_is_current!(), " AS fresh"),
    };
    Statement {
        name: "token_freshness",
        sql,
        binds: binds(principal),
    }
}

/// Reads the answer of [`freshness`]; no row counts as stale.
pub fn is_fresh(rows: &Rows) -> Result<bool, RowError> {
    rows.first().map_or(Ok(false), |row: &Row| row.flag("fresh"))
}

fn binds(principal: &Principal) -> Vec<Value> {
    // A revision or family that cannot be bound becomes NULL, which equals nothing: the token is then stale.
    let revision = Value::integer(principal.revision).unwrap_or(Value::Null);
    let issued_at = Value::from(principal.issued_at);
    match &principal.subject {
        Subject::User(user) => {
            vec![
                user.into(),
                principal.family.as_ref().map_or(Value::Null, Value::from),
                revision,
                issued_at,
            ]
        }
        Subject::Gateway(gateway) => vec![gateway.into(), revision, issued_at],
        Subject::Operator(_) => vec![issued_at],
    }
}

/// Every statement of this module with sample values.
pub fn catalogue() -> Option<Vec<Statement>> {
    let at = Timestamp::from_millis(1_783_728_000_000);
    let (user, family) = (
        UserId::parse("user_00sample").ok()?,
        FamilyId::parse("family_00sample").ok()?,
    );
    let subjects = [
        Subject::User(user.clone()),
        Subject::Gateway(GatewayId::parse("gateway_00sample").ok()?),
        Subject::Operator("sample".to_owned()),
    ];
    let mut all = Vec::new();
    for subject in subjects {
        let principal = Principal {
            subject,
            family: Some(family.clone()),
            roles: vec![],
            scopes: vec![],
            jti: TokenId::parse("jwt_00sample").ok()?,
            auth_method: AuthMethod::UserJwt,
            gateway: None,
            revision: 1,
            issued_at: at,
            expires_at: at,
            idp: None,
            idp_sub: None,
        };
        all.push(freshness(&principal));
        all.extend(may_act_for(&principal, &user, &family));
    }
    Some(all)
}
