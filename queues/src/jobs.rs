//! The consumer of the jobs queue. Each message gets its own answer; a batch never fails as a whole.
//!
//! Every await, and why repeating it is safe:
//! 1. Reading the epoch writes nothing.
//! 2. Waking a user's object only makes it look into the ledger; looking twice finds nothing the second time.

use domain::ids::UserId;
use domain::ports::Sql;
use domain::sql::{Outcome, Shard};
use domain::time::Millis;

use crate::message::{Job, JobMessage};

/// How long a message waits before it is tried again.
pub const RETRY_DELAY: Millis = Millis::from_secs(10);

/// The way to a user's object.
pub trait Objects {
    /// Asks the user's object to go on with what is unfinished. An error: it was perhaps not reached.
    async fn wake(&self, user: &UserId) -> Result<(), NotReached>;
}

/// The object was perhaps not reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotReached;

/// What becomes of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// Done, or nothing that doing it again could mend.
    Ack(Acked),
    /// To be delivered again after [`RETRY_DELAY`].
    Retry,
}

/// Why a message is finished with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    Done,
    /// It cannot be read; the sweep finds the work it was about.
    Undecodable,
    /// It was sent before a restore.
    OldEpoch,
}

/// Handles the bodies of one batch, in order; one disposition for each.
pub async fn consume(bodies: &[String], sql: &impl Sql, objects: &impl Objects) -> Vec<Disposition> {
    // await 1
    let epoch = current_epoch(sql).await;
    let mut dispositions = Vec::with_capacity(bodies.len());
    for body in bodies {
        dispositions.push(handle(body, epoch, objects).await);
    }
    dispositions
}

async fn handle(body: &str, epoch: Option<i64>, objects: &impl Objects) -> Disposition {
    let Ok(JobMessage { epoch: sent_in, job }) = JobMessage::decode(body) else {
        return Disposition::Ack(Acked::Undecodable);
    };
    match epoch {
        None => return Disposition::Retry,
        Some(epoch) if epoch != sent_in => return Disposition::Ack(Acked::OldEpoch),
        Some(_) => {}
    }
    match job {
        // await 2
        Job::Generate { user_id } => match objects.wake(&user_id).await {
            Ok(()) => Disposition::Ack(Acked::Done),
            Err(NotReached) => Disposition::Retry,
        },
        // Sends have a queue of their own; what lies here by mistake the sweep orders anew.
        Job::Deliver { .. } => Disposition::Ack(Acked::Undecodable),
    }
}

async fn current_epoch(sql: &impl Sql) -> Option<i64> {
    match sql.batch(Shard::Directory, vec![store::ledger::epoch()]).await {
        Outcome::Committed(rows) => rows.first()?.first()?.integer("epoch").ok(),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => None,
    }
}
