use domain::guard::Guard;
use harness::sqlite::Fault;
use serde_json::json;
use store::idempotency::{Settled, StoredResult, purge};

use super::*;

fn guardian() -> Value {
    json!({"family_id": "family_00demo", "role": "guardian", "status": "active"})
}

#[test]
fn a_user_gets_a_family_a_key_and_a_head_once() {
    let world = World::demo();
    let answer = done(&world.put_user("user_00demo", "family_00demo", "guardian", "active"));
    let expected = json!({"user_id": "user_00demo", "family_id": "family_00demo", "role": "guardian", "status": "active",
        "authorization_revision": 1});
    assert_eq!(answer, expected, "the same again changes nothing");
    assert_eq!(
        world.number("SELECT count(*) AS v FROM data_keys WHERE subject_kind = 'user'"),
        1
    );
    assert_eq!(
        world.number("SELECT count(*) AS v FROM data_keys WHERE subject_kind = 'family'"),
        1
    );
    assert_eq!(world.number("SELECT count(*) AS v FROM user_heads"), 1);
}

#[test]
fn each_change_of_what_a_user_may_do_makes_older_tokens_stale() {
    let world = World::demo();
    world.put_family("family_00next", "active");
    let revision = |role: &str, family: &str, status: &str| {
        done(&world.put_user("user_00demo", family, role, status))["authorization_revision"]
            .as_i64()
            .unwrap()
    };
    assert!(world.fresh(&user("user_00demo", "family_00demo", 1)));
    assert_eq!(revision("adult_member", "family_00demo", "active"), 2);
    assert!(!world.fresh(&user("user_00demo", "family_00demo", 1)));
    assert!(world.fresh(&user("user_00demo", "family_00demo", 2)));
    assert_eq!(revision("adult_member", "family_00next", "active"), 3);
    assert!(
        !world.fresh(&user("user_00demo", "family_00demo", 3)),
        "the family of the token must be the user's"
    );
    assert!(world.fresh(&user("user_00demo", "family_00next", 3)));
    assert_eq!(revision("adult_member", "family_00next", "suspended"), 4);
    assert!(!world.fresh(&user("user_00demo", "family_00next", 4)), "suspended");
    assert_eq!(revision("adult_member", "family_00next", "active"), 5);
    assert_eq!(revision("adult_member", "family_00next", "active"), 5);
}

#[test]
fn suspending_a_family_makes_its_users_tokens_stale_for_good() {
    let world = World::demo();
    let token = user("user_00demo", "family_00demo", 1);
    world.put_family("family_00demo", "active");
    assert!(world.fresh(&token));
    world.put_family("family_00demo", "suspended");
    assert!(!world.fresh(&token));
    world.put_family("family_00demo", "active");
    assert!(!world.fresh(&token), "an old token does not come back with the family");
    assert!(world.fresh(&user("user_00demo", "family_00demo", 3)));
}

#[test]
fn the_same_key_gives_the_same_answer_and_another_request_is_refused() {
    let world = World::demo();
    let first = world.put_user_with("k", "r1", "user_00second", &guardian());
    let Settled::Done(result) = first else {
        panic!("{first:?}")
    };
    done(&world.put_user("user_00second", "family_00demo", "child_member", "active"));
    assert_eq!(
        world.put_user_with("k", "r1", "user_00second", &guardian()),
        Settled::Replayed(result)
    );
    assert_eq!(
        world.put_user_with("k", "r2", "user_00second", &guardian()),
        Settled::Reused
    );
    assert_eq!(
        world.text("SELECT role AS v FROM users WHERE user_id = 'user_00second'"),
        "child_member"
    );
}

#[test]
fn a_lost_reply_is_read_back_and_a_lost_request_is_sent_again() {
    for faults in [
        vec![Fault::ReplyLost],
        vec![Fault::RequestLost],
        vec![Fault::Unreachable, Fault::Overloaded],
        vec![Fault::ReplyLost, Fault::Unreachable, Fault::None],
        vec![Fault::RequestLost, Fault::None, Fault::ReplyLost],
    ] {
        let world = World::demo();
        world.sql.fail_next(faults.clone());
        let answer = done(&world.put_user("user_00demo", "family_00demo", "child_member", "active"));
        assert_eq!(answer["authorization_revision"], 2, "{faults:?}: changed exactly once");
        assert_eq!(world.number("SELECT count(*) AS v FROM idempotency_results"), 7);
    }
    let world = World::demo();
    world.sql.fail_next([Fault::Overloaded; 4]);
    assert_eq!(
        world.put_user("user_00demo", "family_00demo", "child_member", "active"),
        Settled::Overloaded
    );
    world.sql.fail_next([Fault::RequestLost; 8]);
    assert_eq!(
        world.put_user("user_00demo", "family_00demo", "child_member", "active"),
        Settled::Unavailable
    );
    assert_eq!(world.text("SELECT role AS v FROM users"), "guardian");
}

#[test]
fn what_is_not_there_stands_in_the_way() {
    let world = World::demo();
    assert_eq!(
        world.put_user("user_00second", "family_00nobody", "guardian", "active"),
        Settled::Conflict
    );
    assert_eq!(
        world.put_identity("user_00nobody", "demo", "person-2"),
        Settled::Conflict
    );
    assert_eq!(
        world.put_identity("user_00demo", "unknown", "person-2"),
        Settled::Conflict
    );
    assert_eq!(
        world.put_gateway("gateway_00demo", &["family_00nobody"], "active"),
        Settled::Conflict
    );
    assert_eq!(
        world.put_upstream("second", "https://login.example"),
        Settled::Conflict,
        "the issuer is taken"
    );
    assert_eq!(world.number("SELECT count(*) AS v FROM users"), 1);
    assert_eq!(
        world.number("SELECT count(*) AS v FROM gateway_families"),
        1,
        "the whole batch was undone"
    );
}

#[test]
fn an_operator_whose_tokens_were_revoked_changes_nothing() {
    let world = World::demo();
    world.sql.execute("UPDATE meta SET tokens_valid_from = 1783728000001");
    let settled = world.put_user("user_00demo", "family_00demo", "child_member", "active");
    assert_eq!(settled, Settled::Refused(Guard::TokenCurrent));
    assert_eq!(world.text("SELECT role AS v FROM users"), "guardian");
}

#[test]
fn an_identity_never_moves_to_another_person() {
    let world = World::demo();
    done(&world.put_user("user_00second", "family_00demo", "child_member", "active"));
    assert_eq!(
        world.put_identity("user_00second", "demo", "person-1"),
        Settled::Conflict
    );
    assert_eq!(world.text("SELECT user_id AS v FROM identities"), "user_00demo");
    assert_eq!(
        done(&world.put_identity("user_00demo", "demo", "person-1")),
        json!({"user_id": "user_00demo", "idp": "demo"})
    );
    assert!(
        world.fresh(&user("user_00demo", "family_00demo", 1)),
        "the same again changes nothing"
    );
    done(&world.put_identity("user_00demo", "demo", "person-9"));
    assert_eq!(
        world.text("SELECT group_concat(subject_hash) AS v FROM identities"),
        "person-9"
    );
    assert!(
        !world.fresh(&user("user_00demo", "family_00demo", 1)),
        "tokens of the former subject"
    );
}

#[test]
fn a_gateway_is_replaced_as_a_whole() {
    let world = World::demo();
    world.put_family("family_00next", "active");
    let revision =
        |body: &Value| done(&world.put_gateway_with("gateway_00demo", body))["authorization_revision"].as_i64();
    let body = json!({"scopes": ["chat", "turns:read"], "channels": ["telegram"], "families": ["family_00demo"],
        "production": true, "assertion_jwk": serde_json::from_str::<Value>(JWK).unwrap(),
        "webhook_secret": "synthetic-secret-1", "profile": "home", "status": "active"});
    assert_eq!(revision(&body), Some(2));
    assert_eq!(revision(&body), Some(2));
    assert!(world.fresh(&service("gateway_00demo", 2)));
    assert!(!world.fresh(&service("gateway_00demo", 1)));
    let mut more = body.clone();
    more["families"] = json!(["family_00next", "family_00demo"]);
    assert_eq!(revision(&more), Some(3), "the families are part of what it may do");
    let mut other = body.clone();
    other["families"] = json!(["family_00next"]);
    other["webhook_secret"] = json!(null);
    assert_eq!(revision(&other), Some(4));
    assert_eq!(
        world.text("SELECT group_concat(family_id) AS v FROM gateway_families"),
        "family_00next"
    );
    assert_eq!(world.number("SELECT webhook_secret_hash IS NULL AS v FROM gateways"), 1);
    let answer = done(&world.put_gateway_with("gateway_00demo", &body));
    let expected = json!({"gateway_id": "gateway_00demo", "scopes": ["chat", "turns:read"], "channels": ["telegram"],
        "profile": "home", "production": true, "status": "active", "authorization_revision": 5});
    assert_eq!(answer, expected);
}

#[test]
fn a_bots_token_is_sealed_replaced_as_a_whole_and_mends_a_broken_gateway() {
    let world = World::demo();
    let body = |token: Value| {
        json!({"scopes": ["chat"], "channels": ["telegram"], "families": ["family_00demo"], "production": false,
        "assertion_jwk": serde_json::from_str::<Value>(JWK).unwrap(), "bot_token": token, "status": "active"})
    };
    let stored = || {
        let sql = "SELECT channel_token_master_version, channel_token_sealed FROM gateways";
        channel_token::read(&world.sql.query(sql, &[])[0]).unwrap()
    };
    assert!(stored().is_none());
    world.sql.execute("UPDATE gateways SET status = 'broken'");
    let token = "1234567:synthetic-token_of-a-bot";
    let answer = done(&world.put_gateway_with("gateway_00demo", &body(json!(token))));
    assert_eq!(answer["status"], "active");
    assert!(!answer.to_string().contains("synthetic-token"), "{answer}");
    let gateway = GatewayId::parse("gateway_00demo").unwrap();
    let sealed = stored().unwrap();
    assert_eq!(
        world.master.open_own(&channel_token::place(&gateway), &sealed),
        Ok(token.as_bytes().to_vec())
    );
    done(&world.put_gateway_with("gateway_00demo", &body(Value::Null)));
    assert!(stored().is_none(), "left out is taken away");
}

#[test]
fn an_address_needs_the_gateways_leave_and_a_free_external_id() {
    let world = World::demo();
    world.put_family("family_00next", "active");
    done(&world.put_user("user_00next", "family_00next", "guardian", "active"));
    let put = |id: &str, user: &str, external: &str, status: &str| {
        world.put_address(id, "gateway_00demo", user, external, status)
    };
    assert_eq!(
        put("address_00next", "user_00next", "2002", "active"),
        Settled::Conflict,
        "a family out of its policy"
    );
    assert_eq!(
        put("address_00twin", "user_00demo", "1001", "active"),
        Settled::Conflict,
        "the external id is taken"
    );
    done(&put("address_00demo", "user_00demo", "1001", "disabled"));
    done(&put("address_00twin", "user_00demo", "1001", "active"));
    assert_eq!(world.number("SELECT count(*) AS v FROM channel_addresses"), 2);
    world
        .sql
        .execute("UPDATE data_keys SET wrapped = NULL, destroyed_at = 1 WHERE subject_kind = 'user'");
    assert_eq!(
        put("address_00twin", "user_00demo", "1001", "active"),
        Settled::Refused(Guard::KeyLive)
    );
}

#[test]
fn a_stored_failure_is_told_again() {
    let world = World::demo();
    let fail = || world.settle("k", "r", |command| command.fail(409, r#"{"code":"conflict"}"#));
    let result = StoredResult {
        status: 409,
        response: r#"{"code":"conflict"}"#.to_owned(),
    };
    assert_eq!(fail(), Settled::Done(result.clone()));
    assert_eq!(fail(), Settled::Replayed(result));
}

#[test]
fn results_run_out_after_a_day_and_are_purged_in_small_steps() {
    let world = World::demo();
    let stored = || world.number("SELECT count(*) AS v FROM idempotency_results");
    let before = stored();
    let day = now().plus(Millis::from_mins(24 * 60));
    world.read(purge(day.minus(Millis::new(1)), 100));
    assert_eq!(stored(), before);
    world.read(purge(day, 2));
    assert_eq!(stored(), before - 2);
    // A key that ran out and was not purged yet is as good as new.
    world.sql.execute(
        "UPDATE idempotency_results SET key_hash = 'k', expires_at = 1783728000000
        WHERE key_hash = (SELECT max(key_hash) FROM idempotency_results)",
    );
    done(&world.put_user_with("k", "r9", "user_00demo", &guardian()));
    assert_eq!(
        world.text("SELECT request_hash AS v FROM idempotency_results WHERE key_hash = 'k'"),
        "r9"
    );
}

#[test]
fn without_its_guard_a_key_that_is_used_again_is_still_not_written_over() {
    let world = World::demo();
    let first = world.put_user_with("k", "r1", "user_00demo", &guardian());
    assert!(matches!(first, Settled::Done(_)));
    world.sql.drop_guard(Guard::KeyUnused);
    assert_eq!(
        world.put_user_with("k", "r1", "user_00demo", &guardian()),
        Settled::Defect
    );
}
