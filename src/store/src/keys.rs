//! Data keys as they are stored: wrapped, and gone for good once destroyed.

use domain::guard::Guard;
use domain::ids::{DataKeyId, UserId};
use domain::sql::{Row, RowError, Statement};

/// A data key's row, still wrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    pub key_id: DataKeyId,
    pub master_version: i64,
    pub wrapped: Vec<u8>,
}

impl KeyRow {
    /// Reads a row of [`live_key_of_user`].
    pub fn read(row: &Row) -> Result<Self, RowError> {
        Ok(Self {
            key_id: crate::id(row, "key_id", DataKeyId::parse)?,
            master_version: row.integer("master_version")?,
            wrapped: row.blob("wrapped")?.to_vec(),
        })
    }
}

/// The user's live data key; no row once it was destroyed.
pub fn live_key_of_user(user: &UserId) -> Statement {
    Statement {
        name: "live_key_of_user",
        sql: "SELECT key_id, master_version, wrapped FROM data_keys
WHERE subject_kind = 'user' AND subject_id = ?1 AND destroyed_at IS NULL",
        binds: vec![user.into()],
    }
}

/// The guard that the key still exists: no content is written under a key that was destroyed.
pub fn key_live(key: &DataKeyId) -> Statement {
    Statement {
        name: Guard::KeyLive.label(),
        sql: "INSERT INTO must(label, ok)
SELECT 'key_live', EXISTS (SELECT 1 FROM data_keys WHERE key_id = ?1 AND destroyed_at IS NULL)",
        binds: vec![key.into()],
    }
}
