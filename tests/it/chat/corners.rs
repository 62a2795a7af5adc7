//! Rare things that must not leave a turn behind, or lead a message to the wrong place.

use domain::http::context::Channel;
use domain::ids::{ConversationId, GatewayId};
use domain::ports::Clock;
use domain::problem::Code;
use domain::time::Millis;
use domain::turn::protocol::ChatCommand;
use harness::block_on;

use super::desk::{Desk, ending};

fn by_gateway(desk: &Desk, gateway: &str, key: &str, conversation: Option<&ConversationId>) -> ChatCommand {
    let mut command = desk.command(key, key, false);
    command.context.channel = Channel::Telegram;
    command.context.gateway_id = Some(GatewayId::parse(gateway).unwrap());
    command.conversation_id = conversation.cloned();
    command
}

#[test]
fn a_gateway_cannot_write_into_another_gateways_conversation() {
    let desk = Desk::new();
    let first = desk.send(by_gateway(&desk, "gateway_00a", "one", None)).answer();
    let named = by_gateway(&desk, "gateway_00b", "two", Some(&first.conversation_id));
    assert_eq!(desk.send(named).refusal().code, Code::NotFound);
    let own = desk.send(by_gateway(&desk, "gateway_00b", "three", None)).answer();
    assert_ne!(own.conversation_id, first.conversation_id);
    let again = by_gateway(&desk, "gateway_00a", "four", Some(&first.conversation_id));
    assert_eq!(desk.send(again).answer().session_id, first.session_id);
}

#[test]
fn a_turn_whose_key_no_secret_opens_still_ends_at_its_deadline() {
    let desk = Desk::new();
    let waiting = desk.hand_in(desk.command("key", "hello", false));
    desk.sql.execute("UPDATE data_keys SET wrapped = X'00'");
    desk.pass(Millis::from_secs(90));
    desk.work();
    assert_eq!(desk.turns(), ["terminal_failure deadline_exceeded"]);
    assert_eq!(ending(waiting).refusal().code, Code::DeadlineExceeded);
    assert_eq!(desk.model.calls.get(), 0);
}

#[test]
fn an_alarm_that_never_rang_is_set_anew_for_the_next_message() {
    let desk = Desk::new();
    let first = desk.clock.now().plus(Millis::from_secs(15));
    desk.say("one", "hello");
    assert_eq!(desk.alarm.times(), [first]);
    desk.pass(Millis::from_secs(60));
    let second = desk.clock.now().plus(Millis::from_secs(15));
    desk.say("two", "hello again");
    assert_eq!(desk.alarm.times(), [first, second]);
}

#[test]
fn an_alarm_that_rings_while_a_message_is_taken_in_is_set_anew() {
    let desk = Desk::new();
    desk.say("one", "hello");
    desk.ring();
    let set = desk.alarm.times().len();
    desk.panic_at.stop_next("ingress_committed");
    let _taken = desk.begin(desk.command("two", "hello again", false));
    assert_eq!(desk.turns(), ["persisted", "accepted"]);
    desk.ring();
    assert_eq!(
        desk.alarm.times().len(),
        set + 1,
        "an object that ends here is found by its alarm"
    );
}

#[test]
fn a_message_that_waited_past_its_deadline_to_be_taken_in_does_not_become_a_turn() {
    let desk = Desk::new();
    desk.panic_at.stop_next("ingress_committed");
    let first = desk.begin(desk.command("one", "hello", false));
    let (second, frames) = desk.begin(desk.command("two", "hello again", false));
    desk.pass(Millis::from_secs(90));
    drop(first);
    block_on(second);
    let refusal = ending(frames).refusal();
    assert_eq!(
        (
            refusal.code,
            refusal.new_key_required,
            refusal.retry_after,
            refusal.turn_id
        ),
        (Code::DeadlineExceeded, false, Some(1), None)
    );
    assert_eq!(desk.turns(), ["accepted"]);
    assert_eq!(desk.say("two", "hello again").answer().reply, "answer to hello again");
}

#[test]
fn messages_that_wait_to_be_taken_in_are_as_bounded_as_the_line() {
    let desk = Desk::new();
    desk.panic_at.stop_next("ingress_committed");
    let _first = desk.begin(desk.command("one", "hello", false));
    let _waiting = [
        desk.begin(desk.command("two", "a", false)),
        desk.begin(desk.command("three", "b", false)),
    ];
    let refusal = ending(desk.hand_in(desk.command("four", "c", false))).refusal();
    assert_eq!((refusal.code, refusal.retry_after), (Code::LineFull, Some(1)));
}
