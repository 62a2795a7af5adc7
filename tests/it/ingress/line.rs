//! How long a person's line may get through a channel.

use domain::time::Millis;
use harness::sqlite::Database;
use store::channels::dedup::Disposition;
use store::channels::sender::{self, Chat};

use super::desk::{Desk, GATEWAY, gateway, order, text_update};

const LINE_MAX: usize = 3;

/// Ann's line holds three turns, and there are as many of hers.
fn full() -> Desk {
    let mut desk = Desk::new();
    desk.line_max = LINE_MAX;
    for id in 1..=3 {
        assert_eq!(desk.say(id, 1001, "hello"), Disposition::Turn, "{id}");
        assert_eq!(desk.trips(), 2);
    }
    desk
}

fn turns(desk: &Desk) -> i64 {
    desk.number("SELECT count(*) AS v FROM turns")
}

/// What has Ann's first turn end.
const ANSWERED: &str = "UPDATE turns SET status = 'terminal_success', terminal_at = 1, generation_status = 'completed',
  delivery_status = 'accepted' WHERE arrival_no = 1";

#[test]
fn a_full_line_takes_no_message_more_and_says_so_in_two_round_trips() {
    let desk = full();
    let taken = desk.deliver(&text_update(4, 1001, "one more")).unwrap();
    assert_eq!(
        (taken.disposition, desk.trips()),
        (Some(Disposition::Answered), 2),
        "the fourth"
    );
    let deliver = format!(r#"{{"v":"2","epoch":1,"kind":"deliver","gateway_id":"{GATEWAY}"}}"#);
    assert_eq!(order(&taken), Some(deliver));
    assert_eq!(desk.notices(), ["too_many to address_00ann"]);
    assert_eq!(turns(&desk), 3);
    assert_eq!(desk.number("SELECT count(*) AS v FROM messages"), 3);
    let remembered = "SELECT disposition || ' ' || user_id || ' ' || ifnull(turn_id, 'no turn') AS v
      FROM inbound_dedup WHERE disposition <> 'turn'";
    assert_eq!(desk.texts(remembered), ["answered user_00ann no turn"]);

    desk.execute(ANSWERED);
    assert_eq!(desk.say(5, 1001, "one more"), Disposition::Turn, "there is room again");
    assert_eq!(desk.say(6, 1001, "and one"), Disposition::Answered);
    assert_eq!(turns(&desk), 4);
}

#[test]
fn a_repetition_of_a_message_not_taken_is_only_counted() {
    let desk = full();
    let update = text_update(4, 1001, "one more");
    desk.deliver(&update).unwrap();
    // Even once there would be room: whoever wrote it was told to send it again.
    desk.execute(ANSWERED);
    let again = desk.deliver(&update).unwrap();
    assert_eq!((again.disposition, again.order, desk.trips()), (None, None, 2));
    assert_eq!(turns(&desk), 3);
    assert_eq!(desk.notices(), ["too_many to address_00ann"]);
    assert_eq!(desk.number("SELECT sum(duplicate_count) AS v FROM inbound_dedup"), 1);
}

#[test]
fn a_flood_is_told_so_once_a_minute() {
    let desk = full();
    for id in 4..40 {
        let taken = desk.deliver(&text_update(id, 1001, "more")).unwrap();
        assert_eq!(taken.disposition, Some(Disposition::Answered));
        assert_eq!(taken.order.is_some(), id == 4, "only what was made is to be sent");
    }
    assert_eq!(desk.notices().len(), 1);
    desk.pass(Millis::from_mins(1));
    desk.say(40, 1001, "more");
    assert_eq!(desk.notices(), ["too_many to address_00ann"; 2]);
    assert_eq!(turns(&desk), 3);
}

#[test]
fn what_stands_in_the_line_counts_and_nothing_else() {
    let processing = "status = 'processing', generation_status = 'started', model_calls = 1";
    let direct = "origin = 'direct', channel = 'direct', gateway_id = NULL, address_id = NULL";
    let persisted = "status = 'persisted', generation_status = 'completed'";
    let delivering = "status = 'delivery_pending', generation_status = 'completed', delivery_status = 'pending'";
    let failed =
        "status = 'terminal_failure', terminal_at = 1, error_class = 'model', error_code = 'generation_failed'";
    let context = "origin = 'context'";
    let of_bob = "user_id = 'user_00bob'";
    for (change, counts) in [
        (processing.to_owned(), true),
        (direct.to_owned(), true),
        (format!("{direct}, {processing}"), true),
        (format!("{direct}, {persisted}"), false),
        (delivering.to_owned(), false),
        (failed.to_owned(), false),
        (context.to_owned(), false),
        (of_bob.to_owned(), false),
    ] {
        let desk = full();
        desk.execute(&format!("UPDATE turns SET {change} WHERE arrival_no = 2"));
        let (expected, notices) = match counts {
            true => (Disposition::Answered, 1),
            false => (Disposition::Turn, 0),
        };
        assert_eq!(desk.say(4, 1001, "one more"), expected, "{change}");
        assert_eq!(desk.notices().len(), notices, "{change}");
    }
}

#[test]
fn a_full_line_stops_neither_commands_nor_anyone_else() {
    let desk = full();
    desk.bind("address_00bob", "user_00bob", 2002);
    assert_eq!(desk.say(4, 2002, "hello"), Disposition::Turn);
    assert_eq!(desk.say(5, 1001, "/help"), Disposition::Helped);
    // Every chat of hers, since they share one line.
    desk.bind("address_00else", "user_00ann", 1003);
    assert_eq!(desk.say(6, 1003, "hello"), Disposition::Answered);
    assert_eq!(desk.say(7, 3003, "hello"), Disposition::Unlinked);
    assert_eq!(desk.say(8, 1001, "/stop"), Disposition::Stopped);
    assert_eq!(desk.say(9, 1001, "hello"), Disposition::Unlinked);
}

#[test]
fn counting_goes_no_further_than_the_bound_and_reads_open_turns_only() {
    let desk = full();
    let external_hash = desk.external_hash(1001);
    let gateway_id = gateway();
    let chat = Chat {
        gateway_id: &gateway_id,
        channel: "telegram",
        external_hash: &external_hash,
    };
    for (line_max, counted) in [(2, 2), (3, 3), (4, 3)] {
        let statement = sender::sender_facts(chat, line_max).pop().unwrap();
        let rows = desk.sql.sql.query(statement.sql, &statement.binds);
        assert_eq!(rows[0].integer("waiting"), Ok(counted), "at most {line_max}");
        let plan = Database::migrated().plan(statement.sql);
        assert!(
            plan.iter().any(|step| step.contains("turns_open (user_id=?)")),
            "{plan:?}"
        );
    }
}
