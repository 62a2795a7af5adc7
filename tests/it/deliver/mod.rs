//! The consumer of the sends queue, from the order to send to what stands in the ledger.

mod faults;
mod fixtures;
pub(crate) mod office;
mod outcomes;

use domain::job::{Job, JobMessage};
use domain::time::Millis;
use harness::http::Reply;
use queues::deliver::Sums;
use queues::jobs::{Acked, Disposition};

use office::{CHAT, Office, TOKEN, answer};

#[test]
fn an_answer_is_sent_and_its_turn_ends_well() {
    let office = Office::new();
    office.reply("Soup, and *bread*.");
    let sums = office.deliver();
    let sent = office.sent.borrow();
    let [sent] = sent.as_slice() else { panic!("{sent:?}") };
    assert_eq!((sent.token.as_str(), sent.chat_id.to_string().as_str()), (TOKEN, CHAT));
    assert_eq!(
        (sent.text.as_str(), sent.parse_mode.as_deref()),
        ("Soup, and *bread*.", Some("MarkdownV2"))
    );
    assert_eq!(office.rows(), ["provider_accepted 1 -"]);
    assert_eq!(office.attempts(), ["1 accepted 200 -"]);
    let events = [
        "send_claimed",
        "send_attempted",
        "provider_accepted",
        "turn_terminal_success",
    ];
    assert_eq!(office.events(), events);
    assert_eq!(office.turns(), ["terminal_success -"]);
    assert_eq!(
        office.checkpoints(),
        ["send_claimed", "provider_accepted", "before_settle"]
    );
    let expected = Sums {
        waves: 1,
        claimed: 1,
        accepted: 1,
        ..Sums::default()
    };
    assert_eq!(sums, expected);
    assert_eq!(office.ordered(), []);
    assert_eq!(office.alerts(), []);
}

#[test]
fn the_parts_of_a_long_answer_go_in_order_one_a_second() {
    let office = Office::new();
    let text: String = (0..3_000).map(|at| format!("{at} ")).collect();
    office.reply(&text);
    let sums = office.deliver();
    assert_eq!((sums.waves, sums.accepted), (4, 4));
    assert_eq!(office.texts().concat(), text);
    let times: Vec<i64> = office.sent.borrow().iter().map(|sent| sent.at).collect();
    assert_eq!(times, [0, 1_000, 2_000, 3_000]);
    assert_eq!(office.turns(), ["terminal_success -"]);
}

#[test]
fn a_wave_costs_two_round_trips() {
    let office = Office::new();
    office.reply_to_chats(5);
    let before = office.sql.trips();
    let sums = office.deliver();
    let trips = office.sql.trips() - before;
    println!("    a wave of {} messages: {trips} round trips", sums.claimed);
    assert_eq!((sums.waves, sums.accepted, trips), (1, 5, 2));
    assert_eq!(
        office.checkpoints(),
        ["send_claimed", "provider_accepted", "before_settle"]
    );
}

#[test]
fn a_bot_sends_no_more_than_thirty_in_any_second() {
    let office = Office::new();
    office.reply_to_chats(60);
    let sums = office.deliver();
    assert_eq!((sums.waves, sums.accepted), (10, 60));
    let times: Vec<i64> = office.sent.borrow().iter().map(|sent| sent.at).collect();
    let most = times
        .iter()
        .map(|from| times.iter().filter(|at| (*from..from + 1_000).contains(*at)).count());
    assert_eq!(most.max(), Some(24), "{times:?}");
    assert_eq!(times.last(), Some(&(9 * 6 * 42)));
}

#[test]
fn a_slow_claim_does_not_bring_two_waves_together() {
    let office = Office::new();
    office.reply_to_chats(12);
    office.stand_still("send_claimed", 500);
    office.deliver();
    let times: Vec<i64> = office.sent.borrow().iter().map(|sent| sent.at).collect();
    assert_eq!((times[0], times[6]), (500, 500 + 6 * 42));
}

#[test]
fn a_batch_is_worked_on_for_a_while_and_the_rest_ordered_again() {
    let office = Office::new();
    for _ in 0..40 {
        office.reply("One more.");
    }
    let sums = office.deliver();
    // One chat gets one message a second.
    assert_eq!((sums.waves, sums.accepted), (32, 32));
    assert_eq!(office.executor.elapsed(), 31_000);
    assert_eq!(office.ordered(), [(office.order(), 1_000)]);

    let slow = Office::new();
    for _ in 0..20 {
        slow.answers.borrow_mut().push_back(Reply {
            head_after: 9_000,
            ..answer(200, r#"{"ok":true,"result":{"message_id":1}}"#)
        });
        slow.reply("One more.");
    }
    // The seventh is begun 54 seconds after the first.
    assert_eq!(slow.deliver().waves, 7);
    assert_eq!(slow.ordered(), [(slow.order(), 0)]);
}

#[test]
fn what_is_due_within_a_minute_is_ordered_and_the_rest_left_to_the_sweep() {
    let office = Office::new();
    office.reply("Hello.");
    for (attempt, most) in [(1, 6_000), (2, 18_000), (3, 36_000)] {
        office.answers.borrow_mut().push_back(answer(502, "<html>"));
        office.deliver();
        let ordered = office.ordered();
        assert_eq!(ordered.len(), attempt);
        let (body, delay) = &ordered[attempt - 1];
        assert_eq!(*body, office.order());
        assert!((1..=most).contains(delay), "{delay}");
        office.pass(*delay);
    }
    // The next wait is a minute, the one after two.
    for _ in 0..2 {
        office.answers.borrow_mut().push_back(answer(502, "<html>"));
        office.deliver();
        office.pass(72_000);
    }
    assert!(office.ordered().len() <= 4);
    assert_eq!(office.rows(), ["retry 5 server_error"]);
}

#[test]
fn each_message_of_a_batch_gets_its_own_answer() {
    let office = Office::new();
    office.reply("Hello.");
    let user_id = domain::ids::UserId::parse("user_00ann").unwrap();
    let misplaced = JobMessage::new(1, Job::Generate { user_id }).encode();
    let gateway_id = domain::ids::GatewayId::parse("gateway_00other").unwrap();
    let elsewhere = JobMessage::new(1, Job::Deliver { gateway_id }).encode();
    let batch = vec![String::new(), office.order(), misplaced, elsewhere, office.order()];
    let (dispositions, sums) = office.consume(batch);
    let (done, undecodable) = (Disposition::Ack(Acked::Done), Disposition::Ack(Acked::Undecodable));
    assert_eq!(dispositions, [undecodable, done, undecodable, done, done]);
    assert_eq!((sums.accepted, office.texts().len()), (1, 1));
}

#[test]
fn an_order_from_before_a_restore_sends_nothing() {
    let office = Office::new();
    office.reply("Hello.");
    office.sql.execute("UPDATE meta SET epoch = 2");
    assert_eq!(office.deliver(), Sums::default());
    assert_eq!(office.texts(), Vec::<String>::new());
    assert_eq!(office.rows(), ["pending 0 -"]);
}

#[test]
fn gateways_take_turns() {
    let office = Office::new();
    office.second_bot();
    for _ in 0..2 {
        office.reply("From one.");
        office.reply_by_second_bot("From the other.");
    }
    let gateway_id = domain::ids::GatewayId::parse("gateway_00two").unwrap();
    let other = JobMessage::new(1, Job::Deliver { gateway_id }).encode();
    let (_, sums) = office.consume(vec![office.order(), other]);
    assert_eq!((sums.waves, sums.accepted), (4, 4));
    assert_eq!(
        office.texts(),
        ["From one.", "From the other.", "From one.", "From the other."]
    );
    assert_eq!(office.executor.elapsed(), Millis::from_secs(1).get());
}
