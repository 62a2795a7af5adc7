//! One user's messages, told as stories: what they cost, what is on record, and what lost replies cannot change.

mod corners;
pub(crate) mod desk;
pub(crate) mod ports;

use desk::{Desk, Ending, ending};
use domain::model::ModelError;
use domain::problem::Code;
use domain::time::Millis;
use harness::sqlite::Fault;
use ports::Answers;

/// The most rows one direct turn may write, index entries included.
const ROWS_MAX: u64 = 24;

#[test]
fn a_turn_takes_four_round_trips_and_three_when_the_object_knows_the_user() {
    let desk = Desk::new();
    let mut told = Vec::new();
    for (key, message) in [("first", "hello"), ("second", "and again")] {
        desk.sql.take_log();
        let Ending::Answered { costs, .. } = desk.say(key, message) else {
            panic!("no answer")
        };
        println!(
            "POST /chat ({key}): {} round trips, {} rows written before the answer",
            costs.trips, costs.rows_written
        );
        told.push(costs);
    }
    assert_eq!((told[0].trips, told[1].trips), (4, 3));
    // What is written behind the answer: three events and the turn's ending.
    let behind = 4;
    for costs in told {
        assert!(costs.rows_written > 10, "rows are counted");
        assert!(costs.rows_written + behind <= ROWS_MAX, "{} rows", costs.rows_written);
    }
}

#[test]
fn watching_the_answer_grow_costs_one_write_more_while_the_model_speaks() {
    let desk = Desk::new();
    desk.say("first", "hello");
    let Ending::Answered { costs, deltas, .. } = desk.watch("second", "and again") else {
        panic!("no answer")
    };
    assert_eq!((costs.trips, deltas), (4, 1));
    assert_eq!(
        desk.sql.query("SELECT turn_id FROM turns WHERE shown = 1", &[]).len(),
        1
    );
}

#[test]
fn a_database_that_is_away_while_the_model_speaks_costs_the_stream_not_the_answer() {
    let desk = Desk::new();
    desk.say("first", "hello");
    let accept_and_start = [Fault::None; 2];
    desk.sql
        .fail_next(accept_and_start.into_iter().chain([Fault::Unreachable; 4]));
    let Ending::Answered { answer, deltas, .. } = desk.watch("second", "and again") else {
        panic!("no answer")
    };
    assert_eq!((answer.reply.as_str(), deltas), ("answer to and again", 0));
    assert_eq!(
        desk.sql.query("SELECT turn_id FROM turns WHERE shown = 1", &[]).len(),
        0
    );
}

#[test]
fn the_steps_of_a_turn_are_on_record_in_their_order() {
    let desk = Desk::new();
    desk.say("first", "hello");
    assert_eq!(
        desk.events(),
        [
            "engine_accepted",
            "context_selected",
            "generation_started",
            "generation_completed",
            "durable_write_started",
            "durable_write_completed"
        ]
    );
    assert_eq!(desk.turns(), ["persisted"], "until the edge says that it was taken");
}

#[test]
fn when_the_connection_is_lost_after_a_commit_the_caller_still_sees_its_one_turn() {
    // Which of the four batches of a cold turn loses its reply: read, accept, start, persist.
    for lost in 0..4 {
        for fault in [Fault::ReplyLost, Fault::RequestLost] {
            let desk = Desk::new();
            desk.sql.fail_next((0..lost).map(|_| Fault::None).chain([fault]));
            let answer = desk.say("first", "hello").answer();
            assert_eq!(answer.reply, "answer to hello", "batch {lost}, {fault:?}");
            assert_eq!(desk.turns(), ["persisted"], "batch {lost}, {fault:?}");
            assert_eq!(desk.model.calls.get(), 1, "batch {lost}, {fault:?}");
            let Ending::Answered {
                answer: again,
                replayed,
                ..
            } = desk.say("first", "hello")
            else {
                panic!()
            };
            assert_eq!((*again, replayed), (answer, true));
            assert_eq!(desk.model.calls.get(), 1);
        }
    }
}

#[test]
fn one_key_is_one_turn_and_another_body_is_refused() {
    let desk = Desk::new();
    let answer = desk.say("key", "hello").answer();
    let refusal = desk.say("key", "something else").refusal();
    assert_eq!(refusal.code, Code::IdempotencyKeyReused);
    assert_eq!(desk.say("key", "hello").answer(), answer);
    assert_eq!(
        (desk.turns(), desk.model.calls.get()),
        (vec!["persisted".to_owned()], 1)
    );
}

#[test]
fn while_a_turn_runs_its_key_answers_in_progress_and_another_body_is_judged_first() {
    let desk = Desk::new();
    let first = desk.hand_in(desk.command("key", "hello", false));
    let again = ending(desk.hand_in(desk.command("key", "hello", false))).refusal();
    assert_eq!((again.code, again.retry_after), (Code::TurnInProgress, Some(1)));
    let other = ending(desk.hand_in(desk.command("key", "else", false))).refusal();
    assert_eq!(other.code, Code::IdempotencyKeyReused);
    desk.work();
    assert_eq!(ending(first).answer().reply, "answer to hello");
}

#[test]
fn a_session_ends_at_thirty_minutes_to_the_millisecond() {
    let desk = Desk::new();
    let session = |key: &str| desk.say(key, key).answer().session_id;
    let first = session("a");
    desk.pass(Millis::new(1_799_999));
    assert_eq!(session("b"), first);
    desk.pass(Millis::new(1_800_000));
    assert_ne!(session("c"), first);
    assert_eq!(desk.texts("SELECT session_id FROM sessions", "session_id").len(), 2);
}

#[test]
fn a_failure_is_on_record_and_the_same_key_tells_it_again() {
    for (error, code, stored) in [
        (
            ModelError::Timeout,
            Code::GenerationTimeout,
            "terminal_failure generation_timeout",
        ),
        (
            ModelError::Unavailable,
            Code::GenerationFailed,
            "terminal_failure generation_failed",
        ),
    ] {
        let desk = Desk::new();
        desk.model.answers.set(Answers::Fails(error));
        let refusal = desk.say("key", "hello").refusal();
        assert_eq!(
            (refusal.code, refusal.new_key_required, refusal.replayed),
            (code, true, false)
        );
        assert_eq!(desk.turns(), [stored]);
        desk.model.answers.set(Answers::Well);
        let again = desk.say("key", "hello").refusal();
        assert_eq!((again.code, again.replayed), (code, true));
        assert_eq!(desk.say("new key", "hello").answer().reply, "answer to hello");
        assert_eq!(desk.model.calls.get(), 2);
    }
}

#[test]
fn a_full_line_refuses_new_messages_but_not_known_ones() {
    let desk = Desk::new();
    let answer = desk.say("known", "hello").answer();
    let waiting = [
        desk.hand_in(desk.command("a", "a", false)),
        desk.hand_in(desk.command("b", "b", false)),
    ];
    let refusal = ending(desk.hand_in(desk.command("c", "c", false))).refusal();
    assert_eq!((refusal.code, refusal.retry_after), (Code::LineFull, Some(1)));
    assert_eq!(
        ending(desk.hand_in(desk.command("known", "hello", false))).answer(),
        answer
    );
    desk.work();
    for (frames, reply) in waiting.into_iter().zip(["answer to a", "answer to b"]) {
        assert_eq!(ending(frames).answer().reply, reply);
    }
}

#[test]
fn a_panic_ends_its_own_turn_only() {
    let desk = Desk::new();
    desk.say("before", "hello");
    desk.model.answers.set(Answers::PanicsOnce);
    let broken = desk.hand_in(desk.command("broken", "boom", false));
    let next = desk.hand_in(desk.command("next", "next", false));
    desk.work();
    assert_eq!(ending(broken), Ending::BrokenOff);
    assert_eq!(ending(next).answer().reply, "answer to next");
    assert_eq!(
        desk.turns(),
        ["persisted", "persisted", "persisted"],
        "the broken one was called once more, unseen"
    );
}

#[test]
fn a_panic_right_after_acceptance_leaves_a_turn_that_the_alarm_finds() {
    let desk = Desk::new();
    desk.say("before", "hello");
    desk.panic_at.next("ingress_committed");
    assert_eq!(desk.receive(desk.command("broken", "boom", false)), Ending::BrokenOff);
    assert_eq!(desk.turns(), ["persisted", "accepted"]);
    desk.ring();
    assert_eq!(desk.turns(), ["persisted", "persisted"]);
    assert_eq!(desk.say("broken", "boom").answer().reply, "answer to boom");
}
