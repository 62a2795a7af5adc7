//! Lost replies, and what changes between the read and the write.

use domain::guard::Guard;
use domain::ports::Clock;
use domain::time::Millis;
use harness::sqlite::Fault;
use serde_json::json;
use store::channels::dedup::Disposition;

use super::desk::{Desk, message_update, text_update};

#[test]
fn a_lost_reply_neither_loses_nor_repeats_anything() {
    for lost in 0..2 {
        for fault in [Fault::ReplyLost, Fault::RequestLost] {
            let desk = Desk::new();
            desk.sql.sql.fail_next((0..lost).map(|_| Fault::None).chain([fault]));
            let taken = desk.deliver(&text_update(70, 1001, "hello")).unwrap();
            assert_eq!(taken.disposition, Some(Disposition::Turn), "batch {lost}, {fault:?}");
            assert_eq!(
                desk.number("SELECT count(*) AS v FROM turns"),
                1,
                "batch {lost}, {fault:?}"
            );
            assert_eq!(desk.number("SELECT duplicate_count AS v FROM inbound_dedup"), 0);

            let desk = Desk::new();
            desk.sql.sql.fail_next((0..lost).map(|_| Fault::None).chain([fault]));
            let taken = desk
                .deliver(&message_update(70, 1001, &json!({"sticker": {}})))
                .unwrap();
            assert_eq!(
                taken.disposition,
                Some(Disposition::Answered),
                "batch {lost}, {fault:?}"
            );
            assert!(taken.order.is_some());
            assert_eq!(desk.notices(), ["text_only to address_00ann"]);
        }
    }
}

#[test]
fn a_repetition_whose_count_was_lost_is_answered_all_the_same() {
    let desk = Desk::new();
    desk.say(70, 1001, "hello");
    for (fault, counted) in [(Fault::ReplyLost, 1), (Fault::RequestLost, 1), (Fault::None, 2)] {
        desk.sql.sql.fail_next([Fault::None, fault]);
        assert_eq!(desk.deliver(&text_update(70, 1001, "hello")).unwrap().disposition, None);
        assert_eq!(
            desk.number("SELECT duplicate_count AS v FROM inbound_dedup"),
            counted,
            "{fault:?}"
        );
    }
}

#[test]
fn what_changed_between_the_read_and_the_write_is_read_again() {
    let disabled = "UPDATE channel_addresses SET status = 'disabled'";
    let no_leave = "DELETE FROM gateway_families WHERE family_id = 'family_00ann'";
    let suspended = "UPDATE users SET status = 'suspended' WHERE user_id = 'user_00ann'";
    let destroyed = "UPDATE data_keys SET wrapped = NULL, destroyed_at = 1 WHERE subject_id = 'user_00ann'";
    let restored = "UPDATE meta SET epoch = epoch + 1";
    for (change, expected) in [
        (disabled, Disposition::Unlinked),
        (no_leave, Disposition::Unlinked),
        (suspended, Disposition::Unlinked),
        (destroyed, Disposition::Unlinked),
        (restored, Disposition::Turn),
    ] {
        let desk = Desk::new();
        desk.meddle(1, change);
        let taken = desk.deliver(&text_update(70, 1001, "hello")).unwrap();
        assert_eq!(taken.disposition, Some(expected), "{change}");
        assert_eq!(desk.trips(), 4, "{change}");
        let turns = i64::from(expected == Disposition::Turn);
        assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), turns, "{change}");
    }
    // Without the guard the words of a chat that was just shut would be taken as its former owner's.
    let desk = Desk::new();
    desk.sql.sql.drop_guard(Guard::SenderCurrent);
    desk.meddle(1, disabled);
    assert_eq!(desk.say(70, 1001, "hello"), Disposition::Turn);
}

#[test]
fn a_chat_that_changes_hands_in_the_middle_speaks_for_its_new_owner() {
    let desk = Desk::new();
    let hash = desk.external_hash(1001);
    desk.bind("address_00bob", "user_00bob", 2002);
    desk.meddle(
        1,
        &format!(
            "UPDATE channel_addresses SET status = 'disabled' WHERE address_id = 'address_00ann';
             UPDATE channel_addresses SET external_hash = '{hash}' WHERE address_id = 'address_00bob';"
        ),
    );
    assert_eq!(desk.say(70, 1001, "whose words are these"), Disposition::Turn);
    assert_eq!(desk.texts("SELECT user_id AS v FROM turns"), ["user_00bob"]);
    assert_eq!(desk.texts("SELECT user_id AS v FROM messages"), ["user_00bob"]);
}

#[test]
fn an_id_that_comes_again_after_it_was_forgotten_is_a_new_update() {
    let desk = Desk::new();
    assert_eq!(desk.say(70, 1001, "hello"), Disposition::Turn);
    desk.pass(Millis::from_mins(8 * 24 * 60));
    for statement in store::outbox::purge::purge(desk.clock.now(), 100) {
        desk.sql.sql.run(domain::sql::Shard::Directory, &[statement]);
    }
    assert_eq!(desk.say(70, 1001, "hello"), Disposition::Turn);
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 2);
}

#[test]
fn sessions_go_by_the_gap_between_messages_as_everywhere() {
    let desk = Desk::new();
    desk.say(1, 1001, "a");
    desk.pass(Millis::new(1_799_999));
    desk.say(2, 1001, "b");
    desk.pass(Millis::new(1_800_000));
    desk.say(3, 1001, "c");
    let sessions = desk.texts("SELECT session_id AS v FROM turns ORDER BY arrival_no");
    assert_eq!(sessions[0], sessions[1]);
    assert_ne!(sessions[1], sessions[2]);
}

#[test]
fn nothing_that_was_written_or_that_names_a_person_is_stored_in_the_clear() {
    let desk = Desk::new();
    desk.bind("address_00bob", "user_00bob", 987_654_321);
    desk.say(701_234, 987_654_321, "canary words");
    desk.say(701_235, 555_777_999, "/start CANARYCODE");
    for (table, columns) in desk.sql.sql.tables() {
        for column in columns {
            let sql = format!("SELECT hex(\"{column}\") AS v FROM \"{table}\"");
            for value in desk.texts(&sql) {
                let leaks = ["canary", "CANARY", "701234", "701235", "987654321", "555777999"];
                let leak = leaks.iter().find(|leak| value.contains(&hex(leak)));
                assert_eq!(leak, None, "{table}.{column}");
            }
        }
    }
}

/// As SQLite's `hex()` writes a text.
fn hex(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02X}")).collect()
}
