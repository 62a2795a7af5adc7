//! What came of attempts, put on record.

use domain::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use domain::time::Millis;
use store::outbox::claimed::Content;
use store::outbox::settle::Moved;

use super::desk::*;

fn retry(after: Option<Millis>, holds: Holds) -> Outcome {
    Outcome::Retry {
        class: ErrorClass::RateLimit,
        code: ErrorCode::TooManyRequests,
        after,
        holds,
    }
}

fn rejected() -> Outcome {
    Outcome::Rejected {
        class: ErrorClass::Content,
        code: ErrorCode::MessageTooLong,
    }
}

/// One wave of Ann's first part and of whatever else is due, its first row settled so.
fn settle_first(desk: &Desk, outcome: &Outcome) {
    let (token, claimed) = desk.claim();
    desk.settle(&token, &claimed.rows[0], outcome);
}

#[test]
fn a_token_that_was_lost_or_never_given_settles_nothing() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    let (_, claimed) = desk.claim();
    let before = desk.everything();
    let stranger = desk.token();
    let gone = Outcome::Gone {
        code: ErrorCode::Blocked,
    };
    let moved = Outcome::Moved { to: "5".to_owned() };
    let all = [
        accepted("1"),
        retry(Some(Millis::from_secs(9)), Holds::Gateway),
        retry(Some(Millis::from_secs(9)), Holds::Lane),
        gone,
        moved,
        Outcome::Unauthorized,
        rejected(),
    ];
    for outcome in &all {
        let to = Moved::Address {
            address_id: address("ann"),
            key_id: domain::ids::DataKeyId::parse("key_00ann").unwrap(),
            external_hash: "hash-new".to_owned(),
            sealed: vec![2],
        };
        let outcomes = desk.settle_all(&stranger, &[(&claimed.rows[0], outcome, Some(&to))]);
        assert_eq!((outcomes.settled.len(), outcomes.open.len()), (0, 0));
        assert_eq!(desk.everything(), before, "{outcome:?}");
    }
    // A row that nobody holds has no token: not even that of nobody matches it.
    desk.sql.execute(
        "UPDATE outbound_messages SET status = 'pending', lease_token = NULL, lease_owner = NULL,
           lease_expires_at = NULL",
    );
    let before = desk.everything();
    let nobody = desk.settle_batch(&stranger, &[(&claimed.rows[0], &accepted("1"), None)]);
    let nobody: Vec<_> = nobody
        .into_iter()
        .map(|statement| with_null(statement, &stranger))
        .collect();
    desk.run(&nobody);
    assert_eq!(desk.everything(), before);
}

#[test]
fn a_row_is_settled_once() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    let (token, claimed) = desk.claim();
    desk.settle(&token, &claimed.rows[0], &accepted("1"));
    let before = desk.everything();
    let again = desk.settle(&token, &claimed.rows[0], &rejected());
    assert_eq!(
        again.settled,
        [row("ann1p1")],
        "what its own token settled is told again"
    );
    assert_eq!(desk.everything(), before);
}

#[test]
fn a_failed_part_cancels_the_rest_and_the_turn_ends_in_failure_with_a_notice() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 3);
    settle_first(&desk, &accepted("1"));
    desk.wait(Millis::from_secs(1));
    settle_first(&desk, &rejected());
    assert_eq!(
        desk.stand(),
        "ann1:pending ann1p1:provider_accepted ann1p2:failed ann1p3:cancelled"
    );
    assert_eq!(desk.error("ann1p2"), "content:message_too_long");
    assert_eq!(desk.error("ann1p3"), "policy:earlier_part_failed");
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_failed/0"
    );
    assert_eq!(
        desk.events(&turn),
        "send_claimed send_attempted provider_accepted send_claimed send_attempted delivery_terminal_failure \
         delivery_terminal_failure outbox_enqueued turn_terminal_failure"
    );
    let facts = "SELECT metadata_json AS v FROM turn_events WHERE event_type = 'delivery_terminal_failure'
                 ORDER BY sequence_no";
    assert_eq!(
        desk.list(facts),
        r#"{"part":2,"send_error_class":"content","send_error_code":"message_too_long"} {"part":3,"send_error_class":"policy","send_error_code":"earlier_part_failed"}"#
    );
    desk.wait(Millis::from_secs(1));
    let (token, claimed) = desk.claim();
    assert!(matches!(claimed.rows[0].content, Content::Template(_)));
    desk.settle(&token, &claimed.rows[0], &accepted("2"));
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_failed/0",
        "as it ended"
    );
    assert!(
        desk.events(&turn).ends_with("turn_terminal_failure"),
        "a notice's way is not the turn's"
    );
}

#[test]
fn a_retry_is_scheduled_and_on_record() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    settle_first(
        &desk,
        &Outcome::Ambiguous {
            class: ErrorClass::Timeout,
            code: ErrorCode::Stalled,
        },
    );
    assert_eq!(desk.attempts("ann1p1"), "1:ambiguous:stalled");
    assert_eq!(desk.stand(), "ann1p1:retry");
    assert_eq!(
        desk.list(
            "SELECT next_attempt_at || '/' || attempt_count || '/' || ambiguous_count AS v FROM outbound_messages"
        ),
        format!("{}/1/1", START + 5_000)
    );
    assert_eq!(desk.events(&turn), "send_claimed send_attempted send_retry_scheduled");
    let facts =
        "SELECT attempt_no || ' ' || metadata_json AS v FROM turn_events WHERE event_type = 'send_retry_scheduled'";
    assert_eq!(
        desk.list(facts),
        format!(
            r#"1 {{"part":1,"send_error_class":"timeout","send_error_code":"stalled","retry_at":{}}}"#,
            START + 5_000
        )
    );
    desk.wait(Millis::from_secs(5));
    let (_, claimed) = desk.claim();
    assert_eq!(
        (claimed.rows[0].attempt_no, claimed.rows[0].tried.ambiguous_count),
        (2, 1)
    );
}

#[test]
fn a_flood_holds_the_whole_gateway_for_as_long_as_stated() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    settle_first(&desk, &retry(Some(Millis::from_secs(7)), Holds::Gateway));
    desk.turn("bob", 1, 1);
    desk.wait(Millis::new(6_999));
    let (_, claimed) = desk.claim();
    assert_eq!(
        (claimed.rows.len(), claimed.next_due),
        (0, Some(desk.now().plus(Millis::new(1))))
    );
    desk.wait(Millis::new(1));
    assert_eq!(desk.takes(), ["bob1p1", "ann1p1"]);
    assert_eq!(
        desk.attempts("ann1p1"),
        "1:retry:too_many_requests 2:open",
        "one attempt charged"
    );
    assert_eq!(
        desk.list("SELECT retry_after_ms AS v FROM outbound_attempts WHERE attempt_no = 1 AND outcome IS NOT NULL"),
        "7000"
    );
}

#[test]
fn a_flood_that_does_not_say_how_long_holds_by_the_schedule_and_none_holds_for_ever() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    settle_first(&desk, &retry(None, Holds::Gateway));
    assert_eq!(
        desk.list("SELECT next_at AS v FROM send_pacing"),
        (START + 5_000).to_string()
    );
    desk.wait(Millis::from_secs(5));
    settle_first(&desk, &retry(Some(Millis::from_mins(100_000)), Holds::Gateway));
    let day = START + 5_000 + 86_400_000;
    assert_eq!(desk.list("SELECT next_at AS v FROM send_pacing"), day.to_string());
}

#[test]
fn a_message_that_was_tried_often_does_not_silence_a_bot_for_hours() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    desk.sql.execute("UPDATE outbound_messages SET attempt_count = 10");
    settle_first(&desk, &retry(None, Holds::Gateway));
    assert_eq!(
        desk.list("SELECT next_attempt_at AS v FROM outbound_messages"),
        (START + 7_200_000).to_string()
    );
    assert_eq!(
        desk.list("SELECT next_at AS v FROM send_pacing"),
        (START + 60_000).to_string()
    );
}

#[test]
fn a_busy_chat_holds_its_lane_only() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    settle_first(&desk, &retry(Some(Millis::from_secs(9)), Holds::Lane));
    desk.turn("ann", 2, 1);
    desk.turn("bob", 1, 1);
    desk.wait(Millis::from_secs(8));
    assert_eq!(desk.takes(), ["bob1p1"]);
    desk.wait(Millis::from_secs(1));
    assert_eq!(desk.takes(), ["ann1p1"]);
}

#[test]
fn formatting_that_was_not_understood_goes_again_as_plain_text() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    settle_first(&desk, &Outcome::Unformatted);
    desk.wait(Millis::from_secs(1));
    let (token, claimed) = desk.claim();
    assert!(claimed.rows[0].tried.plain);
    desk.settle(&token, &claimed.rows[0], &Outcome::Unformatted);
    assert_eq!(desk.error("ann1p1"), "content:bad_formatting");
    assert_eq!(desk.attempts("ann1p1"), "1:retry:bad_formatting 2:retry:bad_formatting");
}

#[test]
fn an_unknown_credential_breaks_the_gateway_and_its_rows_wait_with_no_attempt_charged() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    settle_first(&desk, &Outcome::Unauthorized);
    let status = "SELECT status AS v FROM gateways WHERE gateway_id = 'gateway_00bot'";
    assert_eq!(desk.list(status), "broken");
    assert_eq!(desk.stand(), "ann1p1:pending");
    assert_eq!(desk.list("SELECT attempt_count AS v FROM outbound_messages"), "0");
    assert_eq!(desk.attempts("ann1p1"), "1:retry:unauthorized");
    desk.wait(Millis::from_mins(5));
    assert_eq!(desk.takes(), Vec::<String>::new());
    desk.sql
        .execute("UPDATE gateways SET status = 'active', updated_at = 8");
    let (token, claimed) = desk.claim();
    assert_eq!(
        (claimed.rows[0].attempt_no, claimed.rows[0].tried.attempt_count),
        (2, 1)
    );
    desk.settle(&token, &claimed.rows[0], &accepted("1"));
    assert_eq!(desk.turn_stands(&turn), "terminal_success/accepted");
}

#[test]
fn a_credential_that_was_replaced_meanwhile_is_not_blamed() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    let (token, claimed) = desk.claim();
    desk.sql.execute("UPDATE gateways SET updated_at = 8");
    desk.settle(&token, &claimed.rows[0], &Outcome::Unauthorized);
    assert_eq!(
        desk.list("SELECT status AS v FROM gateways WHERE gateway_id = 'gateway_00bot'"),
        "active"
    );
    assert_eq!(desk.stand(), "ann1p1:pending");
}

#[test]
fn a_send_that_was_not_begun_costs_no_attempt() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    settle_first(&desk, &Outcome::NotStarted);
    assert_eq!(desk.attempts("ann1p1"), "1:not_started");
    assert_eq!(desk.list("SELECT attempt_count AS v FROM outbound_messages"), "0");
    desk.wait(Millis::from_secs(1));
    let (_, claimed) = desk.claim();
    assert_eq!(
        (claimed.rows[0].attempt_no, claimed.rows[0].tried.attempt_count),
        (2, 1)
    );
}

#[test]
fn the_last_attempt_ends_the_row() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    for _ in 0..12 {
        settle_first(&desk, &retry(None, Holds::Row));
        desk.wait(Millis::from_mins(120));
        desk.sql
            .execute("UPDATE outbound_messages SET expires_at = expires_at + 7200000");
    }
    assert_eq!(desk.error("ann1p1"), "policy:attempts_exhausted");
    assert_eq!(desk.list("SELECT count(*) AS v FROM outbound_attempts"), "12");
}
