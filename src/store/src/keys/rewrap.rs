//! Rotation of the master secret: every live data key is wrapped anew under the current version, a page at a time.
//!
//! The data keys themselves do not change, so content stays as it is. A page is safe to repeat, to run twice at once
//! and to abandon: each row is replaced only if it still is wrapped under the version it was read with.

use domain::ids::DataKeyId;
use domain::keys::{MasterSecrets, WrappedKey};
use domain::ports::{Entropy, Sql};
use domain::sql::{NotStarted, Outcome, Rows, Shard, Statement, Value};

use super::KeyRow;

/// How many keys one page looks at. Its batch stays far below every limit of the database.
pub const PAGE_KEYS: usize = 50;

/// What one page did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Where the next page begins; `None` when this was the last one.
    pub next: Option<DataKeyId>,
    /// Keys of this page that now stand under the current version, those that already did included.
    pub current: u32,
    /// Keys that could not be unwrapped: their version is not configured or the row was changed.
    pub unreadable: u32,
    /// Keys that another writer replaced or destroyed meanwhile; a later walk finds them as they are then.
    pub overtaken: u32,
}

/// Why a page was not done. It may be repeated from where it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewrapError {
    /// The database was not reached, or its answer was lost and reading back failed too.
    Unavailable,
    /// The rows were not as the schema has them.
    Defect,
}

/// The next page of live keys behind `after`, in the order of their ids.
pub fn page(after: Option<&DataKeyId>) -> Statement {
    Statement {
        name: "keys_page",
        sql: "SELECT key_id, subject_kind, subject_id, master_version, wrapped FROM data_keys
WHERE key_id > ?1 AND destroyed_at IS NULL ORDER BY key_id LIMIT 50",
        binds: vec![after.map_or("", DataKeyId::as_str).into()],
    }
}

/// Replaces the wrapped form of one key, if it still is under version `old`.
pub fn replace(key: &DataKeyId, old: i64, new: &WrappedKey) -> Statement {
    Statement {
        name: "rewrap_key",
        sql: "UPDATE data_keys SET master_version = ?3, wrapped = ?4
WHERE key_id = ?1 AND master_version = CAST(?2 AS INTEGER) AND destroyed_at IS NULL
RETURNING key_id",
        binds: vec![
            key.into(),
            Value::integer(old).unwrap_or(Value::Null),
            new.master_version.into(),
            new.wrapped.clone().into(),
        ],
    }
}

/// Re-wraps the keys of one page of `shard` under the current version.
pub async fn rewrap_page(
    sql: &impl Sql,
    shard: Shard,
    secrets: &MasterSecrets,
    after: Option<&DataKeyId>,
    entropy: &impl Entropy,
) -> Result<Progress, RewrapError> {
    let current = i64::from(secrets.current().get());
    let rows = read_page(sql, shard, after).await?;
    let mut progress = Progress {
        next: None,
        current: 0,
        unreadable: 0,
        overtaken: 0,
    };
    let mut batch = Vec::new();
    for row in &rows.rows {
        let read = KeyRow::read(row).map_err(|_| RewrapError::Defect)?;
        let subject = super::subject(row).map_err(|_| RewrapError::Defect)?;
        progress.next = Some(read.key_id.clone());
        if read.master_version == current {
            progress.current = progress.current.saturating_add(1);
            continue;
        }
        let wrapped = read
            .unwrap_for(&subject, secrets)
            .ok()
            .and_then(|key| secrets.wrap(&key, entropy).ok());
        match wrapped {
            Some(new) => batch.push(replace(&read.key_id, read.master_version, &new)),
            None => progress.unreadable = progress.unreadable.saturating_add(1),
        }
    }
    if rows.rows.len() < PAGE_KEYS {
        progress.next = None;
    }
    let sent = count(batch.len());
    let replaced = if batch.is_empty() {
        0
    } else {
        write(sql, shard, current, after, batch).await?
    };
    progress.current = progress.current.saturating_add(replaced);
    progress.overtaken = sent.saturating_sub(replaced);
    Ok(progress)
}

/// How many of the batch's keys stand under the current version afterwards.
async fn write(
    sql: &impl Sql,
    shard: Shard,
    current: i64,
    after: Option<&DataKeyId>,
    batch: Vec<Statement>,
) -> Result<u32, RewrapError> {
    let keys: Vec<_> = batch
        .iter()
        .filter_map(|statement| statement.binds.first().cloned())
        .collect();
    match sql.batch(shard, batch).await {
        Outcome::Committed(results) => Ok(count(results.iter().filter(|rows| rows.first().is_some()).count())),
        Outcome::Refused(_) => Err(RewrapError::Defect),
        Outcome::NotStarted(NotStarted::Overloaded | NotStarted::Unavailable) => Err(RewrapError::Unavailable),
        Outcome::Unknown => {
            // Nobody wraps under any other version than the current one, so that version is the proof.
            let mut standing = 0_usize;
            for row in read_page(sql, shard, after).await?.rows {
                let read = KeyRow::read(&row).map_err(|_| RewrapError::Defect)?;
                let ours = keys.contains(&(&read.key_id).into());
                if ours && read.master_version == current {
                    standing = standing.saturating_add(1);
                }
            }
            if standing == 0 {
                return Err(RewrapError::Unavailable);
            }
            Ok(count(standing))
        }
    }
}

async fn read_page(sql: &impl Sql, shard: Shard, after: Option<&DataKeyId>) -> Result<Rows, RewrapError> {
    match sql.batch(shard, vec![page(after)]).await {
        Outcome::Committed(results) => results.into_iter().next().ok_or(RewrapError::Defect),
        Outcome::Refused(_) => Err(RewrapError::Defect),
        Outcome::NotStarted(_) | Outcome::Unknown => Err(RewrapError::Unavailable),
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
