//! Looking people and services up: who a token's holder is, and whom a gateway's sender is.

use domain::auth::jwk::{KeyRing, PublicKey};
use domain::auth::jws::Algorithm;
use domain::auth::upstream::{KeySource, Upstream};
use domain::auth::{Role, Scope};
use domain::ids::{AddressId, FamilyId, GatewayId, UserId};
use domain::sql::{Row, RowError, Rows, Statement};
use domain::time::Timestamp;
use serde::de::DeserializeOwned;

use crate::{id, wrong};

/// The active upstream of this issuer; see [`read_upstream`].
pub fn upstream_by_issuer(issuer: &str) -> Statement {
    Statement {
        name: "upstream_by_issuer",
        sql: "SELECT idp, issuer, audience, algorithms, jwks_url, jwks_json FROM upstreams
WHERE issuer = ?1 AND status = 'active'",
        binds: vec![issuer.into()],
    }
}

/// Reads the answer of [`upstream_by_issuer`].
pub fn read_upstream(rows: &Rows) -> Result<Option<Upstream>, RowError> {
    let Some(row) = rows.first() else { return Ok(None) };
    let keys = match (row.optional_text("jwks_url")?, row.optional_text("jwks_json")?) {
        (Some(url), None) => KeySource::Url(url.to_owned()),
        (None, Some(json)) => {
            KeySource::Pinned(KeyRing::parse(json.as_bytes()).map_err(|_| wrong("jwks_json", "a key set"))?)
        }
        (Some(_), Some(_)) | (None, None) => return Err(wrong("jwks_url", "one source of keys")),
    };
    Ok(Some(Upstream {
        idp: row.text("idp")?.to_owned(),
        issuer: row.text("issuer")?.to_owned(),
        audience: row.text("audience")?.to_owned(),
        algorithms: json::<Vec<Algorithm>>(row, "algorithms")?,
        keys,
    }))
}

/// A person who may get a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserRow {
    pub user_id: UserId,
    pub family_id: FamilyId,
    pub role: Role,
    pub revision: i64,
    pub tokens_valid_from: Timestamp,
}

/// The active user whom an upstream knows by this subject; see [`read_user`].
pub fn user_of_identity(idp: &str, subject_hash: &str) -> Statement {
    Statement {
        name: "user_of_identity",
        sql: "SELECT u.user_id, u.family_id, u.role, u.authorization_revision,
  max(u.tokens_valid_from, m.tokens_valid_from) AS tokens_valid_from
FROM identities i JOIN users u ON u.user_id = i.user_id JOIN families f ON f.family_id = u.family_id, meta m
WHERE i.idp = ?1 AND i.subject_hash = ?2 AND u.status = 'active' AND f.status = 'active' AND m.id = 1",
        binds: vec![idp.into(), subject_hash.into()],
    }
}

/// Reads the answer of [`user_of_identity`].
pub fn read_user(rows: &Rows) -> Result<Option<UserRow>, RowError> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(UserRow {
        user_id: id(row, "user_id", UserId::parse)?,
        family_id: id(row, "family_id", FamilyId::parse)?,
        role: Role::from_name(row.text("role")?).ok_or_else(|| wrong("role", "a role"))?,
        revision: row.integer("authorization_revision")?,
        tokens_valid_from: row.timestamp("tokens_valid_from")?,
    }))
}

/// A gateway that may get a token.
#[derive(Debug, Clone)]
pub struct GatewayRow {
    pub gateway_id: GatewayId,
    pub scopes: Vec<Scope>,
    pub channels: Vec<String>,
    pub profile: Option<String>,
    pub production: bool,
    pub assertion_key: PublicKey,
    pub revision: i64,
    pub tokens_valid_from: Timestamp,
}

/// The gateway, unless it is suspended; see [`read_gateway`].
pub fn gateway(gateway: &GatewayId) -> Statement {
    Statement {
        name: "gateway",
        sql: "SELECT g.gateway_id, g.scopes, g.channels, g.profile, g.production, g.assertion_jwk,
  g.authorization_revision, max(g.tokens_valid_from, m.tokens_valid_from) AS tokens_valid_from
FROM gateways g, meta m WHERE g.gateway_id = ?1 AND g.status IN ('active', 'broken') AND m.id = 1",
        binds: vec![gateway.into()],
    }
}

/// Reads the answer of [`gateway`].
pub fn read_gateway(rows: &Rows) -> Result<Option<GatewayRow>, RowError> {
    let Some(row) = rows.first() else { return Ok(None) };
    let key = PublicKey::parse(row.text("assertion_jwk")?).map_err(|_| wrong("assertion_jwk", "a public key"))?;
    Ok(Some(GatewayRow {
        gateway_id: id(row, "gateway_id", GatewayId::parse)?,
        scopes: json(row, "scopes")?,
        channels: json(row, "channels")?,
        profile: row.optional_text("profile")?.map(ToOwned::to_owned),
        production: row.flag("production")?,
        assertion_key: key,
        revision: row.integer("authorization_revision")?,
        tokens_valid_from: row.timestamp("tokens_valid_from")?,
    }))
}

/// Marks a client assertion as used and forgets old ones. The batch ends with the row of [`gateway`], read in the
/// same instant. An assertion that was used before breaks the primary key, and the batch is refused as `Constraint`.
pub fn use_assertion(
    gateway_id: &GatewayId,
    jti_hash: &str,
    remember_until: Timestamp,
    now: Timestamp,
) -> Vec<Statement> {
    vec![
        Statement {
            name: "use_assertion",
            sql: "INSERT INTO used_assertions (gateway_id, jti_hash, expires_at) VALUES (?1, ?2, ?3)",
            binds: vec![gateway_id.into(), jti_hash.into(), remember_until.into()],
        },
        Statement {
            name: "forget_assertions",
            sql: "DELETE FROM used_assertions WHERE gateway_id = ?1 AND expires_at < CAST(?2 AS INTEGER)",
            binds: vec![gateway_id.into(), now.into()],
        },
        gateway(gateway_id),
    ]
}

/// A person as a gateway's sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    pub user_id: UserId,
    pub family_id: FamilyId,
    pub address_id: AddressId,
    /// The person's authorization revision.
    pub revision: i64,
}

/// Everything on the way from an address to its person must be active: the address, the user, the family, and the
/// gateway's leave for both the channel (`?2`) and the family.
macro_rules! sender_rows {
    () => {
        "
FROM channel_addresses a
JOIN gateways g ON g.gateway_id = a.gateway_id
JOIN users u ON u.user_id = a.user_id
JOIN families f ON f.family_id = u.family_id
JOIN gateway_families p ON p.gateway_id = a.gateway_id AND p.family_id = u.family_id
WHERE a.gateway_id = ?1 AND a.channel = ?2 AND a.external_hash = ?3 AND a.status = 'active'
  AND u.status = 'active' AND f.status = 'active' AND g.status IN ('active', 'broken')
  AND EXISTS (SELECT 1 FROM json_each(g.channels) c WHERE c.value = ?2)"
    };
}
pub(crate) use sender_rows;

/// The person behind an external id of a channel, if this gateway may speak for them; see [`read_sender`].
pub fn user_of_sender(gateway: &GatewayId, channel: &str, external_hash: &str) -> Statement {
    Statement {
        name: "user_of_sender",
        sql: concat!(
            "SELECT u.user_id, u.family_id, a.address_id, u.authorization_revision",
            sender_rows!()
        ),
        binds: vec![gateway.into(), channel.into(), external_hash.into()],
    }
}

/// Reads the answer of [`user_of_sender`].
pub fn read_sender(rows: &Rows) -> Result<Option<Sender>, RowError> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Sender {
        user_id: id(row, "user_id", UserId::parse)?,
        family_id: id(row, "family_id", FamilyId::parse)?,
        address_id: id(row, "address_id", AddressId::parse)?,
        revision: row.integer("authorization_revision")?,
    }))
}

fn json<T: DeserializeOwned>(row: &Row, column: &str) -> Result<T, RowError> {
    serde_json::from_str(row.text(column)?).map_err(|_| wrong(column, "a JSON list"))
}
