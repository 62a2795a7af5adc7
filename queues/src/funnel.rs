//! The funnel, once a minute: counts what got stuck between a message's acceptance and its delivery.
//!
//! It changes nothing but its own lease, so missed minutes and overlapping rounds do no harm.
//!
//! Every await, and why repeating or overlapping it is safe:
//! 1. Taking the funnel's lease only spares work.
//! 2. Counting writes nothing.

use domain::ids::{HOME_SHARD, LeaseToken};
use domain::ports::{Clock, Entropy, Sql};
use domain::sql::Shard;
use domain::time::Millis;
use store::ledger::funnel::{Counts, counts, read_counts};
use store::ledger::sweep::{Duty, claim, read_claim};

use crate::sweep::rows;

/// How long one round keeps the next one away.
const LEASE: Millis = Millis::from_secs(50);

/// What came of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Funnel {
    /// Another round held the lease.
    Skipped,
    Counted(Counts),
    /// The database did not answer; the next round counts again.
    Failed,
}

/// Counts once.
pub async fn reconcile(sql: &impl Sql, clock: &impl Clock, entropy: &impl Entropy) -> Funnel {
    let now = clock.now();
    let (shard, token) = (Shard::User(HOME_SHARD), LeaseToken::mint(now, entropy));
    // await 1
    match rows(sql, shard, claim(Duty::Funnel, &token, now, now.plus(LEASE))).await {
        Some(rows) if read_claim(&rows) => {}
        Some(_) => return Funnel::Skipped,
        None => return Funnel::Failed,
    }
    // await 2
    let counted = rows(sql, shard, counts(now)).await;
    match counted.as_deref().map(read_counts) {
        Some(Ok(counts)) => Funnel::Counted(counts),
        Some(Err(_)) | None => Funnel::Failed,
    }
}
