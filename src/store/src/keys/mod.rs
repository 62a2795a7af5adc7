//! Data keys as they are stored: wrapped, and gone for good once destroyed.

pub mod rewrap;

use domain::guard::Guard;
use domain::ids::{DataKeyId, FamilyId, UserId};
use domain::keys::{DataKey, KeySubject, MasterSecrets, MasterVersion, OpenError, WrappedKey};
use domain::sql::{Row, RowError, Statement};
use domain::time::Timestamp;

/// A data key's row, still wrapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    pub key_id: DataKeyId,
    pub master_version: i64,
    pub wrapped: Vec<u8>,
}

impl KeyRow {
    /// Reads a row of [`live_key`].
    pub fn read(row: &Row) -> Result<Self, RowError> {
        Ok(Self {
            key_id: crate::id(row, "key_id", DataKeyId::parse)?,
            master_version: row.integer("master_version")?,
            wrapped: row.blob("wrapped")?.to_vec(),
        })
    }

    /// The key in the clear, if this row really is `subject`'s.
    pub fn unwrap_for(&self, subject: &KeySubject, secrets: &MasterSecrets) -> Result<DataKey, OpenError> {
        let version = u32::try_from(self.master_version).map_err(|_| OpenError::Form)?;
        let wrapped = WrappedKey {
            master_version: MasterVersion::new(version),
            wrapped: self.wrapped.clone(),
        };
        secrets.unwrap_key(&self.key_id, subject, &wrapped)
    }
}

/// The subject's live data key; no row once it was destroyed. See [`KeyRow::read`].
pub fn live_key(subject: &KeySubject) -> Statement {
    Statement {
        name: "live_key",
        sql: "SELECT key_id, master_version, wrapped FROM data_keys
WHERE subject_kind = ?1 AND subject_id = ?2 AND destroyed_at IS NULL",
        binds: vec![subject.kind().into(), subject.id().into()],
    }
}

/// The user's live data key.
pub fn live_key_of_user(user: &UserId) -> Statement {
    live_key(&KeySubject::User(user.clone()))
}

/// The live data key that a sealed value names; no row once it was destroyed. See [`KeyRow::read`].
pub fn key_by_id(key: &DataKeyId) -> Statement {
    Statement {
        name: "key_by_id",
        sql: "SELECT key_id, master_version, wrapped FROM data_keys WHERE key_id = ?1 AND destroyed_at IS NULL",
        binds: vec![key.into()],
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

/// Gives the subject its data key, unless it has a live one already: then the older one stays.
pub fn insert_key(key: &DataKey, wrapped: &WrappedKey, now: Timestamp) -> Statement {
    Statement {
        name: "insert_key",
        sql: "INSERT INTO data_keys (key_id, subject_kind, subject_id, master_version, wrapped, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (subject_kind, subject_id) WHERE destroyed_at IS NULL DO NOTHING",
        binds: vec![
            key.id().into(),
            key.subject().kind().into(),
            key.subject().id().into(),
            wrapped.master_version.into(),
            wrapped.wrapped.clone().into(),
            now.into(),
        ],
    }
}

/// Destroys the subject's live data key: everything sealed under it is unreadable from here on.
pub fn destroy_key(subject: &KeySubject, now: Timestamp) -> Statement {
    Statement {
        name: "destroy_key",
        sql: "UPDATE data_keys SET wrapped = NULL, destroyed_at = ?3
WHERE subject_kind = ?1 AND subject_id = ?2 AND destroyed_at IS NULL",
        binds: vec![subject.kind().into(), subject.id().into(), now.into()],
    }
}

/// Reads the subject of a row of [`rewrap::page`].
fn subject(row: &Row) -> Result<KeySubject, RowError> {
    match row.text("subject_kind")? {
        "user" => crate::id(row, "subject_id", UserId::parse).map(KeySubject::User),
        "family" => crate::id(row, "subject_id", FamilyId::parse).map(KeySubject::Family),
        _ => Err(crate::wrong("subject_kind", "user or family")),
    }
}

/// Every statement of this module with sample values.
pub fn catalogue() -> Option<Vec<Statement>> {
    struct Zeros;
    impl domain::ports::Entropy for Zeros {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0);
        }
    }
    let id = DataKeyId::parse("key_00sample").ok()?;
    let subject = KeySubject::User(UserId::parse("user_00sample").ok()?);
    let key = DataKey::generate(id.clone(), subject.clone(), &Zeros);
    let wrapped = WrappedKey {
        master_version: MasterVersion::new(1),
        wrapped: vec![1],
    };
    let now = Timestamp::from_millis(1_783_728_000_000);
    Some(vec![
        live_key(&subject),
        key_by_id(&id),
        key_live(&id),
        insert_key(&key, &wrapped, now),
        destroy_key(&subject, now),
        rewrap::page(MasterVersion::new(2), &rewrap::Place::default()),
        rewrap::replace(&id, 1, &wrapped),
    ])
}
