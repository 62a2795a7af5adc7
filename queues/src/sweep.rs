//! The sweep, once a minute: what nobody works on any more is ended, looked at again or put right.
//!
//! Every await, and why repeating or overlapping it is safe:
//! 1. Taking the sweep's lease only spares work.
//! 2. Ending untaken answers names only turns that are still `persisted`.
//! 3. Reading who has unfinished turns writes nothing.
//! 4. A `generate` message makes an object look into the ledger; two make it look twice.
//! 5. The mark of a round only says where the next sweep begins; a lost one costs a part of a round.
//! 6. Looking for turns that wait in vain writes nothing.
//! 7. Repairing names only turns that still wait in vain.
//! 8. Looking for messages that are over writes nothing.
//! 9. Ending messages checks once more, inside the batch, that each is over and that nobody holds it.
//! 10. Reading which gateways have something due writes nothing.
//! 11. A `deliver` message makes a consumer claim what is due; two never get the same row.

use domain::ids::{HOME_SHARD, LeaseToken};
use domain::outbox::Status;
use domain::ports::{Clock, Entropy, Queue, Sql};
use domain::sql::{Outcome, Rows, Shard, Statement};
use domain::time::{Millis, Timestamp};
use domain::turn::event::Actor;
use store::ledger::repair;
use store::ledger::sweep::{self, Duty, Round};
use store::outbox::sweep as outbox;

use crate::message::{Job, JobMessage};

/// How long one sweep keeps the next one away.
const LEASE: Millis = Millis::from_secs(50);

/// A turn this old without an answer is looked at, whoever should be at it.
const STUCK_AFTER: Millis = Millis::from_secs(30);

/// Messages that are over and end together.
const ENDED_AT_ONCE: usize = 50;

/// How often one sweep looks for more messages that are over: after an outage of a day there may be many.
const LOOKS_MAX: usize = 10;

/// How many batches of a sweep end messages. Each is 12 statements; the database takes 1,000 queries from one invocation,
/// and what comes behind needs some of them.
const ENDINGS_MAX: usize = 60;

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Another sweep held the lease.
    pub skipped: bool,
    /// Turns ended because nobody took their answer.
    pub untaken: usize,
    /// Users whose unfinished turns were asked to be looked at.
    pub woken: usize,
    /// Turns that waited for a delivery though all their messages had ended. Never any, unless something is wrong.
    pub repaired: usize,
    /// Messages ended because their time was over.
    pub expired: usize,
    /// Messages ended because they may no longer be sent.
    pub cancelled: usize,
    /// Messages ended because they were tried too often.
    pub exhausted: usize,
    /// Gateways whose due messages were ordered to be sent.
    pub ordered: usize,
    /// Steps that the database or a queue did not take; the next sweep repeats them.
    pub failed: usize,
}

impl Swept {
    fn fail(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    /// How many messages it ended.
    const fn ended(&self) -> usize {
        self.expired
            .saturating_add(self.cancelled)
            .saturating_add(self.exhausted)
    }

    /// Counts a message that ended.
    fn count(&mut self, status: Status) {
        let counter = match status {
            Status::Expired => &mut self.expired,
            Status::Cancelled => &mut self.cancelled,
            Status::Failed => &mut self.exhausted,
            // Someone was faster.
            Status::Pending
            | Status::Leased
            | Status::Retry
            | Status::ProviderAccepted
            | Status::Acknowledged
            | Status::Quarantined => return,
        };
        *counter = counter.saturating_add(1);
    }
}

/// Sweeps once. `jobs` takes the orders to generate, `sends` those to send.
pub async fn sweep(
    sql: &impl Sql,
    jobs: &impl Queue,
    sends: &impl Queue,
    clock: &impl Clock,
    entropy: &impl Entropy,
) -> Swept {
    let mut swept = Swept::default();
    let now = clock.now();
    let token = LeaseToken::mint(now, entropy);
    // await 1
    match rows(sql, shard(), sweep::claim(Duty::Sweep, &token, now, now.plus(LEASE))).await {
        Some(rows) if sweep::read_claim(&rows) => {}
        Some(_) => return Swept { skipped: true, ..swept },
        None => return Swept { failed: 1, ..swept },
    }
    // await 2
    match rows(sql, shard(), sweep::end_untaken(now)).await {
        Some(rows) => swept.untaken = rows.last().map_or(0, |rows| rows.rows.len()),
        None => swept.fail(),
    }
    wake(sql, jobs, now, &mut swept).await;
    put_right(sql, now, &mut swept).await;
    end_messages(sql, now, &mut swept).await;
    order_sends(sql, sends, clock.now(), &mut swept).await;
    swept
}

/// Has unfinished turns looked at again.
async fn wake(sql: &impl Sql, jobs: &impl Queue, now: Timestamp, swept: &mut Swept) {
    // await 3
    let stuck = rows(sql, shard(), sweep::stuck_users(now.minus(STUCK_AFTER))).await;
    let Some(Ok(stuck)) = stuck.as_deref().map(sweep::read_stuck_users) else {
        return swept.fail();
    };
    let last = stuck.users.last().filter(|_| stuck.more).map(ToString::to_string);
    for user_id in stuck.users {
        let body = JobMessage::new(stuck.epoch, Job::Generate { user_id }).encode();
        // await 4
        match jobs.send(body, Millis::ZERO).await {
            Ok(()) => swept.woken = swept.woken.saturating_add(1),
            Err(_) => swept.fail(),
        }
    }
    // Where all were taken on, an older mark may stay: a round goes all the way about, wherever it begins.
    if last.is_some() {
        leave_mark(sql, Round::Waking, last.as_deref(), swept).await;
    }
}

async fn leave_mark(sql: &impl Sql, round: Round, place: Option<&str>, swept: &mut Swept) {
    // await 5
    if rows(sql, shard(), vec![sweep::keep_place(round, place)])
        .await
        .is_none()
    {
        swept.fail();
    }
}

/// Ends turns that wait for a delivery in vain.
async fn put_right(sql: &impl Sql, now: Timestamp, swept: &mut Swept) {
    // await 6
    let stranded = rows(sql, shard(), repair::stranded()).await;
    let Some(Ok(stranded)) = stranded.as_deref().map(repair::read_stranded) else {
        return swept.fail();
    };
    if !stranded.turns.is_empty() {
        // await 7
        match rows(sql, shard(), repair::repair(&stranded.turns, now)).await {
            Some(rows) => swept.repaired = rows.last().map_or(0, |rows| rows.rows.len()),
            None => swept.fail(),
        }
    }
    leave_mark(sql, Round::Repair, stranded.place.as_deref(), swept).await;
}

/// Ends messages that will not be sent any more, and the turns that waited for them.
async fn end_messages(sql: &impl Sql, now: Timestamp, swept: &mut Swept) {
    let mut endings_left = ENDINGS_MAX;
    for _ in 0..LOOKS_MAX {
        // await 8
        let over = rows(sql, shard(), outbox::over(now, outbox::SWEEP_LIMIT)).await;
        let Some(Ok(over)) = over.as_deref().map(outbox::read_over) else {
            return swept.fail();
        };
        let before = (swept.ended(), swept.failed);
        for some in over.chunks(ENDED_AT_ONCE) {
            if endings_left == 0 {
                break;
            }
            endings_left = endings_left.saturating_sub(1);
            if end_some(sql, some, now, swept).await {
                continue;
            }
            // One that the schema does not let end must not keep the others.
            for one in some.iter().take(endings_left) {
                endings_left = endings_left.saturating_sub(1);
                if !end_some(sql, std::slice::from_ref(one), now, swept).await {
                    swept.fail();
                }
            }
        }
        // Nothing left, nothing got done, or the database is not well: the next sweep goes on.
        if over.len() < limit() || swept.ended() == before.0 || swept.failed > before.1 || endings_left == 0 {
            return;
        }
    }
}

/// Ends `some` messages together. False: the database refuses it, and all of them are as they were.
async fn end_some(sql: &impl Sql, some: &[outbox::Over], now: Timestamp, swept: &mut Swept) -> bool {
    // await 9
    let rows = match sql.batch(shard(), outbox::end(some, Actor::Sweep, now)).await {
        Outcome::Committed(rows) => rows,
        Outcome::Refused(_) => return false,
        Outcome::NotStarted(_) | Outcome::Unknown => {
            swept.fail();
            return true;
        }
    };
    match outbox::read_ended(&rows) {
        Ok(ended) => ended.into_iter().for_each(|(_, status)| swept.count(status)),
        Err(_) => swept.fail(),
    }
    true
}

fn limit() -> usize {
    usize::try_from(outbox::SWEEP_LIMIT).unwrap_or(usize::MAX)
}

/// Orders that what is due is sent, wherever nobody is at it.
async fn order_sends(sql: &impl Sql, sends: &impl Queue, now: Timestamp, swept: &mut Swept) {
    // await 10
    let due = rows(sql, shard(), outbox::due_gateways(now)).await;
    let Some(Ok(due)) = due.as_deref().map(outbox::read_due_gateways) else {
        return swept.fail();
    };
    let last = due.gateways.last().filter(|_| due.more).map(ToString::to_string);
    for gateway_id in due.gateways {
        let body = JobMessage::new(due.epoch, Job::Deliver { gateway_id }).encode();
        // await 11
        match sends.send(body, Millis::ZERO).await {
            Ok(()) => swept.ordered = swept.ordered.saturating_add(1),
            Err(_) => swept.fail(),
        }
    }
    if last.is_some() {
        leave_mark(sql, Round::Orders, last.as_deref(), swept).await;
    }
}

const fn shard() -> Shard {
    Shard::User(HOME_SHARD)
}

pub(crate) async fn rows(sql: &impl Sql, shard: Shard, batch: Vec<Statement>) -> Option<Vec<Rows>> {
    match sql.batch(shard, batch).await {
        Outcome::Committed(rows) => Some(rows),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => None,
    }
}
