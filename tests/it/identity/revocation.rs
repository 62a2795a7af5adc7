use domain::auth::provisioning::Revocation;
use domain::guard::Guard;
use domain::rfc3339;
use harness::sqlite::Fault;
use serde_json::json;
use store::provisioning::Revoke;

use super::*;

fn later(millis: i64) -> Timestamp {
    now().plus(Millis::new(millis))
}

fn revoke_with(world: &World, key_hash: &str, request_hash: &str, body: &Value, at: Timestamp) -> Settled {
    let revocation = Revocation::parse(&body.to_string()).unwrap();
    world.settle(key_hash, request_hash, |command| {
        let revoke = Revoke {
            revocation: &revocation,
            now: at,
        };
        revoke.batch(command)
    })
}

fn revoke(world: &World, body: &Value, at: Timestamp) -> Settled {
    revoke_with(world, &world.next_key(), "request", body, at)
}

fn the_user() -> Value {
    json!({"scope": "user", "user_id": "user_00demo"})
}

fn the_gateway() -> Value {
    json!({"scope": "gateway", "gateway_id": "gateway_00demo"})
}

fn issued(mut principal: Principal, at: Timestamp) -> Principal {
    principal.issued_at = at;
    principal
}

/// Whether tokens of the demo user, another user, the gateway and the operator count, when issued at that time.
fn fresh(world: &World, at: Timestamp) -> [bool; 4] {
    [
        user("user_00demo", "family_00demo", 1),
        user("user_00second", "family_00demo", 1),
        service("gateway_00demo", 1),
        world.operator.clone(),
    ]
    .map(|principal| world.fresh(&issued(principal, at)))
}

fn two_users() -> World {
    let world = World::demo();
    done(&world.put_user("user_00second", "family_00demo", "guardian", "active"));
    world
}

#[test]
fn each_scope_reaches_its_own_tokens_and_only_older_ones() {
    let all = json!({"scope": "all"});
    for (body, before) in [
        (the_user(), [false, true, true, true]),
        (the_gateway(), [true, true, false, true]),
        (all, [false, false, false, false]),
    ] {
        let world = two_users();
        assert_eq!(fresh(&world, now()), [true; 4]);
        done(&revoke(&world, &body, later(1)));
        assert_eq!(fresh(&world, now()), before, "{body}");
        assert_eq!(fresh(&world, later(1)), [true; 4], "{body}: issued at that instant");
    }
}

#[test]
fn the_answer_names_the_time_as_everything_else_writes_it() {
    let world = two_users();
    for (at, text) in [
        (now(), "2026-07-11T00:00:00.000Z"),
        (later(7), "2026-07-11T00:00:00.007Z"),
        (later(86_399_999), "2026-07-11T23:59:59.999Z"),
    ] {
        assert_eq!(rfc3339::format(at), text);
        let expected = json!({"scope": "user", "user_id": "user_00demo", "tokens_valid_from": text});
        assert_eq!(done(&revoke(&world, &the_user(), at)), expected);
        let expected = json!({"scope": "gateway", "gateway_id": "gateway_00demo", "tokens_valid_from": text});
        assert_eq!(done(&revoke(&world, &the_gateway(), at)), expected);
    }
    // Last, as the operator's own token ends with it.
    let answer = done(&revoke(&world, &json!({"scope": "all"}), later(1_234)));
    assert_eq!(
        answer,
        json!({"scope": "all", "tokens_valid_from": "2026-07-11T00:00:01.234Z"})
    );
    assert_eq!(
        world.number("SELECT tokens_valid_from AS v FROM meta"),
        later(1_234).as_millis()
    );
}

#[test]
fn a_time_never_moves_back() {
    for (body, read) in [
        (
            the_user(),
            "SELECT tokens_valid_from AS v FROM users WHERE user_id = 'user_00demo'",
        ),
        (the_gateway(), "SELECT tokens_valid_from AS v FROM gateways"),
        (json!({"scope": "all"}), "SELECT tokens_valid_from AS v FROM meta"),
    ] {
        let mut world = World::demo();
        // A token that no revocation of this test reaches.
        world.operator = issued(world.operator.clone(), later(10_000));
        done(&revoke(&world, &body, later(5_000)));
        let answer = done(&revoke(&world, &body, later(3_000)));
        assert_eq!(answer["tokens_valid_from"], "2026-07-11T00:00:05.000Z", "{body}");
        assert_eq!(world.number(read), later(5_000).as_millis(), "{body}");
        done(&revoke(&world, &body, later(6_000)));
        assert_eq!(world.number(read), later(6_000).as_millis(), "{body}");
    }
}

#[test]
fn a_revocation_moves_no_revision_and_outlasts_a_new_put() {
    let world = World::demo();
    done(&revoke(&world, &the_user(), later(1)));
    done(&revoke(&world, &the_gateway(), later(1)));
    let put = done(&world.put_user("user_00demo", "family_00demo", "guardian", "active"));
    assert_eq!(put["authorization_revision"], 1);
    let put = done(&world.put_gateway("gateway_00demo", &["family_00demo"], "active"));
    assert_eq!(put["authorization_revision"], 1);
    assert!(!world.fresh(&user("user_00demo", "family_00demo", 1)));
    assert!(!world.fresh(&service("gateway_00demo", 1)));
}

#[test]
fn nobody_is_revoked_who_is_not_there() {
    let world = World::demo();
    for body in [
        json!({"scope": "user", "user_id": "user_00nobody"}),
        json!({"scope": "gateway", "gateway_id": "gateway_00nobody"}),
    ] {
        let before = world.number("SELECT count(*) AS v FROM idempotency_results");
        assert_eq!(revoke(&world, &body, later(1)), Settled::Conflict, "{body}");
        assert_eq!(
            world.number("SELECT count(*) AS v FROM idempotency_results"),
            before,
            "{body}: the failure is stored by a batch of its own"
        );
    }
    assert_eq!(fresh(&world, now()), [true, false, true, true], "and nobody else");
}

#[test]
fn the_same_key_revokes_once() {
    let world = World::demo();
    let first = revoke_with(&world, "k", "r1", &the_user(), later(1));
    let Settled::Done(result) = first else {
        panic!("{first:?}")
    };
    assert_eq!(
        revoke_with(&world, "k", "r1", &the_user(), later(9_000)),
        Settled::Replayed(result)
    );
    assert_eq!(
        revoke_with(&world, "k", "r2", &the_gateway(), later(9_000)),
        Settled::Reused
    );
    assert_eq!(
        world.number("SELECT tokens_valid_from AS v FROM users"),
        later(1).as_millis()
    );
    assert_eq!(world.number("SELECT tokens_valid_from AS v FROM gateways"), 0);
}

#[test]
fn whoever_revokes_everything_is_out_too() {
    let world = World::demo();
    let all = json!({"scope": "all"});
    done(&revoke_with(&world, "k", "r", &all, later(1)));
    let stale = Settled::Refused(Guard::TokenCurrent);
    assert_eq!(
        revoke_with(&world, "k", "r", &all, later(2)),
        stale,
        "the replay as well"
    );
    assert_eq!(
        revoke(&world, &the_user(), later(2)),
        stale,
        "and whatever that token asks next"
    );
    assert_eq!(
        world.number("SELECT tokens_valid_from AS v FROM meta"),
        later(1).as_millis()
    );
}

/// When the reply to `all` is lost on the way from the database, trying again meets a token that is stale by then: the
/// first try's result is told, not the refusal of the second.
#[test]
fn a_lost_reply_is_read_back_before_the_own_token_is_judged_again() {
    for faults in [
        vec![Fault::ReplyLost],
        vec![Fault::RequestLost],
        vec![Fault::ReplyLost, Fault::Unreachable, Fault::None],
    ] {
        let world = World::demo();
        world.sql.fail_next(faults.clone());
        let answer = done(&revoke(&world, &json!({"scope": "all"}), later(1)));
        let expected = json!({"scope": "all", "tokens_valid_from": "2026-07-11T00:00:00.001Z"});
        assert_eq!(answer, expected, "{faults:?}");
    }
}
