//! Deletes what its time has passed for: results kept under idempotency keys.
//!
//! Used client assertions have a time too; they are deleted when their gateway presents its next one.

use domain::ports::Sql;
use domain::sql::{Outcome, Shard};
use domain::time::Timestamp;

/// The most rows deleted in one go, once a minute: far more than operators and gateways can make in that time.
const ROWS_MAX: u32 = 500;

/// Deletes up to 500 rows. False when the database did not take it; the next go repeats it.
pub async fn purge(sql: &impl Sql, now: Timestamp) -> bool {
    let batch = vec![store::idempotency::purge(now, ROWS_MAX)];
    match sql.batch(Shard::Directory, batch).await {
        Outcome::Committed(_) => true,
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => false,
    }
}
