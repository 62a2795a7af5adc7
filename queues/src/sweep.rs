//! The sweep, once a minute: ends answers that nobody took, and has unfinished turns looked at again.
//!
//! Every await, and why repeating or overlapping it is safe:
//! 1. Taking the sweep's lease only spares work.
//! 2. Ending untaken answers names only turns that are still `persisted`.
//! 3. Reading who has unfinished turns writes nothing.
//! 4. A `generate` message makes an object look into the ledger; two make it look twice.

use domain::ids::{HOME_SHARD, LeaseToken};
use domain::ports::{Clock, Entropy, Queue, Sql};
use domain::sql::{Outcome, Rows, Shard, Statement};
use domain::time::Millis;
use store::ledger::sweep;

use crate::message::{Job, JobMessage};

/// How long one sweep keeps the next one away.
const LEASE: Millis = Millis::from_secs(50);

/// A turn this old without an answer is looked at, whoever should be at it.
const STUCK_AFTER: Millis = Millis::from_secs(30);

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Another sweep held the lease.
    pub skipped: bool,
    /// Turns ended because nobody took their answer.
    pub untaken: usize,
    /// Users whose unfinished turns were asked to be looked at.
    pub woken: usize,
    /// Steps that the database or the queue did not take; the next sweep repeats them.
    pub failed: usize,
}

/// Sweeps once.
pub async fn sweep(sql: &impl Sql, queue: &impl Queue, clock: &impl Clock, entropy: &impl Entropy) -> Swept {
    let mut swept = Swept::default();
    let now = clock.now();
    let token = LeaseToken::mint(now, entropy);
    // await 1
    match rows(sql, sweep::claim(&token, now, now.plus(LEASE))).await {
        Some(rows) if rows.first().is_some_and(|rows| !rows.rows.is_empty()) => {}
        Some(_) => return Swept { skipped: true, ..swept },
        None => return Swept { failed: 1, ..swept },
    }
    // await 2
    match rows(sql, sweep::end_untaken(now)).await {
        Some(rows) => swept.untaken = rows.last().map_or(0, |rows| rows.rows.len()),
        None => swept.failed = swept.failed.saturating_add(1),
    }
    // await 3
    let stuck = rows(sql, sweep::stuck_users(now.minus(STUCK_AFTER))).await;
    let Some(Ok((epoch, users))) = stuck.as_deref().map(sweep::read_stuck_users) else {
        return Swept {
            failed: swept.failed.saturating_add(1),
            ..swept
        };
    };
    for user_id in users {
        let body = JobMessage::new(epoch, Job::Generate { user_id }).encode();
        // await 4
        match queue.send(body, Millis::ZERO).await {
            Ok(()) => swept.woken = swept.woken.saturating_add(1),
            Err(_) => swept.failed = swept.failed.saturating_add(1),
        }
    }
    swept
}

async fn rows(sql: &impl Sql, batch: Vec<Statement>) -> Option<Vec<Rows>> {
    match sql.batch(Shard::User(HOME_SHARD), batch).await {
        Outcome::Committed(rows) => Some(rows),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => None,
    }
}
