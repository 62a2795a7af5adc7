//! What the sweep makes of what nobody works on.

use domain::ids::UserId;
use domain::time::Millis;
use queues::message::{Job, JobMessage};
use queues::sweep::Swept;

use super::counter::{Counter, Provider};

#[test]
fn an_answer_in_the_outbox_is_never_one_that_nobody_took() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    let swept = counter.sweep_for(15);
    assert_eq!((swept.untaken, swept.repaired, swept.failed), (0, 0, 0));
    assert_eq!(swept.ordered, 15, "once a minute, for as long as it waits");
    assert_eq!(counter.turns(), ["delivery_pending, pending, answered"]);
}

#[test]
fn what_could_not_be_sent_for_a_day_expires_with_its_turn() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter.desk.pass(Millis::from_mins(24 * 60 - 1));
    assert_eq!(counter.sweep().expired, 0);
    let swept = counter.sweep_for(1);
    assert_eq!((swept.expired, swept.repaired, swept.failed), (1, 0, 0));
    assert_eq!(counter.turns(), ["terminal_failure delivery_expired, failed, answered"]);
    assert_eq!(
        counter.outbox(),
        ["channel 1/1 expired expired", "notice 1/1 pending"],
        "silence is not the only sign"
    );
    let end = counter.desk.events().split_off(7);
    assert_eq!(
        end,
        ["delivery_terminal_failure", "outbox_enqueued", "turn_terminal_failure"]
    );
    let again = counter.sweep_for(1);
    assert_eq!((again.expired, again.repaired), (0, 0));
    assert_eq!(counter.outbox().len(), 2);
}

#[test]
fn what_may_no_longer_be_sent_is_cancelled_with_its_turn() {
    // What is left to be sent is the notice, to whoever may still be spoken to.
    let changes = [
        ("UPDATE users SET authorization_revision = 2", 1),
        ("UPDATE users SET status = 'suspended'", 0),
        ("UPDATE channel_addresses SET status = 'disabled'", 0),
        ("DELETE FROM gateway_families", 0),
    ];
    for (change, told) in changes {
        let mut counter = Counter::new();
        counter.answer("key", "hello");
        counter.desk.sql.execute(change);
        let swept = counter.sweep_for(1);
        assert_eq!((swept.cancelled, swept.repaired), (1, 0), "{change}");
        assert_eq!(counter.outbox()[0], "channel 1/1 cancelled authorization_changed");
        assert_eq!(
            counter.turns(),
            ["terminal_failure delivery_cancelled, failed, answered"],
            "{change}"
        );
        assert_eq!(counter.send(Provider::Takes), told, "{change}");
    }
}

#[test]
fn senders_that_keep_dying_are_not_tried_for_ever() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    for _ in 0..4 {
        assert_eq!(counter.claim().1.len(), 1);
        counter.desk.pass(Millis::from_mins(2));
    }
    assert_eq!(counter.claim().1.len(), 0);
    let swept = counter.sweep_for(1);
    assert_eq!((swept.exhausted, swept.repaired), (1, 0));
    assert_eq!(counter.outbox()[0], "channel 1/1 failed unconfirmed");
    assert_eq!(counter.turns(), ["terminal_failure delivery_failed, failed, answered"]);
    let open = "SELECT outbox_id FROM outbound_attempts WHERE finished_at IS NULL";
    assert_eq!(counter.desk.texts(open, "outbox_id"), Vec::<String>::new());
}

#[test]
fn a_row_that_someone_holds_is_left_alone() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter
        .desk
        .pass(Millis::from_mins(24 * 60 - 1).saturating_add(Millis::from_secs(30)));
    let (_, rows, _) = counter.claim();
    assert_eq!(rows.len(), 1);
    counter.desk.pass(Millis::from_secs(40));
    let swept = counter.sweep();
    assert_eq!((swept.expired, swept.ordered), (0, 0));
    assert_eq!(counter.outbox(), ["channel 1/1 leased"]);
}

#[test]
fn a_turn_that_waits_in_vain_is_put_right_and_counted() {
    let ends = [
        ("provider_accepted", "terminal_success, accepted, answered"),
        ("failed", "terminal_failure delivery_failed, failed, answered"),
        ("expired", "terminal_failure delivery_expired, failed, answered"),
        ("cancelled", "terminal_failure delivery_cancelled, failed, answered"),
    ];
    for (status, ended) in ends {
        let mut counter = Counter::new();
        counter.answer("key", "hello");
        counter.desk.sql.execute(&format!(
            "UPDATE outbound_messages SET status = '{status}', terminal_at = 1"
        ));
        assert_eq!(counter.sweep_for(1).repaired, 1, "{status}");
        assert_eq!(counter.turns(), [ended]);
        assert_eq!(counter.sweep_for(1).repaired, 0, "{status}");
    }
}

#[test]
fn sweeps_may_overlap() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter.desk.pass(Millis::from_mins(24 * 60));
    let (first, second) = (counter.sweep(), counter.sweep());
    assert_eq!(
        (first.expired, second),
        (
            1,
            Swept {
                skipped: true,
                ..Swept::default()
            }
        )
    );
    counter
        .desk
        .sql
        .execute("UPDATE service_leases SET token = NULL, held_until = NULL");
    let third = counter.sweep();
    assert_eq!((third.expired, third.failed), (0, 0));
    assert_eq!(counter.outbox(), ["channel 1/1 expired expired", "notice 1/1 pending"]);
    assert_eq!(counter.desk.events().len(), 10);
}

#[test]
fn every_stuck_user_has_their_turn_however_many_there_are() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    others(&counter, 500);
    let mut woken = std::collections::BTreeMap::<UserId, u32>::new();
    for _ in 0..3 {
        counter.desk.pass(Millis::from_mins(1));
        let swept = counter.sweep();
        assert_eq!((swept.woken, swept.failed), (200, 0));
        for body in counter.jobs.0.take() {
            let Ok(JobMessage {
                job: Job::Generate { user_id },
                ..
            }) = JobMessage::decode(&body)
            else {
                panic!("{body}")
            };
            *woken.entry(user_id).or_default() += 1;
        }
    }
    assert_eq!(woken.len(), 501, "three sweeps reach every one of 501");
    assert_eq!(
        woken.values().filter(|times| **times > 1).count(),
        99,
        "and go on from there"
    );
}

/// As many turns like the one there is, of other people that stand before and behind its own.
fn others(counter: &Counter, count: u32) {
    counter.desk.sql.execute(&format!(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         SELECT i FROM n;
         CREATE TEMP TABLE copies AS SELECT * FROM turns, n;
         UPDATE copies SET turn_id = 'turn_00other' || i, user_id = iif(i % 2, 'user_00a', 'user_00b') || i,
           idempotency_key_hash = i;
         ALTER TABLE copies DROP COLUMN i;
         INSERT INTO turns SELECT * FROM copies;
         INSERT INTO turn_events SELECT c.turn_id, 1, 'engine_accepted', 0, 'user_turns', NULL, '{{}}' FROM copies c;
         CREATE TEMP TABLE messages_too AS SELECT * FROM outbound_messages, n;
         UPDATE messages_too SET turn_id = 'turn_00other' || i, outbox_id = 'out_00other' || i, lane_no = i + 1,
           idempotency_key = i, user_id = iif(i % 2, 'user_00a', 'user_00b') || i;
         ALTER TABLE messages_too DROP COLUMN i;
         INSERT INTO outbound_messages SELECT * FROM messages_too;"
    ));
}

#[test]
fn a_turn_that_waits_in_vain_is_found_behind_any_number_that_do_not() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    others(&counter, 1_200);
    let settle = "UPDATE outbound_messages SET status = 'provider_accepted', terminal_at = 1
        WHERE turn_id NOT LIKE 'turn_00other%'";
    counter.desk.sql.execute(settle);
    let repaired: Vec<usize> = (0..3)
        .map(|_| {
            counter.desk.pass(Millis::from_mins(1));
            counter.sweep().repaired
        })
        .collect();
    assert_eq!(repaired, [0, 1, 0]);
}

#[test]
fn a_day_of_messages_expires_in_one_sweep() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    others(&counter, 900);
    counter.desk.pass(Millis::from_mins(24 * 60));
    let swept = counter.sweep();
    assert_eq!((swept.expired + swept.cancelled, swept.failed), (901, 0));
    let open = "SELECT status FROM outbound_messages WHERE terminal_at IS NULL AND origin <> 'notice'";
    assert_eq!(counter.desk.texts(open, "status"), Vec::<String>::new());
    let waiting = "SELECT status FROM turns WHERE terminal_at IS NULL";
    assert_eq!(counter.desk.texts(waiting, "status"), Vec::<String>::new());
}

#[test]
fn every_gateway_with_something_due_has_its_turn_however_many_there_are() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter.orders();
    counter.desk.sql.execute(
        "CREATE TEMP TABLE n AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
         SELECT i FROM n;
         CREATE TEMP TABLE copies AS SELECT * FROM gateways, n;
         UPDATE copies SET gateway_id = iif(i % 2, 'gateway_00a', 'gateway_00c') || i;
         ALTER TABLE copies DROP COLUMN i;
         INSERT INTO gateways SELECT * FROM copies;
         INSERT INTO gateway_families SELECT gateway_id, 'family_00oak' FROM copies;
         INSERT INTO channel_addresses SELECT 'address_00' || gateway_id, gateway_id, 'telegram', 'user_00ann',
           gateway_id, 'key_00ann', x'01', 'active', 0, 0 FROM copies;
         CREATE TEMP TABLE messages_too AS SELECT m.*, c.gateway_id AS of FROM outbound_messages m, copies c;
         UPDATE messages_too SET outbox_id = 'out_00' || of, lane = of, idempotency_key = of, gateway_id = of,
           address_id = 'address_00' || of;
         ALTER TABLE messages_too DROP COLUMN of;
         INSERT INTO outbound_messages SELECT * FROM messages_too;",
    );
    let mut ordered = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..2 {
        assert_eq!(counter.sweep_for(1).ordered, 200);
        for body in counter.orders() {
            *ordered.entry(body).or_default() += 1;
        }
    }
    assert_eq!(ordered.len(), 301, "two sweeps reach every one of 301");
    assert!(ordered.contains_key(r#"{"v":"2","epoch":1,"kind":"deliver","gateway_id":"gateway_00bot"}"#));
}

#[test]
fn a_message_that_cannot_be_ended_keeps_no_other_from_its_end() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    others(&counter, 10);
    // A turn whose history was damaged takes no further event.
    counter
        .desk
        .sql
        .execute("DELETE FROM turn_events WHERE turn_id = 'turn_00other7'");
    counter.desk.pass(Millis::from_mins(24 * 60));
    let swept = counter.sweep();
    assert_eq!((swept.expired + swept.cancelled, swept.failed), (10, 1));
}

#[test]
fn messages_that_cannot_be_ended_leave_the_rest_of_the_minute_its_queries() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    others(&counter, 199);
    for damaged in [20, 70, 120, 170] {
        counter.desk.sql.execute(&format!(
            "DELETE FROM turn_events WHERE turn_id = 'turn_00other{damaged}'"
        ));
    }
    counter.desk.pass(Millis::from_mins(24 * 60));
    let mut ended = 0;
    for _ in 0..6 {
        counter.desk.sql.take_log();
        let swept = counter.sweep_for(1);
        ended += swept.expired + swept.cancelled;
        let log = counter.desk.sql.take_log();
        let queries: usize = log.iter().map(|batch| batch.statements.len()).sum();
        assert!(queries <= 800, "{queries} of the 1,000 queries of an invocation");
    }
    assert_eq!(ended, 196);
}
