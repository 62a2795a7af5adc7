//! Results kept under an `Idempotency-Key`, and the one way in which a command with such a key is run.
//!
//! The stored result and the change it tells of are written in the same batch, so one never exists without the other.

use std::rc::Rc;

use domain::guard::Guard;
use domain::ports::{Clock, Sql};
use domain::sql::{Row, RowError, Rows, Shard, Statement, Value};
use domain::time::Timestamp;

use crate::db::{Db, DbError};

/// The statement that stores a result and gives it back as its row. `?1` to `?6` are the key's; `$result` is
/// `status, response`. A row that has run out is written over.
macro_rules! store_result {
    ($result:expr, $source:literal) => {
        concat!(
            "INSERT INTO idempotency_results
  (caller, route, key_hash, request_hash, created_at, expires_at, status, response)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, ",
            $result,
            " ",
            $source,
            "
ON CONFLICT (caller, route, key_hash) DO UPDATE SET request_hash = excluded.request_hash,
  created_at = excluded.created_at, expires_at = excluded.expires_at, status = excluded.status,
  response = excluded.response
WHERE expires_at <= excluded.created_at
RETURNING status, response"
        )
    };
}
pub(crate) use store_result;

/// One use of a key: whose, for which route and which request. The hashes are keyed ones.
#[derive(Debug, Clone)]
pub struct KeyUse<'a> {
    pub caller: &'a str,
    /// The route's label, without values.
    pub route: &'a str,
    pub key_hash: &'a str,
    pub request_hash: &'a str,
    pub now: Timestamp,
}

/// What a command answered, or will answer again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredResult {
    pub status: u16,
    /// A JSON document.
    pub response: String,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    Unused,
    /// The same request: answer this again.
    Replay(StoredResult),
    /// The key belongs to another request.
    Reused,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    Done(StoredResult),
    Replayed(StoredResult),
    Reused,
    /// A guard of the command itself, `token_current` among them.
    Refused(Guard),
    /// A constraint of the schema: another row stands in the way, or one it needs is not there.
    Conflict,
    Overloaded,
    Unavailable,
    /// The schema, a statement or a row mapping is wrong.
    Defect,
}

impl KeyUse<'_> {
    fn place(&self) -> Vec<Value> {
        vec![
            self.caller.into(),
            self.route.into(),
            self.key_hash.into(),
            self.now.into(),
        ]
    }

    /// Looks the key up; see [`Self::read`].
    pub fn look_up(&self) -> Statement {
        Statement {
            name: "idempotency_result",
            sql: "SELECT request_hash, status, response FROM idempotency_results
WHERE caller = ?1 AND route = ?2 AND key_hash = ?3 AND expires_at > CAST(?4 AS INTEGER)",
            binds: self.place(),
        }
    }

    /// Reads the answer of [`Self::look_up`].
    pub fn read(&self, rows: &Rows) -> Result<Known, RowError> {
        let Some(row) = rows.first() else {
            return Ok(Known::Unused);
        };
        if row.text("request_hash")? != self.request_hash {
            return Ok(Known::Reused);
        }
        Ok(Known::Replay(read_result(row)?))
    }

    /// The guard that the key was not used before.
    pub fn key_unused(&self) -> Statement {
        Statement {
            name: Guard::KeyUnused.label(),
            sql: "INSERT INTO must(label, ok)
SELECT 'key_unused', NOT EXISTS (SELECT 1 FROM idempotency_results
  WHERE caller = ?1 AND route = ?2 AND key_hash = ?3 AND expires_at > CAST(?4 AS INTEGER))",
            binds: self.place(),
        }
    }

    /// The first six parameters of every statement that stores a result.
    pub(crate) fn result_binds(&self) -> Vec<Value> {
        let expires = self.now.plus(domain::idempotency::RETENTION);
        vec![
            self.caller.into(),
            self.route.into(),
            self.key_hash.into(),
            self.request_hash.into(),
            self.now.into(),
            expires.into(),
        ]
    }

    /// Stores a result that is known beforehand, so that the same key keeps telling the same.
    pub fn store(&self, status: u16, response: &str) -> Statement {
        let mut binds = self.result_binds();
        binds.extend([u32::from(status).into(), response.into()]);
        Statement {
            name: "store_known_result",
            sql: store_result!("CAST(?7 AS INTEGER), ?8", "WHERE true"),
            binds,
        }
    }
}

/// Deletes up to `limit` results whose time has passed.
pub fn purge(now: Timestamp, limit: u32) -> Statement {
    Statement {
        name: "purge_idempotency_results",
        sql: "DELETE FROM idempotency_results WHERE (caller, route, key_hash) IN
  (SELECT caller, route, key_hash FROM idempotency_results
   WHERE expires_at <= CAST(?1 AS INTEGER) ORDER BY expires_at LIMIT CAST(?2 AS INTEGER))",
        binds: vec![now.into(), limit.into()],
    }
}

fn read_result(row: &Row) -> Result<StoredResult, RowError> {
    let status = u16::try_from(row.integer("status")?).map_err(|_| crate::wrong("status", "an HTTP status"))?;
    Ok(StoredResult {
        status,
        response: row.text("response")?.to_owned(),
    })
}

/// Runs the batch of a command under `key`. Its last statement must store the result.
///
/// A lost reply is resolved by reading the key back: what stands there is this request's result, whichever try
/// wrote it.
pub async fn settle(
    sql: &impl Sql,
    clock: &impl Clock,
    shard: Shard,
    key: &KeyUse<'_>,
    batch: Vec<Statement>,
) -> Settled {
    let db = Db::new(sql, clock, Rc::default());
    let ours = |rows: &[Rows]| match rows.first().map(|rows| key.read(rows)).transpose()? {
        Some(Known::Replay(result)) => Ok(Some(result)),
        Some(Known::Unused | Known::Reused) | None => Ok(None),
    };
    match db.write(shard, batch, result, vec![key.look_up()], ours).await {
        Ok(result) => Settled::Done(result),
        Err(DbError::Refused(Guard::KeyUnused)) => match db.read(shard, vec![key.look_up()]).await {
            Ok(rows) => match rows.first().map(|rows| key.read(rows)) {
                Some(Ok(Known::Replay(result))) => Settled::Replayed(result),
                Some(Ok(Known::Reused)) => Settled::Reused,
                // The other request's result ran out in between: the caller may try again.
                Some(Ok(Known::Unused)) => Settled::Unavailable,
                Some(Err(_)) | None => Settled::Defect,
            },
            Err(error) => error.into(),
        },
        Err(error) => error.into(),
    }
}

fn result(rows: &[Rows]) -> Result<StoredResult, RowError> {
    let row = rows.last().and_then(Rows::first);
    row.map_or_else(|| Err(crate::wrong("response", "the stored result")), read_result)
}

impl From<DbError> for Settled {
    fn from(error: DbError) -> Self {
        match error {
            DbError::Refused(guard) => Self::Refused(guard),
            DbError::Conflict => Self::Conflict,
            DbError::Overloaded => Self::Overloaded,
            DbError::Unavailable => Self::Unavailable,
            DbError::Defect => Self::Defect,
        }
    }
}
