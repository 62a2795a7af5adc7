//! Rows that nobody claims: ended by the sweep, set aside or ended by operators, purged in the end.

use domain::outbox::outcome::{ErrorClass, ErrorCode, Outcome};
use domain::outbox::policy::TELEGRAM;
use domain::outbox::template::Template;
use domain::time::{Millis, Timestamp};
use domain::turn::event::Actor;
use harness::sqlite::Fault;
use store::outbox::enqueue::notice_of_turn;
use store::outbox::purge::{INGRESS_KEPT, MESSAGES_KEPT, purge};
use store::outbox::sweep::{due_gateways, read_due_gateways, read_ended};
use store::outbox::{claimed, operate, settle};

use super::desk::*;

const DAY: Millis = Millis::from_mins(24 * 60);

#[test]
fn an_expired_row_ends_its_turn_and_says_so() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 2);
    desk.wait(Millis::new(DAY.get() - 1));
    assert_eq!(desk.end_what_is_over(), 0);
    desk.wait(Millis::new(1));
    assert_eq!(desk.end_what_is_over(), 2);
    assert_eq!(desk.stand(), "ann1:pending ann1p1:expired ann1p2:expired");
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_expired/1"
    );
    assert_eq!(
        desk.events(&turn),
        "delivery_terminal_failure delivery_terminal_failure outbox_enqueued turn_terminal_failure"
    );
    assert_eq!(desk.end_what_is_over(), 0);
}

#[test]
fn a_row_that_somebody_holds_expires_when_its_lease_does() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    desk.wait(Millis::new(DAY.get() - 1));
    let (token, claimed) = desk.claim();
    desk.wait(Millis::from_secs(1));
    assert_eq!(desk.end_what_is_over(), 0, "it may just be arriving");
    desk.wait(TELEGRAM.lease);
    assert_eq!(desk.end_what_is_over(), 1);
    assert_eq!(desk.attempts("ann1p1"), "1:ambiguous:lease_lost");
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_expired/1"
    );
    assert_eq!(
        desk.settle(&token, &claimed.rows[0], &accepted("1")).lost,
        [row("ann1p1")]
    );
}

#[test]
fn a_moved_revision_cancels_what_waits() {
    let desk = Desk::new();
    let (ann, bob) = (desk.turn("ann", 1, 2), desk.turn("bob", 1, 1));
    desk.sql
        .execute("UPDATE users SET authorization_revision = 2 WHERE user_id = 'user_00ann'");
    assert_eq!(desk.end_what_is_over(), 2);
    assert_eq!(
        desk.stand(),
        "ann1:pending ann1p1:cancelled ann1p2:cancelled bob1p1:pending",
        "and she is told that there is no answer"
    );
    assert_eq!(desk.error("ann1p1"), "policy:authorization_changed");
    assert_eq!(desk.takes(), ["bob1p1", "ann1"]);
    assert_eq!(
        desk.turn_stands(&ann),
        "terminal_failure/failed/delivery/delivery_cancelled/0"
    );
    assert_eq!(desk.turn_stands(&bob), "delivery_pending/pending");
}

#[test]
fn ending_looks_again_before_it_ends() {
    use store::outbox::sweep::{Over, Why, end};
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    for why in [Why::Expired, Why::Unauthorized, Why::Unconfirmed, Why::Exhausted] {
        let over = Over {
            outbox_id: row("ann1p1"),
            turn_id: None,
            why,
        };
        let ended = read_ended(&desk.run(&end(&[over], Actor::Sweep, desk.now()))).unwrap();
        assert_eq!(ended, [(row("ann1p1"), domain::outbox::Status::Pending)], "{why:?}");
    }
    assert_eq!(desk.takes(), ["ann1p1"]);
}

#[test]
fn a_row_set_aside_takes_the_parts_behind_it_along_and_comes_back_with_them() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 3);
    let (token, claimed) = desk.claim();
    let stalled = Outcome::Ambiguous {
        class: ErrorClass::Timeout,
        code: ErrorCode::Stalled,
    };
    let aside = || operate::read_ids(&desk.run(&operate::quarantine(&row("ann1p1"), desk.now()))).unwrap();
    assert_eq!(aside(), [row("ann1p2"), row("ann1p3")], "the first is being sent");
    desk.settle(&token, &claimed.rows[0], &stalled);
    assert_eq!(aside().len(), 3);
    desk.turn("ann", 2, 1);
    desk.wait(Millis::from_mins(1));
    assert_eq!(desk.takes(), ["ann2p1"]);
    assert_eq!(desk.turn_stands(&turn), "delivery_pending/pending");
    let until = desk.now().plus(DAY);
    let back = operate::read_ids(&desk.run(&operate::requeue(&row("ann1p1"), until, desk.now()))).unwrap();
    assert_eq!(back.len(), 3);
    desk.wait(Millis::from_secs(1));
    let (token, claimed) = desk.claim();
    assert_eq!(ids(&claimed), ["ann1p1"]);
    assert_eq!(
        (claimed.rows[0].attempt_no, claimed.rows[0].tried.attempt_count),
        (2, 1)
    );
    desk.settle(&token, &claimed.rows[0], &accepted("1"));
    assert_eq!(desk.attempts("ann1p1"), "1:ambiguous:stalled 2:accepted");
}

#[test]
fn a_row_set_aside_still_expires() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    desk.run(&operate::quarantine(&row("ann1p1"), desk.now()));
    desk.wait(DAY);
    assert_eq!(desk.end_what_is_over(), 1);
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_expired/1"
    );
}

#[test]
fn a_withdrawn_row_ends_its_reply_and_its_turn() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 2);
    let ended = read_ended(&desk.run(&operate::withdraw(&row("ann1p1"), desk.now()))).unwrap();
    assert_eq!(ended, [(row("ann1p1"), domain::outbox::Status::Cancelled)]);
    assert_eq!(desk.stand(), "ann1p1:cancelled ann1p2:cancelled");
    assert_eq!(desk.error("ann1p1"), "policy:withdrawn");
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_cancelled/0"
    );
    assert_eq!(desk.takes(), Vec::<String>::new());
}

#[test]
fn what_an_operator_sends_once_more_does_not_change_how_its_turn_ended() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    desk.run(&operate::withdraw(&row("ann1p1"), desk.now()));
    desk.run(&operate::requeue(&row("ann1p1"), desk.now().plus(DAY), desk.now()));
    let (token, claimed) = desk.claim();
    desk.settle(&token, &claimed.rows[0], &accepted("1"));
    assert_eq!(desk.stand(), "ann1p1:provider_accepted");
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_cancelled/0"
    );
    assert_eq!(
        desk.events(&turn),
        "delivery_terminal_failure turn_terminal_failure send_claimed send_attempted provider_accepted"
    );
}

#[test]
fn the_notice_of_a_turn_is_made_once_and_only_where_somebody_can_read_it() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 0);
    let tell = || {
        desk.run(&notice_of_turn(
            &turn,
            Template::TurnFailed,
            Actor::UserTurns,
            desk.now(),
        ))
    };
    desk.sql.execute("UPDATE channel_addresses SET status = 'disabled'");
    tell();
    assert_eq!(desk.stand(), "");
    desk.sql.execute("UPDATE channel_addresses SET status = 'active'");
    tell();
    tell();
    desk.wait(Millis::new(5));
    tell();
    assert_eq!(desk.stand(), "ann1:pending");
    assert_eq!(desk.events(&turn), "outbox_enqueued");
    assert_eq!(
        desk.list("SELECT idempotency_key || ' ' || content_ref || ' ' || priority AS v FROM outbound_messages"),
        "notice:turn_00ann1 turn_failed 40"
    );
    let direct = desk.turn("bob", 1, 0);
    desk.sql.execute("UPDATE turns SET origin = 'direct'");
    desk.run(&notice_of_turn(
        &direct,
        Template::TurnFailed,
        Actor::UserTurns,
        desk.now(),
    ));
    assert_eq!(desk.stand(), "ann1:pending");
}

#[test]
fn a_notice_to_a_chat_is_made_once_for_its_key() {
    let desk = Desk::new();
    desk.notice_to_chat("monday");
    desk.wait(Millis::from_secs(1));
    desk.notice_to_chat("monday");
    assert_eq!(desk.list("SELECT count(*) AS v FROM outbound_messages"), "1");
    desk.notice_to_chat("tuesday");
    assert_eq!(desk.list("SELECT count(*) AS v FROM outbound_messages"), "2");
    assert_eq!(
        desk.list("SELECT lane AS v FROM send_lanes"),
        "telegram/gateway_00bot/hash-stranger"
    );
    let (_, claimed) = desk.claim();
    assert_eq!(claimed.rows.len(), 1, "in order");
}

#[test]
fn the_gateways_with_something_due_are_those_the_service_sends_for() {
    let desk = Desk::new();
    let due = || {
        let due = read_due_gateways(&desk.run(&due_gateways(desk.now()))).unwrap();
        assert_eq!((due.epoch, due.more), (1, false));
        due.gateways.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(due(), Vec::<String>::new());
    desk.turn("out", 1, 1);
    assert_eq!(due(), Vec::<String>::new(), "an outside sender asks for itself");
    desk.turn("ann", 1, 1);
    assert_eq!(due(), [BOT]);
    desk.claim();
    desk.wait(Millis::from_secs(1));
    assert_eq!(due(), Vec::<String>::new(), "under a live lease");
    desk.wait(TELEGRAM.lease);
    assert_eq!(due(), [BOT]);
    desk.sql.execute("UPDATE gateways SET status = 'broken'");
    assert_eq!(due(), Vec::<String>::new());
}

#[test]
fn what_has_ended_is_purged_in_its_time_and_what_has_not_is_kept() {
    let desk = Desk::new();
    desk.notice_to_chat("first");
    let (token, claimed) = desk.claim();
    desk.settle(&token, &claimed.rows[0], &accepted("1"));
    desk.sql.execute(&format!(
        "INSERT INTO inbound_dedup (gateway_id, ingress_hash, disposition, update_kind, payload_hash, first_seen_at,
           last_seen_at) VALUES ('gateway_00bot', 'hash', 'ignored', 'sticker', '', {START}, {START});
         INSERT INTO link_codes VALUES ('hash', 'user_00ann', 'telegram', {START}, {START} + 900000, NULL)"
    ));
    let left = || {
        desk.run(&purge(desk.now(), 100));
        desk.list(
            "SELECT (SELECT count(*) FROM outbound_messages) || (SELECT count(*) FROM outbound_attempts)
               || (SELECT count(*) FROM inbound_dedup) || (SELECT count(*) FROM link_codes)
               || (SELECT count(*) FROM send_lanes) AS v",
        )
    };
    let at = |after: Millis| desk.at.set(after.get());
    at(Millis::from_mins(15));
    assert_eq!(left(), "11111");
    at(Millis::new(15 * 60_000 + 1));
    assert_eq!(left(), "11101");
    at(INGRESS_KEPT);
    assert_eq!(left(), "11101");
    at(INGRESS_KEPT.saturating_add(Millis::new(1)));
    assert_eq!(left(), "11001");
    at(MESSAGES_KEPT);
    assert_eq!(left(), "11001");
    desk.sql
        .execute("UPDATE outbound_messages SET terminal_at = NULL, status = 'quarantined'");
    at(MESSAGES_KEPT.saturating_add(DAY).saturating_add(DAY));
    assert_eq!(left(), "11001", "neither the row nor its lane");
    desk.sql
        .execute("UPDATE outbound_messages SET terminal_at = 1, status = 'expired'");
    assert_eq!(left(), "00000");
}

#[test]
fn a_claim_and_a_settling_whose_replies_are_lost_are_found_again() {
    use domain::ports::Clock;
    use domain::sql::Shard;
    use store::db::Db;
    struct Still(Timestamp);
    impl Clock for Still {
        fn now(&self) -> Timestamp {
            self.0
        }
        async fn sleep(&self, _: Millis) {}
    }
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    let (now, clock) = (desk.now(), Still(desk.now()));
    let bot = domain::ids::GatewayId::parse(BOT).unwrap();
    let db = Db::new(&desk.sql, &clock, std::rc::Rc::default());
    for faults in [[Fault::ReplyLost, Fault::None], [Fault::RequestLost, Fault::None]] {
        let token = desk.token();
        desk.sql.fail_next(faults);
        let read = |rows: &[domain::sql::Rows]| claimed::read_claimed(rows, now);
        let back =
            |rows: &[domain::sql::Rows]| read(rows).map(|found| Some(found).filter(|found| !found.rows.is_empty()));
        let written = db.write(
            Shard::User(0),
            desk.claim_batch(&token),
            read,
            claimed::claimed(&bot, &token, now),
            back,
        );
        let claimed = harness::block_on(written).ok().unwrap();
        assert_eq!(ids(&claimed), ["ann1p1"]);
        desk.sql.fail_next(faults);
        let batch = desk.settle_batch(&token, &[(&claimed.rows[0], &Outcome::NotStarted, None)]);
        let written = db.write(
            Shard::User(0),
            batch,
            settle::read_settled,
            settle::settled_under(&bot, &token, &[&claimed.rows[0].outbox_id], now),
            settle::read_back,
        );
        assert_eq!(harness::block_on(written).unwrap().settled, [row("ann1p1")]);
        desk.sql
            .execute("UPDATE send_pacing SET next_at = 0; UPDATE send_lanes SET next_at = 0");
    }
    assert_eq!(desk.attempts("ann1p1"), "1:not_started 2:not_started");
}
