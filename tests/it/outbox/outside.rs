//! Senders outside the service: the same leases and fences, each step a command under its key.

use domain::fence::Fence;
use domain::outbox::policy::OUTSIDE;
use domain::problem::Code;
use domain::rfc3339;
use domain::time::Millis;
use harness::sqlite::Fault;
use serde_json::json;
use store::outbox::operate;

use super::bridge::*;
use super::desk::*;

const CONFIRM: &str = r#""provider_message_id":"77""#;

#[test]
fn a_sender_claims_sends_and_confirms_part_after_part() {
    let bridge = Bridge::new();
    bridge.turn(1);
    let token = bridge.token(BRIDGE, "k1");
    let claimed = bridge.claim("k1");
    let message = json!({
        "outbox_id": "out_00out1p1", "attempt": 1, "turn_id": "turn_00out1", "destination": "chat-1001",
        "text": "first part", "part": 1, "parts": 2,
        "expires_at": rfc3339::format(bridge.desk.now().plus(Millis::from_mins(1_440))),
        "lease_expires_at": rfc3339::format(bridge.desk.now().plus(OUTSIDE.lease)),
    });
    assert_eq!(claimed, json!({ "lease_token": token, "messages": [message] }));
    bridge.desk.wait(Millis::from_secs(50));
    let begun = bridge.attempt(BRIDGE, "out1p1", "k2", &token);
    let until = rfc3339::format(bridge.desk.now().plus(OUTSIDE.lease));
    assert_eq!(
        json_of(&begun),
        (
            200,
            json!({ "outbox_id": "out_00out1p1", "lease_expires_at": until }),
            false
        )
    );
    bridge.desk.wait(Millis::from_secs(50));
    assert_eq!(bridge.claim("other")["messages"], json!([]), "renewed");
    let confirmed = bridge.finish("out1p1", "k3", &token, CONFIRM);
    assert_eq!(
        json_of(&confirmed),
        (
            200,
            json!({ "outbox_id": "out_00out1p1", "status": "provider_accepted" }),
            false
        )
    );
    let second = bridge.claim("k4");
    assert_eq!(second["messages"][0]["text"], "second one");
    let token = bridge.token(BRIDGE, "k4");
    bridge.finish("out1p2", "k5", &token, CONFIRM).ok().unwrap();
    assert_eq!(
        bridge
            .desk
            .list("SELECT status AS v FROM turns WHERE turn_id = 'turn_00out1'"),
        "terminal_success"
    );
    assert_eq!(
        bridge
            .desk
            .list("SELECT worker_id || ':' || provider_message_id AS v FROM outbound_attempts"),
        "gateway_00bridge:77 gateway_00bridge:77"
    );
}

#[test]
fn the_same_key_finds_the_same_rows_and_stores_no_words() {
    let bridge = Bridge::new();
    bridge.turn(1);
    let first = bridge.claim("k1");
    let again = bridge.claim_as(BRIDGE, "k1", r#"{"channel":"telegram"}"#);
    assert_eq!(json_of(&again), (200, first.clone(), true));
    let stored = bridge.desk.list("SELECT response AS v FROM idempotency_results");
    assert_eq!(stored, r#"{"outbox_ids":["out_00out1p1"]}"#);
    assert_eq!(
        code(&bridge.claim_as(BRIDGE, "k1", r#"{"channel":"telegram","limit":1}"#)),
        Code::IdempotencyKeyReused
    );
    bridge.desk.wait(Millis::from_secs(1));
    let token = bridge.token(BRIDGE, "k1");
    let confirmed = bridge.finish("out1p1", "k2", &token, CONFIRM);
    let once_more = bridge.finish("out1p1", "k2", &token, CONFIRM);
    assert_eq!((json_of(&confirmed).2, json_of(&once_more).2), (false, true));
    assert_eq!(json_of(&confirmed).1, json_of(&once_more).1);
    let later = bridge.claim_as(BRIDGE, "k1", r#"{"channel":"telegram"}"#);
    assert_eq!(
        json_of(&later).1["messages"],
        json!([]),
        "what still stands under it, and nothing new"
    );
    assert_ne!(
        bridge.token(BRIDGE, "k1"),
        bridge.token(BOT, "k1"),
        "a key is its caller's own"
    );
}

#[test]
fn lost_requests_and_replies_change_nothing() {
    for faults in [[Fault::ReplyLost, Fault::None], [Fault::RequestLost, Fault::None]] {
        let bridge = Bridge::new();
        bridge.turn(1);
        bridge.desk.sql.fail_next([Fault::None].into_iter().chain(faults));
        assert_eq!(bridge.claim("k1")["messages"][0]["outbox_id"], "out_00out1p1");
        let token = bridge.token(BRIDGE, "k1");
        bridge.desk.sql.fail_next([Fault::None].into_iter().chain(faults));
        assert_eq!(json_of(&bridge.attempt(BRIDGE, "out1p1", "k2", &token)).0, 200);
        bridge.desk.sql.fail_next([Fault::None].into_iter().chain(faults));
        assert_eq!(json_of(&bridge.finish("out1p1", "k3", &token, CONFIRM)).0, 200);
        assert_eq!(bridge.desk.attempts("out1p1"), "1:accepted");
    }
}

#[test]
fn a_gateway_sends_only_its_own_through_its_own_channels_and_only_with_its_own_credential() {
    let bridge = Bridge::new();
    bridge.turn(1);
    bridge.desk.turn("ann", 1, 1);
    let telegram = r#"{"channel":"telegram"}"#;
    assert_eq!(
        code(&bridge.claim_as(BRIDGE, "k1", r#"{"channel":"imessage"}"#)),
        Code::Forbidden
    );
    let ours = bridge.claim_as(BOT, "k1", telegram);
    assert_eq!((code(&ours), json_of(&ours).0), (Code::Conflict, 409));
    assert!(
        json_of(&bridge.claim_as(BOT, "k1", telegram)).2,
        "the same again under the same key"
    );
    let token = bridge.token(BRIDGE, "k2");
    assert_eq!(bridge.claim("k2")["messages"].as_array().unwrap().len(), 1);
    let foreign = bridge.attempt(BOT, "out1p1", "k3", &token);
    assert_eq!(code(&foreign), Code::NotFound);
    assert_eq!(code(&bridge.finish("ann1p1", "k4", &token, CONFIRM)), Code::NotFound);
    assert_eq!(code(&bridge.finish("nothing", "k5", &token, CONFIRM)), Code::NotFound);
    bridge
        .desk
        .sql
        .execute("UPDATE gateways SET authorization_revision = 2");
    assert_eq!(code(&bridge.claim_as(BRIDGE, "k6", telegram)), Code::TokenStale);
}

#[test]
fn a_lost_lease_is_told_and_changes_nothing() {
    let bridge = Bridge::new();
    bridge.turn(1);
    bridge.claim("k1");
    let lost = bridge.token(BRIDGE, "k1");
    bridge.desk.wait(OUTSIDE.lease);
    assert_eq!(
        code(&bridge.attempt(BRIDGE, "out1p1", "k2", &lost)),
        Code::Conflict,
        "run out"
    );
    bridge.claim("k3");
    let before = bridge.desk.everything();
    for (key, rest) in [("k4", CONFIRM), ("k5", r#""outcome":"gone""#)] {
        let told = bridge.finish("out1p1", key, &lost, rest);
        assert_eq!((code(&told), json_of(&told).0), (Code::Conflict, 409));
    }
    assert_eq!(code(&bridge.attempt(BRIDGE, "out1p1", "k6", &lost)), Code::Conflict);
    assert_eq!(bridge.desk.everything(), before);
}

/// Claimed, then forbidden: the sender may not begin, unless `fence` is missing.
#[test]
fn what_is_forbidden_after_the_claim_is_not_begun() {
    let off = "INSERT INTO send_switches VALUES ('global', '', 0, 0)";
    let table = [
        (Fence::SendsEnabled, off),
        (Fence::GatewayOpen, "UPDATE gateways SET channels = '[]'"),
        (Fence::NotExpired, "UPDATE outbound_messages SET expires_at = 1"),
        (
            Fence::StillAuthorized,
            "UPDATE channel_addresses SET status = 'disabled'",
        ),
    ];
    for (fence, script) in table {
        let bridge = Bridge::new();
        bridge.turn(1);
        bridge.claim("k1");
        let token = bridge.token(BRIDGE, "k1");
        bridge.desk.sql.execute(script);
        let refused = bridge.attempt(BRIDGE, "out1p1", "k2", &token);
        assert_eq!(code(&refused), Code::Conflict, "{fence:?}");
        bridge.desk.sql.drop_fence(fence);
        assert_eq!(
            json_of(&bridge.attempt(BRIDGE, "out1p1", "k3", &token)).0,
            200,
            "{fence:?}"
        );
    }
}

#[test]
fn every_report_settles_by_the_same_rules() {
    let table = [
        (
            r#""outcome":"retry","retry_after_seconds":7,"error_class":"rate_limit""#,
            "retry",
            "active",
        ),
        (r#""outcome":"ambiguous""#, "retry", "active"),
        (
            r#""outcome":"rejected","error_code":"message_too_long""#,
            "failed",
            "active",
        ),
        (r#""outcome":"gone","error_code":"blocked""#, "failed", "disabled"),
    ];
    for (rest, status, address) in table {
        let bridge = Bridge::new();
        bridge.turn(1);
        bridge.claim("k1");
        let told = bridge.finish("out1p1", "k2", &bridge.token(BRIDGE, "k1"), rest);
        assert_eq!(json_of(&told).1["status"], status, "{rest}");
        let stored = "SELECT status AS v FROM channel_addresses WHERE address_id = 'address_00out'";
        assert_eq!(bridge.desk.list(stored), address, "{rest}");
        if rest.contains("rate_limit") {
            bridge.desk.wait(Millis::new(6_999));
            assert_eq!(bridge.claim("k3")["messages"], json!([]));
            bridge.desk.wait(Millis::new(1));
            assert_eq!(bridge.claim("k4")["messages"].as_array().unwrap().len(), 1);
        }
    }
}

#[test]
fn what_cannot_be_opened_is_ended_and_what_is_set_aside_is_not_given() {
    let bridge = Bridge::new();
    bridge.turn(1);
    bridge.desk.run(&operate::quarantine(&row("out1p1"), bridge.desk.now()));
    assert_eq!(bridge.claim("k1")["messages"], json!([]));
    let until = bridge.desk.now().plus(Millis::from_mins(60));
    bridge
        .desk
        .run(&operate::requeue(&row("out1p1"), until, bridge.desk.now()));
    bridge
        .desk
        .sql
        .execute("UPDATE data_keys SET wrapped = NULL, destroyed_at = 1 WHERE key_id = 'key_00ann'");
    assert_eq!(bridge.claim("k2")["messages"], json!([]));
    assert_eq!(bridge.desk.error("out1p1"), "content:content_unreadable");
}

/// A master secret that was removed too early may be put back.
#[test]
fn what_does_not_open_is_given_once_it_does() {
    let bridge = Bridge::new();
    bridge.turn(1);
    let shift = |by: i32| {
        let sql = format!("UPDATE data_keys SET master_version = master_version + {by} WHERE key_id = 'key_00ann'");
        bridge.desk.sql.execute(&sql);
    };
    shift(1);
    assert_eq!(bridge.claim("k1")["messages"], json!([]));
    shift(-1);
    bridge.desk.wait(Millis::from_secs(6));
    assert_eq!(bridge.claim("k2")["messages"].as_array().unwrap().len(), 1);
}
