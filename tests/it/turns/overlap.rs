//! A sweep that stops at each of its awaits: to die there, to be overtaken by a whole other sweep, or to lose an answer.

use std::pin::pin;

use domain::ports::{Queue, QueueError, Sql};
use domain::sql::{Outcome, Shard, Statement};
use domain::time::Millis;
use futures::FutureExt;
use harness::rng::Rng;
use harness::sqlite::{Fault, TestSql};
use queues::sweep::sweep;

use super::counter::{Counter, Provider};
use crate::chat::ports::DeskSends;

/// Stands still for a moment before each batch.
struct Slow<'a>(&'a TestSql);

impl Sql for Slow<'_> {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        pause().await;
        self.0.batch(shard, statements).await
    }
}

/// Stands still for a moment before each message.
struct SlowQueue<'a>(&'a DeskSends);

impl Queue for SlowQueue<'_> {
    async fn send(&self, body: String, delay: Millis) -> Result<(), QueueError> {
        pause().await;
        self.0.send(body, delay).await
    }
}

async fn pause() {
    let mut first = true;
    std::future::poll_fn(|_| {
        if std::mem::take(&mut first) {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    })
    .await;
}

/// Something for every step of a sweep: an answer nobody took, a turn without one, a turn that waits in vain, a message
/// that expired, one that may no longer be sent and one that is due.
fn busy() -> Counter {
    let mut counter = Counter::new();
    counter.desk.say("untaken", "untaken");
    counter.desk.pass(Millis::from_mins(1));
    for key in ["stranded", "expired", "forbidden", "due", "waiting"] {
        if key == "waiting" {
            counter.receive(key, key);
        } else {
            counter.answer(key, key);
        }
    }
    counter.desk.pass(Millis::from_mins(20));
    let now = "(SELECT max(created_at) FROM outbound_messages)";
    counter.desk.sql.execute(&format!(
        "UPDATE outbound_messages SET status = 'provider_accepted', terminal_at = 1 WHERE lane_no = 1;
         UPDATE outbound_messages SET expires_at = {now} WHERE lane_no = 2;
         UPDATE outbound_messages SET authorization_revision = 9 WHERE lane_no = 3;"
    ));
    counter.orders();
    counter
}

/// Everything there is after the sweeps, but for the order in which they did it.
fn state(counter: &Counter) -> Vec<String> {
    let mut all = counter.turns();
    let mut outbox = counter.outbox();
    outbox.sort();
    all.extend(outbox);
    let events = "SELECT t.arrival_no || ' ' || group_concat(e.event_type) AS events FROM turns t JOIN
        (SELECT * FROM turn_events ORDER BY turn_id, sequence_no) e ON e.turn_id = t.turn_id GROUP BY t.turn_id ORDER BY 1";
    all.extend(counter.desk.texts(events, "events"));
    all
}

fn free_lease(counter: &Counter) {
    counter
        .desk
        .sql
        .execute("UPDATE service_leases SET token = NULL, held_until = NULL");
}

#[test]
fn one_sweep_does_all_of_it() {
    let counter = busy();
    let swept = counter.sweep();
    assert_eq!((swept.untaken, swept.woken, swept.repaired), (1, 1, 1));
    assert_eq!(
        (swept.expired, swept.cancelled, swept.ordered, swept.failed),
        (1, 1, 1, 0)
    );
    assert_eq!(
        counter.turns(),
        [
            "terminal_failure response_not_committed, not_required, answered",
            "terminal_success, accepted, answered",
            "terminal_failure delivery_expired, failed, answered",
            "terminal_failure delivery_cancelled, failed, answered",
            "delivery_pending, pending, answered",
            "accepted, not_required",
        ]
    );
}

#[test]
fn a_sweep_that_is_overtaken_or_dies_at_any_await_leaves_what_one_sweep_would() {
    let once = busy();
    once.sweep();
    let once = state(&once);
    let mut awaits = 0;
    for dies in [false, true] {
        for stop in 1.. {
            let counter = busy();
            let (sql, jobs, sends) = (
                Slow(&counter.desk.sql),
                SlowQueue(&counter.jobs),
                SlowQueue(&counter.desk.sends),
            );
            let entropy = Rng::new(5);
            let finished = {
                let mut first = pin!(sweep(&sql, &jobs, &sends, &counter.desk.clock, &entropy));
                let finished = (0..stop).any(|_| (&mut first).now_or_never().is_some());
                free_lease(&counter);
                counter.sweep();
                while !dies && !finished && (&mut first).now_or_never().is_none() {}
                finished
            };
            assert_eq!(state(&counter), once, "stopped at await {stop}, dies: {dies}");
            counter.desk.wake();
            assert_eq!(counter.send(Provider::Takes), 1);
            if finished {
                awaits = stop;
                break;
            }
        }
    }
    assert!(awaits >= 12, "{awaits} awaits");
}

#[test]
fn a_sweep_that_loses_any_request_or_reply_is_made_up_for_by_the_next() {
    let once = busy();
    once.sweep();
    let once = state(&once);
    for fault in [Fault::RequestLost, Fault::ReplyLost, Fault::Unreachable] {
        for at in 0..14 {
            let counter = busy();
            counter
                .desk
                .sql
                .fail_next(std::iter::repeat_n(Fault::None, at).chain([fault]));
            counter.sweep();
            free_lease(&counter);
            counter.sweep();
            assert_eq!(state(&counter), once, "{fault:?} at batch {at}");
        }
    }
}
