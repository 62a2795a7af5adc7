//! A channel's turn, told as stories.

use domain::model::ModelError;
use domain::outbox::Status;
use domain::time::Millis;
use harness::sqlite::Fault;

use super::counter::{Counter, Provider};
use crate::chat::ports::Answers;

const ORDER: &str = r#"{"v":"2","epoch":1,"kind":"deliver","gateway_id":"gateway_00bot"}"#;

#[test]
fn an_answer_stands_in_the_outbox_with_its_storing_and_its_turn_ends_when_the_provider_has_it() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    assert_eq!(counter.turns(), ["delivery_pending, pending, answered"]);
    assert_eq!(counter.outbox(), ["channel 1/1 pending"]);
    assert_eq!(counter.orders(), [ORDER]);
    assert_eq!(counter.send(Provider::Takes), 1);
    assert_eq!(counter.outbox(), ["channel 1/1 provider_accepted"]);
    assert_eq!(counter.turns(), ["terminal_success, accepted, answered"]);
    let events = [
        "engine_accepted",
        "context_selected",
        "generation_started",
        "generation_completed",
        "durable_write_started",
        "durable_write_completed",
        "outbox_enqueued",
        "send_claimed",
        "send_attempted",
        "provider_accepted",
        "turn_terminal_success",
    ];
    assert_eq!(counter.desk.events(), events);
}

#[test]
fn a_long_answer_goes_out_in_parts_that_are_its_bytes() {
    let mut counter = Counter::new();
    let text: &'static str = Box::leak(
        "A line that is long enough to be cut behind. "
            .repeat(250)
            .into_boxed_str(),
    );
    counter.desk.model.answers.set(Answers::With(text));
    counter.answer("key", "hello");
    let rows = counter.desk.sql.query(
        "SELECT part_no, part_count, content_from, content_to, content_hash FROM outbound_messages ORDER BY lane_no",
        &[],
    );
    let ranges: Vec<(usize, usize)> = rows
        .iter()
        .map(|row| {
            let at = |column: &str| usize::try_from(row.integer(column).unwrap()).unwrap();
            (at("content_from"), at("content_to"))
        })
        .collect();
    assert_eq!(ranges.len(), 3);
    assert!(ranges.iter().all(|(from, to)| text[*from..*to].len() <= 4_096));
    assert_eq!(ranges.first().map(|range| range.0), Some(0));
    assert!(ranges.windows(2).all(|pair| pair[0].1 == pair[1].0));
    assert_eq!(
        rows.iter()
            .map(|row| row.integer("part_no").unwrap())
            .collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert!(rows.iter().all(|row| row.integer("part_count") == Ok(3)));
    let hashes: std::collections::BTreeSet<_> = rows.iter().map(|row| row.text("content_hash").unwrap()).collect();
    assert_eq!(hashes.len(), 2, "the first two parts are the same words");
    // One after the other, a second apart.
    for left in [2, 1, 0] {
        assert_eq!(counter.send(Provider::Takes), 1);
        assert_eq!(counter.send(Provider::Takes), 0);
        let pending = counter.outbox().iter().filter(|row| row.ends_with("pending")).count();
        assert_eq!(pending, left);
        counter.desk.pass(Millis::from_secs(1));
    }
    assert_eq!(counter.turns(), ["terminal_success, accepted, answered"]);
}

#[test]
fn an_answer_with_nothing_to_see_is_no_answer() {
    let mut counter = Counter::new();
    counter.desk.model.answers.set(Answers::With(" \n\u{200b}\n "));
    counter.answer("key", "hello");
    assert_eq!(counter.turns(), ["terminal_failure generation_failed, not_required"]);
    assert_eq!(counter.outbox(), ["notice 1/1 pending"]);
}

#[test]
fn a_turn_without_an_answer_tells_its_person_so_once() {
    let failures = [
        (ModelError::Timeout, "terminal_failure generation_timeout, not_required"),
        (
            ModelError::Unavailable,
            "terminal_failure generation_failed, not_required",
        ),
    ];
    for (error, ended) in failures {
        let mut counter = Counter::new();
        counter.desk.model.answers.set(Answers::Fails(error));
        counter.answer("key", "hello");
        assert_eq!(counter.turns(), [ended]);
        assert_eq!(counter.outbox(), ["notice 1/1 pending"]);
        assert_eq!(counter.orders(), [ORDER]);
        let end = counter.desk.events().split_off(3);
        assert_eq!(end, ["generation_failed", "outbox_enqueued", "turn_terminal_failure"]);
        // What becomes of the notice is no longer the turn's story.
        assert_eq!(counter.send(Provider::Takes), 1);
        assert_eq!(counter.outbox(), ["notice 1/1 provider_accepted"]);
        assert_eq!(counter.desk.events().len(), 6);
    }
}

#[test]
fn a_turn_that_waited_too_long_tells_its_person_so() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    counter.desk.pass(Millis::from_mins(10));
    counter.desk.wake();
    assert_eq!(counter.turns(), ["terminal_failure deadline_exceeded, not_required"]);
    assert_eq!(counter.outbox(), ["notice 1/1 pending"]);
    assert_eq!(
        counter.desk.events(),
        ["engine_accepted", "outbox_enqueued", "turn_terminal_failure"]
    );
    assert_eq!(counter.orders(), [ORDER]);
}

#[test]
fn a_person_whose_data_is_gone_is_told_nothing() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    counter
        .desk
        .sql
        .execute("UPDATE data_keys SET wrapped = NULL, destroyed_at = 1");
    counter.desk.wake();
    assert_eq!(counter.turns(), ["terminal_failure subject_deleted, not_required"]);
    assert_eq!(counter.outbox(), Vec::<String>::new());
    assert_eq!(counter.orders(), Vec::<String>::new());
}

#[test]
fn an_answer_to_an_address_that_was_shut_meanwhile_stays_readable_and_is_not_sent() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    counter
        .desk
        .sql
        .execute("UPDATE channel_addresses SET status = 'disabled'");
    counter.desk.wake();
    assert_eq!(
        counter.turns(),
        ["terminal_failure delivery_cancelled, failed, answered"]
    );
    assert_eq!(counter.outbox(), Vec::<String>::new());
    assert_eq!(counter.desk.events().last().unwrap(), "turn_terminal_failure");
}

#[test]
fn a_failed_turn_of_a_shut_address_ends_without_a_notice() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    counter.desk.model.answers.set(Answers::Fails(ModelError::Unavailable));
    counter
        .desk
        .sql
        .execute("UPDATE channel_addresses SET status = 'disabled'");
    counter.desk.wake();
    assert_eq!(counter.turns(), ["terminal_failure generation_failed, not_required"]);
    assert_eq!(counter.outbox(), Vec::<String>::new());
}

#[test]
fn a_lost_reply_to_the_storing_neither_loses_nor_doubles_a_message() {
    for fault in [Fault::ReplyLost, Fault::RequestLost] {
        let mut counter = Counter::new();
        counter.receive("key", "hello");
        // The look into the ledger, the start, and then the storing.
        counter.desk.sql.fail_next([Fault::None, Fault::None, fault]);
        counter.desk.wake();
        assert_eq!(counter.turns(), ["delivery_pending, pending, answered"]);
        assert_eq!(counter.outbox(), ["channel 1/1 pending"]);
        assert_eq!(counter.desk.model.calls.get(), 1);
        assert_eq!(counter.orders(), [ORDER]);
    }
}

#[test]
fn an_order_to_send_that_is_not_taken_is_given_by_the_sweep() {
    let mut counter = Counter::new();
    counter.desk.sends.1.set(true);
    counter.answer("key", "hello");
    assert_eq!(counter.turns(), ["delivery_pending, pending, answered"]);
    assert_eq!(counter.orders(), Vec::<String>::new());
    counter.desk.sends.1.set(false);
    assert_eq!(counter.sweep_for(1).ordered, 1);
    assert_eq!(counter.orders(), [ORDER]);
}

#[test]
fn each_place_on_the_way_into_the_outbox_can_be_died_at() {
    for place in [
        "model_call_started",
        "model_replied",
        "assistant_stored",
        "context_written",
        "outbox_enqueued",
    ] {
        let mut counter = Counter::new();
        counter.receive("key", "hello");
        counter.desk.panic_at.stop_next(place);
        counter.desk.wake_until_it_stops();
        counter.desk.restart();
        counter.desk.pass(Millis::from_mins(2));
        counter.desk.wake();
        assert_eq!(counter.outbox(), ["channel 1/1 pending"], "{place}");
        assert_eq!(counter.turns(), ["delivery_pending, pending, answered"], "{place}");
        counter.send(Provider::Takes);
        assert_eq!(counter.turns(), ["terminal_success, accepted, answered"], "{place}");
    }
}

#[test]
fn what_the_provider_will_never_take_ends_the_turn_and_says_so_in_the_chat() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter.send(Provider::RefusesTheWords);
    assert_eq!(
        counter.outbox(),
        ["channel 1/1 failed message_too_long", "notice 1/1 pending"]
    );
    assert_eq!(counter.turns(), ["terminal_failure delivery_failed, failed, answered"]);
}

#[test]
fn a_person_who_blocked_the_bot_is_left_alone() {
    let mut counter = Counter::new();
    counter.answer("key", "hello");
    counter.send(Provider::HasBlockedUs);
    assert_eq!(counter.outbox(), ["channel 1/1 failed blocked"]);
    assert_eq!(counter.turns(), ["terminal_failure delivery_failed, failed, answered"]);
    let addresses = counter.desk.texts("SELECT status FROM channel_addresses", "status");
    assert_eq!(addresses, [Status::Failed.as_str().replace("failed", "disabled")]);
}

#[test]
fn turns_of_a_person_go_in_order_whichever_way_they_came() {
    let mut counter = Counter::new();
    counter.receive("first", "one");
    counter.receive("second", "two");
    counter.desk.wake();
    assert_eq!(counter.turns(), ["delivery_pending, pending, answered"; 2]);
    let direct = counter.desk.say("third", "three").answer();
    assert_eq!(direct.reply, "answer to three");
    assert_eq!(counter.desk.turns()[2], "persisted");
    assert_eq!(counter.outbox(), ["channel 1/1 pending"; 2]);
}

#[test]
fn the_objects_part_of_a_channels_turn_takes_three_round_trips() {
    let mut counter = Counter::new();
    counter.answer("known", "hello");
    counter.receive("key", "hello");
    let trips = counter.desk.sql.trips();
    counter.desk.wake();
    let taken = counter.desk.sql.trips() - trips;
    println!("a channel's turn in its object: {taken} round trips, the look that finds nothing more included");
    assert_eq!(taken, 4);
}

#[test]
fn an_answer_whose_person_changed_meanwhile_is_never_sent() {
    let mut counter = Counter::new();
    counter.receive("key", "hello");
    counter.desk.sql.execute("UPDATE users SET authorization_revision = 2");
    counter.desk.wake();
    assert_eq!(counter.send(Provider::Takes), 0);
    counter.sweep_for(1);
    assert_eq!(
        counter.turns(),
        ["terminal_failure delivery_cancelled, failed, answered"]
    );
    assert_eq!(
        counter.outbox(),
        ["channel 1/1 cancelled authorization_changed", "notice 1/1 pending"]
    );
}
