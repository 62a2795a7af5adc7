//! Deletes what its time has passed for: results kept under idempotency keys, settled messages, remembered updates,
//! link codes and idle lanes.
//!
//! Used client assertions have a time too; they are deleted when their gateway presents its next one.

use domain::ports::Sql;
use domain::sql::{Outcome, Shard};
use domain::time::Timestamp;

/// The most rows of each kind deleted in one go, once a minute.
const ROWS_MAX: u32 = 500;

/// Deletes up to 500 rows of each kind. False when the database did not take it; the next go repeats it.
pub async fn purge(sql: &impl Sql, now: Timestamp) -> bool {
    let mut batch = vec![store::idempotency::purge(now, ROWS_MAX)];
    batch.extend(store::outbox::purge::purge(now, ROWS_MAX));
    match sql.batch(Shard::Directory, batch).await {
        Outcome::Committed(_) => true,
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => false,
    }
}
