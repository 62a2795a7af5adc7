//! Each outcome of a send, end to end.

use domain::outbox::template::Template;
use harness::http::{Piece, Reply};
use queues::deliver::Alert;

use super::office::{CHAT, Office, answer};

const BLOCKED: &str = r#"{"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}"#;
const NO_CHAT: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}"#;
const TOO_LONG: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: message is too long"}"#;
const ENTITIES: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 5"}"#;
const SUPERGROUP: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1001557912345}}"#;
const BAD_TOKEN: &str = r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#;
const FLOOD: &str =
    r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}"#;

fn office_with(replies: impl IntoIterator<Item = Reply>) -> Office {
    let office = Office::new();
    office.answers.borrow_mut().extend(replies);
    office.reply("Soup, and *bread*.");
    office
}

/// Takes the message, and then never says so.
fn stalling() -> Reply {
    Reply {
        head_after: 0,
        status: Some(200),
        retry_after: None,
        body: vec![(0, Piece::Stall)],
    }
}

fn address_status(office: &Office) -> Vec<String> {
    office.lines("SELECT status FROM channel_addresses ORDER BY address_id", &["status"])
}

#[test]
fn a_chat_that_is_gone_ends_the_row_and_disables_the_address() {
    for (body, status, code) in [(BLOCKED, 403, "blocked"), (NO_CHAT, 400, "chat_not_found")] {
        let office = office_with([answer(status, body)]);
        office.deliver();
        assert_eq!(office.rows(), [format!("failed 1 {code}")]);
        assert_eq!(office.attempts(), [format!("1 gone {status} {code}")]);
        assert_eq!(office.turns(), ["terminal_failure delivery_failed"]);
        assert_eq!(address_status(&office), ["disabled"]);
        office.pass(86_400_000);
        office.deliver();
        assert_eq!(office.texts().len(), 1, "nothing further goes there");
    }
}

#[test]
fn what_waits_behind_a_blocked_chat_is_cancelled() {
    let office = office_with([answer(403, BLOCKED)]);
    office.reply("And another.");
    office.deliver();
    assert_eq!(office.rows(), ["failed 1 blocked", "cancelled 0 authorization_changed"]);
    let ends = [
        "terminal_failure delivery_failed",
        "terminal_failure delivery_cancelled",
    ];
    assert_eq!(office.turns(), ends);
}

#[test]
fn a_part_that_fails_takes_the_rest_of_its_reply_along() {
    let office = Office::new();
    office.answers.borrow_mut().push_back(answer(400, TOO_LONG));
    office.reply(&"word ".repeat(2_000));
    office.deliver();
    let rows = office.rows();
    assert_eq!(
        rows[..3],
        [
            "failed 1 message_too_long",
            "cancelled 0 earlier_part_failed",
            "cancelled 0 earlier_part_failed"
        ]
    );
    // The person is told, so that silence is not the only sign.
    assert_eq!(office.texts().last().unwrap(), Template::TurnFailed.text());
    assert_eq!(rows[3..], ["provider_accepted 1 -"]);
    assert_eq!(office.turns(), ["terminal_failure delivery_failed"]);
    assert_eq!(office.alerts(), [Alert::MessageTooLong]);
}

#[test]
fn formatting_that_cannot_be_read_goes_once_as_plain_text() {
    let office = office_with([answer(400, ENTITIES)]);
    office.deliver();
    let sent = office.sent.borrow().clone();
    let modes: Vec<_> = sent.iter().map(|sent| sent.parse_mode.as_deref()).collect();
    assert_eq!(modes, [Some("MarkdownV2"), None]);
    assert_eq!(office.texts(), ["Soup, and *bread*."; 2]);
    assert_eq!(office.attempts(), ["1 retry 400 bad_formatting", "2 accepted 200 -"]);

    let stubborn = office_with([answer(400, ENTITIES), answer(400, ENTITIES)]);
    stubborn.deliver();
    assert_eq!(stubborn.rows()[0], "failed 2 bad_formatting");
    assert_eq!(stubborn.texts()[..2], ["Soup, and *bread*."; 2]);
}

#[test]
fn a_chat_that_moved_gets_its_message_at_the_new_id_and_keeps_it() {
    let office = office_with([answer(400, SUPERGROUP)]);
    office.deliver();
    let chats = |office: &Office| -> Vec<i64> { office.sent.borrow().iter().map(|sent| sent.chat_id).collect() };
    let (old, new) = (CHAT.parse().unwrap(), -1_001_557_912_345);
    assert_eq!(chats(&office), [old, new]);
    assert_eq!(office.attempts(), ["1 retry 400 moved", "2 accepted 200 -"]);
    office.reply("Next.");
    office.pass(2_000);
    office.deliver();
    assert_eq!(chats(&office), [old, new, new]);

    // A chat that goes on moving is given up.
    let restless = office_with([answer(400, SUPERGROUP), answer(400, SUPERGROUP)]);
    restless.deliver();
    assert!(
        restless.rows().contains(&"failed 2 moved".to_owned()),
        "{:?}",
        restless.rows()
    );
}

#[test]
fn a_refused_credential_holds_everything_back_until_it_is_mended() {
    for refusal in [
        answer(401, BAD_TOKEN),
        answer(404, r#"{"ok":false,"error_code":404,"description":"Not Found"}"#),
    ] {
        let office = office_with([refusal]);
        office.deliver();
        assert_eq!(office.rows(), ["pending 0 unauthorized"]);
        assert_eq!(office.lines("SELECT status FROM gateways", &["status"]), ["broken"]);
        assert_eq!(office.alerts(), [Alert::GatewayBroken]);
        assert_eq!(office.ordered(), []);
        office.pass(60_000);
        office.deliver();
        assert_eq!(office.texts().len(), 1, "nothing is sent meanwhile");
        office.give_token("11:the-mended-one");
        office.deliver();
        assert_eq!(office.sent.borrow()[1].token, "11:the-mended-one");
        assert_eq!(office.rows(), ["provider_accepted 1 unauthorized"]);
        assert_eq!(office.turns(), ["terminal_success -"]);
    }
}

#[test]
fn a_credential_that_does_not_open_is_a_broken_one() {
    let office = office_with([]);
    office.sql.execute("UPDATE gateways SET channel_token_sealed = x'00'");
    office.deliver();
    assert_eq!(office.texts(), Vec::<String>::new());
    assert_eq!(office.lines("SELECT status FROM gateways", &["status"]), ["broken"]);
    assert_eq!(office.alerts(), [Alert::GatewayBroken]);
}

#[test]
fn a_flood_holds_the_whole_gateway_for_as_long_as_it_says() {
    let office = office_with([answer(429, FLOOD)]);
    office.deliver();
    assert_eq!(office.attempts(), ["1 retry 429 too_many_requests"]);
    assert_eq!(
        office.lines("SELECT retry_after_ms FROM outbound_attempts", &["retry_after_ms"]),
        ["7000"]
    );
    office.notice_to_stranger("99");
    for _ in 0..6 {
        office.deliver();
        assert_eq!(office.texts().len(), 1, "at {}", office.executor.elapsed());
        office.pass(1_000);
    }
    office.pass(1_000);
    office.deliver();
    let times: Vec<i64> = office.sent.borrow().iter().map(|sent| sent.at).collect();
    assert_eq!(times.len(), 3);
    assert!(times[1..].iter().all(|at| *at >= 7_000), "{times:?}");
}

#[test]
fn a_fault_of_the_provider_is_tried_again_by_the_schedule() {
    for reply in [answer(502, "<html>502 Bad Gateway</html>"), Reply::unreachable()] {
        let office = office_with([reply]);
        office.deliver();
        assert!(office.rows()[0].starts_with("retry 1 "), "{:?}", office.rows());
        // Four seconds at least, of which the consumer itself waits one and a half.
        office.pass(2_400);
        office.deliver();
        assert_eq!(office.texts().len(), 1);
        office.pass(3_700);
        office.deliver();
        assert_eq!(office.turns(), ["terminal_success -"]);
        let events = [
            "send_claimed",
            "send_attempted",
            "send_retry_scheduled",
            "send_claimed",
            "send_attempted",
            "provider_accepted",
            "turn_terminal_success",
        ];
        assert_eq!(office.events(), events);
    }
}

#[test]
fn a_provider_that_takes_it_and_stalls_is_asked_only_a_few_times() {
    let office = office_with(std::iter::repeat_n(stalling(), 20));
    for _ in 0..40 {
        office.deliver();
        office.pass(60_000);
    }
    let sends = office.texts().iter().filter(|text| text.starts_with("Soup")).count();
    assert_eq!(sends, 4);
    let attempts = office.lines(
        "SELECT a.attempt_no, a.outcome, a.error_code FROM outbound_attempts a JOIN outbound_messages m USING (outbox_id)
         WHERE m.origin = 'channel' ORDER BY a.attempt_no",
        &["attempt_no", "outcome", "error_code"],
    );
    let expected: Vec<String> = (1..=4).map(|no| format!("{no} ambiguous stalled")).collect();
    assert_eq!(attempts, expected);
    assert_eq!(office.rows()[0], "failed 4 unconfirmed");
    assert_eq!(office.turns(), ["terminal_failure delivery_failed"]);
}

#[test]
fn a_stranger_gets_a_text_at_a_chat_that_is_then_forgotten() {
    let office = Office::new();
    office.notice_to_stranger("-77");
    office.answers.borrow_mut().push_back(answer(400, SUPERGROUP));
    office.deliver();
    let chats: Vec<i64> = office.sent.borrow().iter().map(|sent| sent.chat_id).collect();
    assert_eq!(chats, [-77, -1_001_557_912_345]);
    assert_eq!(office.texts(), [Template::LinkFirst.text(); 2]);
    let kept = office.lines("SELECT count(destination_sealed) AS n FROM outbound_messages", &["n"]);
    assert_eq!(kept, ["0"]);
}

#[test]
fn words_whose_key_is_gone_are_not_sent() {
    let office = office_with([]);
    office
        .sql
        .execute("UPDATE data_keys SET wrapped = NULL, destroyed_at = 1");
    office.deliver();
    assert_eq!(office.texts(), Vec::<String>::new());
    assert_eq!(office.rows()[0], "failed 1 content_unreadable");
    assert!(office.alerts().is_empty(), "that was wanted");
}

#[test]
fn words_that_were_changed_are_not_sent() {
    for damage in [
        "UPDATE outbound_messages SET content_to = content_to - 1",
        "UPDATE outbound_messages SET content_hash = 'other'",
        "UPDATE messages SET content_sealed = x'0102'",
        "UPDATE channel_addresses SET external_sealed = x'0102'",
    ] {
        let office = office_with([]);
        office.sql.execute(damage);
        office.deliver();
        let soup = office.texts().iter().any(|text| text.starts_with("Soup"));
        assert!(!soup, "{damage}");
        assert_eq!(office.rows(), ["retry 1 content_unreadable"], "{damage}");
        assert!(office.alerts().contains(&Alert::Unreadable), "{damage}");
    }
}

/// A master secret that was removed too early may be put back.
#[test]
fn words_that_do_not_open_wait_until_they_do() {
    let office = office_with([]);
    office
        .sql
        .execute("UPDATE data_keys SET master_version = master_version + 1");
    office.deliver();
    assert_eq!(office.texts(), Vec::<String>::new());
    office
        .sql
        .execute("UPDATE data_keys SET master_version = master_version - 1");
    office.pass(6_000);
    office.deliver();
    assert_eq!(office.rows(), ["provider_accepted 2 content_unreadable"]);
    assert_eq!(office.turns(), ["terminal_success -"]);
}
