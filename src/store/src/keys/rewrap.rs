//! Rotation of the master secret: every live data key is wrapped anew under the current version, a page at a time.
//!
//! The data keys themselves do not change, so content stays as it is. A page is safe to repeat, to run twice at once
//! and to abandon: each row is replaced only if it still is wrapped under the version it was read with. Versions only
//! grow, so while two releases run side by side the one with the older secret leaves the newer one's work alone.

use domain::ids::DataKeyId;
use domain::keys::{MasterSecrets, MasterVersion, WrappedKey};
use domain::ports::{Entropy, Sql};
use domain::sql::{NotStarted, Outcome, Row, RowError, Rows, Shard, Statement, Value};

use super::KeyRow;

/// How many keys one page takes. Its batch stays far below every limit of the database.
pub const PAGE_KEYS: usize = 50;

/// Where a walk stands: behind this key, in the order of version and id. The default is the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    master_version: i64,
    key_id: Option<DataKeyId>,
}

/// What one page did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// Where the next page begins; `None` when this was the last one.
    pub next: Option<Place>,
    /// Keys that now stand under the current version.
    pub rewrapped: u32,
    /// Keys that could not be unwrapped: their version is not configured or the row was changed.
    pub unreadable: u32,
    /// Keys that another writer replaced or destroyed meanwhile.
    pub overtaken: u32,
}

/// Why a page was not done. It may be repeated from where it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewrapError {
    /// The database was not reached, or its answer was lost and nothing of the batch was found.
    Unavailable,
    /// The rows were not as the schema has them.
    Defect,
}

/// The next live keys behind `after` that stand under a version older than `current`.
pub fn page(current: MasterVersion, after: &Place) -> Statement {
    Statement {
        name: "keys_to_rewrap",
        sql: "SELECT key_id, subject_kind, subject_id, master_version, wrapped FROM data_keys
WHERE destroyed_at IS NULL AND master_version < CAST(?1 AS INTEGER)
  AND (master_version, key_id) > (CAST(?2 AS INTEGER), ?3)
ORDER BY master_version, key_id LIMIT 50",
        binds: vec![
            current.into(),
            Value::integer(after.master_version).unwrap_or(Value::Null),
            after.key_id.as_ref().map_or("", DataKeyId::as_str).into(),
        ],
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

/// Re-wraps one page of `shard` under the current version.
pub async fn rewrap_page(
    sql: &impl Sql,
    shard: Shard,
    secrets: &MasterSecrets,
    after: &Place,
    entropy: &impl Entropy,
) -> Result<Progress, RewrapError> {
    let rows = read_page(sql, shard, secrets, after).await?;
    let full = rows.rows.len() >= PAGE_KEYS;
    let mut next = None;
    let mut unreadable = 0_u32;
    let mut batch = Vec::new();
    for row in &rows.rows {
        let read = KeyRow::read(row)?;
        let subject = super::subject(row)?;
        let wrapped = read
            .unwrap_for(&subject, secrets)
            .ok()
            .and_then(|key| secrets.wrap(&key, entropy).ok());
        match wrapped {
            Some(new) => batch.push(replace(&read.key_id, read.master_version, &new)),
            None => unreadable = unreadable.saturating_add(1),
        }
        next = Some(Place {
            master_version: read.master_version,
            key_id: Some(read.key_id),
        });
    }
    let sent = count(batch.len());
    let rewrapped = if batch.is_empty() {
        0
    } else {
        write(sql, shard, secrets, after, batch).await?
    };
    Ok(Progress {
        next: next.filter(|_| full),
        rewrapped,
        unreadable,
        overtaken: sent.saturating_sub(rewrapped),
    })
}

/// Runs the batch and says how many of its keys were replaced.
async fn write(
    sql: &impl Sql,
    shard: Shard,
    secrets: &MasterSecrets,
    after: &Place,
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
            // A key that was replaced no longer is on the list.
            let left = read_page(sql, shard, secrets, after).await?;
            let still_old = |row: &Row| row.value("key_id").is_ok_and(|key| keys.contains(key));
            let left = left.rows.iter().filter(|row| still_old(row)).count();
            match keys.len().saturating_sub(left) {
                0 => Err(RewrapError::Unavailable),
                replaced => Ok(count(replaced)),
            }
        }
    }
}

async fn read_page(sql: &impl Sql, shard: Shard, secrets: &MasterSecrets, after: &Place) -> Result<Rows, RewrapError> {
    match sql.batch(shard, vec![page(secrets.current(), after)]).await {
        Outcome::Committed(results) => results.into_iter().next().ok_or(RewrapError::Defect),
        Outcome::Refused(_) => Err(RewrapError::Defect),
        Outcome::NotStarted(_) | Outcome::Unknown => Err(RewrapError::Unavailable),
    }
}

impl From<RowError> for RewrapError {
    fn from(_: RowError) -> Self {
        Self::Defect
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
