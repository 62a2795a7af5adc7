//! `POST /auth/token`: an upstream identity token or a gateway's client assertion becomes an access token.
//!
//! Who the token is for comes out of the credential and the directory, never out of the request's body.

use domain::auth::jws::Unverified;
use domain::auth::provisioning::scopes_of_role;
use domain::auth::token::{self, Grant, Identity};
use domain::auth::upstream::{self, KeySource, Presented, Upstream};
use domain::auth::{AuthMethod, Scope, Subject, assertion};
use domain::ids::GatewayId;
use domain::keys::HashLabel;
use domain::ports::Sql;
use domain::problem::{Code, Problem};
use domain::sql::{NotStarted, Outcome, Refusal, Rows, Shard};
use domain::time::{Millis, Timestamp};
use serde::Serialize;
use store::db::DbError;
use store::directory::{self, GatewayRow};

use super::batches::read;
use super::problem::of_db;
use super::{Call, Handled, Reply};

#[derive(Serialize)]
struct Answer {
    access_token: String,
    token_type: &'static str,
    expires_in: i64,
    /// The scopes, separated by spaces (RFC 6749 section 3.3).
    scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    family_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway_id: Option<String>,
}

fn refused() -> Problem {
    Problem::new(Code::Unauthenticated)
}

fn defect() -> Problem {
    Problem::new(Code::Internal)
}

/// Exchanges the request's credential.
pub async fn exchange(call: &Call) -> Handled {
    check_body(call)?;
    let credential = Unverified::parse(call.credential()?).map_err(|_| refused())?;
    match upstream::presented_by(&credential).map_err(|_| refused())? {
        Presented::Gateway(gateway) => for_gateway(call, &credential, &gateway).await,
        Presented::Issuer(issuer) => for_person(call, &credential, &issuer).await,
    }
}

// Nothing can be asked for, so a body that asks is a misunderstanding and is told so.
fn check_body(call: &Call) -> Result<(), Problem> {
    let empty = call.body.trim().is_empty() || call.json()?.as_object().is_some_and(serde_json::Map::is_empty);
    if empty {
        Ok(())
    } else {
        Err(Problem::new(Code::InvalidBody).with_detail("This request takes no body members."))
    }
}

async fn for_person(call: &Call, credential: &Unverified<'_>, issuer: &str) -> Handled {
    let rows = read(call, Shard::Directory, vec![directory::upstream_by_issuer(issuer)]).await?;
    let upstream = directory::read_upstream(first(&rows)?)
        .map_err(|_| defect())?
        .ok_or_else(refused)?;
    let identity = verify_identity(call, credential, &upstream).await?;
    let parts = [identity.idp.as_bytes(), identity.subject.as_bytes()];
    let subject_hash = call.app.master.keyed_hash_of(HashLabel::IdentitySubject, &parts);
    let rows = read(
        call,
        Shard::Directory,
        vec![directory::user_of_identity(&identity.idp, &subject_hash)],
    )
    .await?;
    let user = directory::read_user(first(&rows)?)
        .map_err(|_| defect())?
        .ok_or(Problem::new(Code::Forbidden).with_detail("No active user belongs to this identity."))?;
    let grant = Grant {
        subject: Subject::User(user.user_id),
        family: Some(user.family_id),
        roles: vec![user.role],
        scopes: scopes_of_role(user.role).to_vec(),
        auth_method: AuthMethod::UserJwt,
        revision: user.revision,
        identity: Some(identity),
    };
    issue(call, grant, user.tokens_valid_from)
}

async fn verify_identity(call: &Call, credential: &Unverified<'_>, upstream: &Upstream) -> Result<Identity, Problem> {
    // Before any key is looked for: no fetch for a token that cannot be right.
    if !upstream.algorithms.contains(&credential.algorithm()) {
        return Err(refused());
    }
    let key = match &upstream.keys {
        KeySource::Pinned(ring) => ring.find(credential.kid()).cloned().ok_or_else(refused)?,
        KeySource::Url(url) => {
            call.app
                .upstream_keys
                .find(call, &upstream.idp, url, credential.kid())
                .await?
        }
    };
    upstream::verify(credential, upstream, &key, call.now()).map_err(|_| refused())
}

async fn for_gateway(call: &Call, credential: &Unverified<'_>, gateway: &GatewayId) -> Handled {
    let rows = read(call, Shard::Directory, vec![directory::gateway(gateway)]).await?;
    let row = read_gateway(first(&rows)?)?;
    let proven = assertion::verify(
        credential,
        gateway,
        &row.assertion_key,
        &call.app.settings.issuer,
        call.now(),
    )
    .map_err(|_| refused())?;
    let parts = [gateway.as_str().as_bytes(), proven.jti.as_bytes()];
    let jti_hash = call.app.master.keyed_hash_of(HashLabel::AssertionId, &parts);
    let batch = directory::use_assertion(gateway, &jti_hash, proven.remember_until, call.now());
    let rows = match call.sql.batch(Shard::Directory, batch).await {
        Outcome::Committed(rows) => rows,
        // Used before.
        Outcome::Refused(Refusal::Constraint) => return Err(refused()),
        Outcome::Refused(Refusal::Guard(_) | Refusal::Malformed) => return Err(defect()),
        Outcome::NotStarted(NotStarted::Overloaded) => return Err(of_db(DbError::Overloaded)),
        // Where the reply was lost, the assertion may be used up: trying again here could only say so. The gateway
        // signs another.
        Outcome::NotStarted(NotStarted::Unavailable) | Outcome::Unknown => return Err(of_db(DbError::Unavailable)),
    };
    // As the row is now, in the instant in which the assertion was used up.
    let row = read_gateway(rows.last().ok_or_else(defect)?)?;
    let grant = Grant {
        subject: Subject::Gateway(row.gateway_id),
        family: None,
        roles: vec![],
        scopes: row.scopes,
        auth_method: AuthMethod::GatewayService,
        revision: row.revision,
        identity: None,
    };
    issue(call, grant, row.tokens_valid_from)
}

fn first(rows: &[Rows]) -> Result<&Rows, Problem> {
    rows.first().ok_or_else(defect)
}

fn read_gateway(rows: &Rows) -> Result<GatewayRow, Problem> {
    directory::read_gateway(rows).map_err(|_| defect())?.ok_or_else(refused)
}

/// Signs the token. One from the very second of a revocation would be stale at once, so that second is waited out.
fn issue(call: &Call, grant: Grant, tokens_valid_from: Timestamp) -> Handled {
    let settings = &call.app.settings;
    let method = grant.auth_method;
    let minted = token::mint(
        &call.app.keys,
        &settings.issuer,
        &settings.audience,
        grant,
        call.now(),
        &call.app.entropy,
    )
    .map_err(|_| defect())?;
    if minted.principal.issued_at < tokens_valid_from {
        return Err(Problem::new(Code::Unavailable).with_retry_after(Millis::from_secs(1)));
    }
    let scopes: Vec<&str> = minted
        .principal
        .scopes
        .iter()
        .map(|scope: &Scope| scope.as_str())
        .collect();
    let answer = Answer {
        token_type: "Bearer",
        expires_in: token::lifetime(method).ceil_secs(),
        scope: scopes.join(" "),
        user_id: minted.principal.user().map(ToString::to_string),
        family_id: minted.principal.family.as_ref().map(ToString::to_string),
        gateway_id: minted.principal.gateway.as_ref().map(ToString::to_string),
        access_token: minted.token,
    };
    Ok(Reply::json(200, &answer))
}
