//! Crashes, lost replies and a database that is away.

use harness::sqlite::Fault;
use queues::deliver::{Alert, Sums};
use queues::jobs::Disposition;

use super::office::Office;

fn office() -> Office {
    let office = Office::new();
    office.reply("Hello.");
    office
}

#[test]
fn a_crash_repeats_at_most_what_was_sent_and_not_settled() {
    for (place, sends) in [("send_claimed", 1), ("provider_accepted", 2), ("before_settle", 2)] {
        let office = office();
        office.deliver_and_die_at(place);
        assert_eq!(office.rows(), ["leased 1 -"], "{place}");
        assert_eq!(office.attempts(), ["1 - - -"], "{place}");
        office.deliver();
        assert_eq!(office.texts().len(), sends - 1, "{place}: the lease still holds");
        office.pass(60_000);
        office.deliver();
        assert_eq!(office.texts().len(), sends, "{place}");
        assert_eq!(office.rows(), ["provider_accepted 2 -"], "{place}");
        assert_eq!(
            office.attempts(),
            ["1 ambiguous - lease_lost", "2 accepted 200 -"],
            "{place}"
        );
        assert_eq!(office.turns(), ["terminal_success -"], "{place}");
    }
}

#[test]
fn a_lost_reply_of_claiming_or_settling_sends_nothing_twice() {
    for lost in 0..2 {
        for fault in [
            Fault::ReplyLost,
            Fault::RequestLost,
            Fault::Unreachable,
            Fault::Overloaded,
        ] {
            let office = office();
            office.sql.fail_next((0..lost).map(|_| Fault::None).chain([fault]));
            office.deliver();
            assert_eq!(office.texts(), ["Hello."], "batch {lost}, {fault:?}");
            assert_eq!(office.attempts(), ["1 accepted 200 -"], "batch {lost}, {fault:?}");
            assert_eq!(office.turns(), ["terminal_success -"], "batch {lost}, {fault:?}");
        }
    }
}

#[test]
fn an_order_that_finds_no_database_comes_again() {
    let office = office();
    office.sql.fail_next([Fault::Unreachable; 4]);
    let (dispositions, sums) = office.consume(vec![office.order()]);
    assert_eq!((dispositions, sums), (vec![Disposition::Retry], Sums::default()));
    assert_eq!(office.texts(), Vec::<String>::new());
}

#[test]
fn settling_is_tried_until_the_lease_ends() {
    let office = office();
    // The claim runs; the database is away for half a minute.
    office
        .sql
        .fail_next([Fault::None].into_iter().chain([Fault::Unreachable; 80]));
    office.deliver();
    assert_eq!(office.texts(), ["Hello."]);
    assert_eq!(office.turns(), ["terminal_success -"]);
    assert!(
        (25_000..60_000).contains(&office.executor.elapsed()),
        "{}",
        office.executor.elapsed()
    );

    let office = self::office();
    office
        .sql
        .fail_next([Fault::None].into_iter().chain([Fault::Unreachable; 4_000]));
    let (dispositions, _) = office.consume(vec![office.order()]);
    assert_eq!(dispositions, [Disposition::Retry]);
    assert_eq!(office.alerts(), [Alert::Unsettled]);
    assert!(
        (60_000..65_000).contains(&office.executor.elapsed()),
        "{}",
        office.executor.elapsed()
    );
    assert_eq!(office.attempts(), ["1 - - -"]);
}

#[test]
fn a_send_that_might_outlast_its_lease_is_not_begun() {
    for (late, attempts) in [
        (48_000, &["1 accepted 200 -"][..]),
        (48_001, &["1 not_started - -", "2 accepted 200 -"]),
        (59_000, &["1 not_started - -", "2 accepted 200 -"]),
    ] {
        let office = office();
        office.stand_still("send_claimed", late);
        office.deliver();
        assert_eq!(office.attempts(), attempts, "{late} ms late");
        // An attempt that was not begun is not charged.
        assert_eq!(office.rows(), ["provider_accepted 1 -"], "{late} ms late");
        assert_eq!(office.texts(), ["Hello."], "{late} ms late");
    }
}

#[test]
fn nothing_is_begun_once_it_has_expired() {
    for (late, sends) in [(4_999, 1), (5_000, 0)] {
        let office = office();
        office
            .sql
            .execute("UPDATE outbound_messages SET expires_at = created_at + 5000");
        office.stand_still("send_claimed", late);
        office.deliver();
        assert_eq!(office.texts().len(), sends, "{late} ms late");
    }
}

#[test]
fn what_waits_behind_others_hides_nothing_that_is_due() {
    let office = Office::new();
    // The first message of a chat is tried again in an hour, and more than are looked at wait behind it.
    for _ in 0..205 {
        office.reply("One more.");
    }
    office
        .sql
        .execute("UPDATE outbound_messages SET next_attempt_at = next_attempt_at + 3600000 WHERE lane_no = 1");
    office.pass(1);
    office.reply_to_chats(13);
    let sums = office.deliver();
    assert_eq!((sums.waves, sums.accepted), (3, 13));
}

/// A later version may have made rows that this one cannot read.
#[test]
fn a_row_that_cannot_be_read_keeps_no_other_from_being_sent() {
    let office = Office::new();
    office.reply_to_chats(3);
    office
        .sql
        .execute("UPDATE outbound_messages SET content_kind = 'template', content_ref = 'of_tomorrow', content_from = NULL, content_to = NULL WHERE outbox_id LIKE 'out_00no2-%'");
    let (dispositions, sums) = office.consume(vec![office.order()]);
    assert_eq!(dispositions, [Disposition::Ack(queues::jobs::Acked::Done)]);
    assert_eq!((sums.accepted, sums.failed), (2, 0));
    assert_eq!(
        office.rows(),
        ["provider_accepted 1 -", "leased 1 -", "provider_accepted 1 -"]
    );
    assert_eq!(office.alerts(), [Alert::Unreadable]);
}
