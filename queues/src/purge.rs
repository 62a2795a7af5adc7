//! Deletes what its time has passed for: results kept under idempotency keys, settled messages, remembered updates of
//! channels, link codes and lanes that nothing waits in.
//!
//! Used client assertions have a time too; they are deleted when their gateway presents its next one.
//!
//! Every await, and why repeating it is safe: both delete what is past its time, and there is nothing to be read first.

use domain::ids::HOME_SHARD;
use domain::ports::Sql;
use domain::sql::Shard;
use domain::time::Timestamp;

use crate::sweep::rows;

/// The most results deleted in one go, once a minute: far more than operators and gateways can make in that time.
const RESULTS_MAX: u32 = 500;

/// The most messages, updates, codes and lanes deleted in one go, of each: nearly three million a day.
const MESSAGES_MAX: u32 = 2_000;

/// Deletes a bounded number of rows. False when the database did not take it; the next go repeats it.
pub async fn purge(sql: &impl Sql, now: Timestamp) -> bool {
    let results = vec![store::idempotency::purge(now, RESULTS_MAX)];
    let messages = store::outbox::purge::purge(now, MESSAGES_MAX);
    let results = rows(sql, Shard::Directory, results).await;
    let messages = rows(sql, Shard::User(HOME_SHARD), messages).await;
    results.is_some() && messages.is_some()
}
