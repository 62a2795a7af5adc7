//! The credentials of gateways at their channels' providers, such as bots' tokens: sealed under the master secret, and
//! sealed anew after it was rotated.
//!
//! Each page may be repeated, run twice at once or abandoned: a value is replaced only if it still is the one that was
//! read. Versions only grow, so a release with an older secret leaves a newer one's work alone.

use domain::ids::GatewayId;
use domain::keys::{Aad, MasterSecrets, MasterVersion, OwnSealed};
use domain::ports::{Entropy, Sql};
use domain::sql::{Outcome, Row, RowError, Rows, Shard, Statement};

/// How many gateways one page takes.
pub const PAGE_GATEWAYS: usize = 50;

/// What one page did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resealed {
    /// Where the next page begins; `None` when this was the last one.
    pub next: Option<GatewayId>,
    /// Credentials that now stand under the current version.
    pub resealed: u32,
    /// Credentials that no configured version opens.
    pub unreadable: u32,
}

/// The page was not done; it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotResealed;

/// Where a gateway's credential belongs.
pub fn place(gateway: &GatewayId) -> Aad<'_> {
    Aad {
        table: "gateways",
        row: gateway.as_str(),
        column: "channel_token_sealed",
    }
}

/// Reads the two columns of a gateway's credential; `None` where it has none.
pub fn read(row: &Row) -> Result<Option<OwnSealed>, RowError> {
    let version = row.optional_integer("channel_token_master_version")?;
    let sealed = row.optional_blob("channel_token_sealed")?;
    let (Some(version), Some(sealed)) = (version, sealed) else {
        return Ok(None);
    };
    Ok(Some(OwnSealed {
        master_version: MasterVersion::from_stored(version)
            .ok_or_else(|| crate::wrong("channel_token_master_version", "a version"))?,
        sealed: sealed.to_vec(),
    }))
}

/// The next gateways behind `after` whose credentials stand under a version older than `current`.
pub fn page(current: MasterVersion, after: Option<&GatewayId>) -> Statement {
    Statement {
        name: "channel_tokens_to_reseal",
        sql: "SELECT gateway_id, channel_token_master_version, channel_token_sealed FROM gateways
WHERE gateway_id > ?2 AND channel_token_master_version < CAST(?1 AS INTEGER)
ORDER BY gateway_id LIMIT 50",
        binds: vec![current.into(), after.map_or("", GatewayId::as_str).into()],
    }
}

/// Replaces a gateway's credential by itself under the current version, if it still is the one that was read.
pub fn replace(gateway: &GatewayId, old: &OwnSealed, new: &OwnSealed) -> Statement {
    Statement {
        name: "reseal_channel_token",
        sql: "UPDATE gateways SET channel_token_master_version = ?3, channel_token_sealed = ?4
WHERE gateway_id = ?1 AND channel_token_sealed = ?2",
        binds: vec![
            gateway.into(),
            old.sealed.clone().into(),
            new.master_version.into(),
            new.sealed.clone().into(),
        ],
    }
}

/// Seals one page of credentials anew under the current version.
pub async fn reseal_page(
    sql: &impl Sql,
    secrets: &MasterSecrets,
    after: Option<&GatewayId>,
    entropy: &impl Entropy,
) -> Result<Resealed, NotResealed> {
    let rows = run(sql, vec![page(secrets.current(), after)]).await?;
    let rows = rows.into_iter().next().ok_or(NotResealed)?;
    let mut done = Resealed::default();
    let mut batch = Vec::new();
    let mut last = None;
    for row in &rows.rows {
        let gateway = crate::id(row, "gateway_id", GatewayId::parse).map_err(|_| NotResealed)?;
        let old = read(row).map_err(|_| NotResealed)?.ok_or(NotResealed)?;
        let token = secrets.open_own(&place(&gateway), &old).ok();
        let new = token.and_then(|token| secrets.seal_own(&place(&gateway), &token, entropy).ok());
        match new {
            Some(new) => batch.push(replace(&gateway, &old, &new)),
            None => done.unreadable = done.unreadable.saturating_add(1),
        }
        last = Some(gateway);
    }
    done.next = last.filter(|_| rows.rows.len() >= PAGE_GATEWAYS);
    done.resealed = u32::try_from(batch.len()).unwrap_or(u32::MAX);
    if !batch.is_empty() {
        // A lost reply makes the page undone; its repetition finds fewer.
        run(sql, batch).await?;
    }
    Ok(done)
}

async fn run(sql: &impl Sql, batch: Vec<Statement>) -> Result<Vec<Rows>, NotResealed> {
    match sql.batch(Shard::Directory, batch).await {
        Outcome::Committed(rows) => Ok(rows),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => Err(NotResealed),
    }
}
