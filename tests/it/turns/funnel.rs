//! What the funnel counts, and when.

use domain::ports::Clock;
use domain::time::Millis;
use harness::block_on;
use harness::rng::Rng;
use harness::sqlite::Fault;
use queues::funnel::{Funnel, reconcile};
use store::ledger::funnel::Counts;

use super::counter::{Counter, Provider};

fn count(counter: &Counter) -> Funnel {
    block_on(reconcile(&counter.desk.sql, &counter.desk.clock, &Rng::new(3)))
}

/// Unanswered, unwritten and undelivered, a minute later.
fn counted(counter: &Counter) -> (u64, u64, u64) {
    counter.desk.pass(Millis::from_mins(1));
    match count(counter) {
        Funnel::Counted(Counts {
            unanswered,
            unwritten,
            undelivered,
            ..
        }) => (unanswered.count, unwritten.count, undelivered.count),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_turn_without_an_answer_is_counted_after_five_minutes() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    let accepted = counter.desk.clock.now();
    counter.desk.pass(Millis::from_mins(4));
    assert_eq!(counted(&counter), (0, 0, 0), "at five minutes");
    counter.desk.pass(Millis::new(1));
    assert_eq!(counted(&counter), (1, 0, 0), "a moment later");
    counter.desk.pass(Millis::from_mins(1));
    let Funnel::Counted(counts) = count(&counter) else {
        panic!()
    };
    assert_eq!(counts.unanswered.oldest, Some(accepted));
    counter.desk.wake();
    assert_eq!(counted(&counter), (0, 0, 0));
}

#[test]
fn an_answer_that_was_not_stored_is_counted_after_two_minutes() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    let completed = counter.desk.clock.now().as_millis();
    counter.desk.sql.execute(&format!(
        "UPDATE turns SET status = 'generated', generation_status = 'completed', generation_completed_at = {completed}"
    ));
    counter.desk.pass(Millis::from_mins(1));
    assert_eq!(counted(&counter), (0, 0, 0));
    assert_eq!(counted(&counter), (0, 1, 0));
}

#[test]
fn a_message_that_was_not_settled_is_counted_after_its_channels_time() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter.desk.pass(Millis::from_mins(4));
    assert_eq!(counted(&counter), (0, 0, 0));
    counter.send(Provider::IsDown);
    assert_eq!(counted(&counter), (0, 0, 1));
    counter
        .desk
        .sql
        .execute("UPDATE outbound_messages SET status = 'quarantined'");
    let quarantined = counted(&counter);
    assert_eq!(quarantined, (0, 0, 0), "an operator decided so");
    counter
        .desk
        .sql
        .execute("UPDATE outbound_messages SET status = 'retry'");
    assert_eq!(counted(&counter), (0, 0, 1));
    counter.desk.pass(Millis::from_mins(1));
    counter.send(Provider::Takes);
    assert_eq!(counted(&counter), (0, 0, 0));
}

#[test]
fn a_message_that_is_to_be_sent_later_is_not_late_before() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    let later = counter.desk.clock.now().plus(Millis::from_mins(60)).as_millis();
    counter.desk.sql.execute(&format!(
        "UPDATE outbound_messages SET not_before = {later}, next_attempt_at = {later}"
    ));
    counter.desk.pass(Millis::from_mins(59));
    assert_eq!(counted(&counter), (0, 0, 0));
    counter.desk.pass(Millis::from_mins(5));
    assert_eq!(counted(&counter), (0, 0, 1));
}

#[test]
fn set_aside_messages_and_broken_gateways_are_told_apart() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter
        .desk
        .sql
        .execute("UPDATE outbound_messages SET status = 'quarantined'; UPDATE gateways SET status = 'broken';");
    let Funnel::Counted(counts) = count(&counter) else {
        panic!()
    };
    assert_eq!((counts.quarantined, counts.broken_gateways), (1, 1));
}

#[test]
fn the_funnel_has_a_lease_of_its_own_and_says_when_it_cannot_count() {
    let counter = Counter::new();
    counter.sweep();
    assert!(matches!(count(&counter), Funnel::Counted(_)), "beside the sweep");
    assert_eq!(count(&counter), Funnel::Skipped);
    counter.desk.pass(Millis::from_mins(1));
    counter.desk.sql.fail_next([Fault::RequestLost]);
    assert_eq!(count(&counter), Funnel::Failed);
    counter.desk.sql.fail_next([Fault::None, Fault::RequestLost]);
    assert_eq!(count(&counter), Funnel::Failed);
    // Whoever missed a minute finds the same the next time.
    counter.desk.pass(Millis::from_mins(30));
    assert!(matches!(count(&counter), Funnel::Counted(_)));
}
