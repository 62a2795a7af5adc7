//! A channel's updates, told as stories: each is handled once, whoever repeats it and whatever breaks.

mod corners;
pub(crate) mod desk;
mod kinds;
mod line;
mod links;
mod outward;

use desk::{Desk, GATEWAY, SECRET, message_update, order, text_update};
use domain::keys::Aad;
use domain::telegram::update::NotAnUpdate;
use objects::ingress::Refused;
use serde_json::json;
use store::channels::dedup::Disposition;
use store::db::DbError;

#[test]
fn a_message_becomes_a_turn_in_two_round_trips() {
    let desk = Desk::new();
    let taken = desk.deliver(&text_update(70, 1001, "hello")).unwrap();
    println!(
        "POST /telegram/{{gateway_id}}: {} round trips, {} rows written",
        desk.trips(),
        desk.rows_written()
    );
    assert_eq!((taken.disposition, desk.trips()), (Some(Disposition::Turn), 2));
    let generate = r#"{"v":"1","epoch":1,"kind":"generate","user_id":"user_00ann"}"#;
    assert_eq!(order(&taken).as_deref(), Some(generate));
    assert_eq!(desk.checkpoints(), ["ingress_committed"]);

    let turn = &desk.rows("SELECT * FROM turns")[0];
    let text = |column: &str| turn.text(column).unwrap();
    assert_eq!(
        [
            text("origin"),
            text("channel"),
            text("gateway_id"),
            text("address_id"),
            text("status")
        ],
        ["channel", "telegram", GATEWAY, "address_00ann", "accepted"]
    );
    assert_eq!(
        [text("user_id"), text("family_id"), text("locale")],
        ["user_00ann", "family_00ann", "de"]
    );
    let accepted = turn.integer("accepted_at").unwrap();
    assert_eq!(turn.integer("deadline_at").unwrap() - accepted, 600_000);
    assert_eq!(
        desk.texts("SELECT event_type || ' ' || actor AS v FROM turn_events ORDER BY sequence_no"),
        [
            "ingress_received ingress",
            "ingress_authenticated ingress",
            "identity_resolved ingress",
            "engine_accepted ingress"
        ]
    );
    let dedup = &desk.rows("SELECT * FROM inbound_dedup")[0];
    assert_eq!(dedup.text("ingress_hash").unwrap(), text("external_ingress_hash"));
    assert_eq!(dedup.text("turn_id").unwrap(), text("turn_id"));
    assert_eq!(
        (dedup.text("disposition").unwrap(), dedup.text("update_kind").unwrap()),
        ("turn", "message")
    );

    let message = &desk.rows("SELECT * FROM messages")[0];
    let row = format!("{}/user", text("turn_id"));
    let place = Aad {
        table: "messages",
        row: &row,
        column: "content_sealed",
    };
    let words = desk
        .key_of("user_00ann")
        .open(&place, message.blob("content_sealed").unwrap());
    assert_eq!(words.unwrap(), b"hello");
}

#[test]
fn the_same_update_fifty_times_at_once_is_one_turn_and_forty_nine_repetitions() {
    let desk = Desk::new();
    let update = text_update(70, 1001, "hello");
    let answers = desk.deliver_at_once(&vec![update.clone(); 50]);
    assert!(answers.iter().all(Result::is_ok));
    let first = answers.iter().flatten().filter(|taken| taken.disposition.is_some());
    assert_eq!(first.count(), 1);
    assert!(
        answers
            .iter()
            .flatten()
            .all(|taken| taken.disposition.is_some() == taken.order.is_some())
    );
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 1);
    assert_eq!(desk.number("SELECT duplicate_count AS v FROM inbound_dedup"), 49);
    assert_eq!(desk.number("SELECT conflict_count AS v FROM inbound_dedup"), 0);

    // Later, one by one, it costs no more than the first time.
    let again = desk.deliver(&update).unwrap();
    assert_eq!((again.disposition, again.order, desk.trips()), (None, None, 2));
    assert_eq!(desk.number("SELECT duplicate_count AS v FROM inbound_dedup"), 50);
}

#[test]
fn a_repetition_is_known_however_its_json_is_written() {
    let desk = Desk::new();
    assert!(
        desk.deliver_as(GATEWAY, Some(SECRET), r#"{"update_id":1,"poll":{"id":"x"}}"#)
            .is_ok()
    );
    let again = desk.deliver_as(
        GATEWAY,
        Some(SECRET),
        r#" {"poll":{"id":"\u0078"} , "update_id":1.0e0} "#,
    );
    // The id itself is a whole number as Telegram writes it; everything else is compared by its meaning.
    assert_eq!(again, Err(Refused::NotAnUpdate(NotAnUpdate::NoId)));
    let again = desk.deliver_as(GATEWAY, Some(SECRET), r#" {"poll":{"id":"\u0078"} , "update_id":1} "#);
    assert_eq!(again.unwrap().disposition, None);
    assert_eq!(desk.number("SELECT duplicate_count AS v FROM inbound_dedup"), 1);
}

#[test]
fn the_same_id_with_another_payload_is_refused_and_counted() {
    let desk = Desk::new();
    assert_eq!(desk.say(70, 1001, "hello"), Disposition::Turn);
    for _ in 0..2 {
        assert_eq!(desk.deliver(&text_update(70, 1001, "goodbye")), Err(Refused::Conflict));
    }
    assert_eq!(desk.deliver(&text_update(70, 1001, "hello")).unwrap().disposition, None);
    let counts = &desk.rows("SELECT duplicate_count, conflict_count FROM inbound_dedup")[0];
    assert_eq!(
        (counts.integer("duplicate_count"), counts.integer("conflict_count")),
        (Ok(1), Ok(2))
    );
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 1);

    let both = desk.deliver_at_once(&[text_update(71, 1001, "one"), text_update(71, 1001, "other")]);
    let refused = both.iter().filter(|answer| **answer == Err(Refused::Conflict)).count();
    assert_eq!(refused, 1, "{both:?}");
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 2);
}

#[test]
fn messages_of_one_chat_that_arrive_at_once_all_become_turns() {
    let desk = Desk::new();
    let updates: Vec<_> = (0..4)
        .map(|at| text_update(at, 1001, &format!("message {at}")))
        .collect();
    let answers = desk.deliver_at_once(&updates);
    assert!(answers.iter().all(|answer| {
        answer
            .as_ref()
            .is_ok_and(|taken| taken.disposition == Some(Disposition::Turn))
    }));
    let arrivals = desk.texts("SELECT CAST(arrival_no AS TEXT) AS v FROM turns ORDER BY arrival_no");
    assert_eq!(arrivals, ["1", "2", "3", "4"]);
    assert_eq!(desk.number("SELECT count(*) AS v FROM conversations"), 1);
    assert_eq!(desk.number("SELECT count(*) AS v FROM sessions"), 1);
}

#[test]
fn only_the_gateways_own_secret_opens_its_webhook() {
    let desk = Desk::new();
    let body = text_update(70, 1001, "hello").to_string();
    let at = |gateway, secret| desk.deliver_as(gateway, secret, &body).err();
    let refused = Some(Refused::Unauthenticated);
    let prefix = &SECRET[..SECRET.len() - 1];
    let longer = format!("{SECRET}x");
    let twice = format!("{SECRET}, {SECRET}");
    for wrong in [
        None,
        Some(""),
        Some("wrong"),
        Some(prefix),
        Some(longer.as_str()),
        Some(twice.as_str()),
    ] {
        assert_eq!(at(GATEWAY, wrong), refused, "{wrong:?}");
        assert_eq!(desk.trips(), 1);
    }
    assert_eq!(at("gateway_00other", Some(SECRET)), refused);
    // A body that is no update is not told so to a stranger.
    assert_eq!(desk.deliver_as(GATEWAY, Some("wrong"), "{").err(), refused);

    for (change, secret, expected) in [
        ("SET status = 'suspended'", SECRET, Refused::Closed),
        ("SET status = 'suspended'", "wrong", Refused::Unauthenticated),
        ("SET channels = '[\"imessage\"]'", SECRET, Refused::Closed),
        ("SET webhook_secret_hash = NULL", SECRET, Refused::Closed),
        ("SET webhook_secret_hash = NULL", "", Refused::Closed),
    ] {
        let desk = Desk::new();
        desk.execute(&format!("UPDATE gateways {change}"));
        assert_eq!(desk.deliver_as(GATEWAY, Some(secret), &body), Err(expected), "{change}");
        assert_eq!(desk.number("SELECT count(*) AS v FROM inbound_dedup"), 0);
    }
    desk.execute("UPDATE gateways SET status = 'broken'");
    assert_eq!(at(GATEWAY, Some(SECRET)), None, "what cannot send still takes messages");
}

#[test]
fn what_is_no_update_is_refused_and_nothing_is_kept() {
    let desk = Desk::new();
    for (body, error) in [
        ("", NotAnUpdate::Malformed),
        ("{\"update_id\":1", NotAnUpdate::Malformed),
        ("{}", NotAnUpdate::NoId),
        ("[]", NotAnUpdate::NoId),
        (r#"{"update_id":"1"}"#, NotAnUpdate::NoId),
    ] {
        assert_eq!(
            desk.deliver_as(GATEWAY, Some(SECRET), body),
            Err(Refused::NotAnUpdate(error)),
            "{body}"
        );
    }
    assert_eq!(desk.number("SELECT count(*) AS v FROM inbound_dedup"), 0);
}

#[test]
fn while_the_database_is_away_nothing_is_taken() {
    let desk = Desk::new();
    desk.sql.sql.fail_next([harness::sqlite::Fault::Unreachable; 4]);
    let update = message_update(70, 1001, &json!({"text": "hello"}));
    assert_eq!(desk.deliver(&update), Err(Refused::Db(DbError::Unavailable)));
    assert_eq!(
        desk.deliver(&update).unwrap().disposition,
        Some(Disposition::Turn),
        "it comes once more"
    );
}
