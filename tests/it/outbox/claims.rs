use domain::fence::Fence;
use domain::ids::GatewayId;
use domain::outbox::policy::TELEGRAM;
use domain::time::{Millis, Timestamp};
use store::outbox::claimed::{self, Content, Destination};

use super::desk::*;

#[test]
fn a_claim_gives_all_that_a_sender_needs_and_puts_the_attempt_on_record() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 2);
    let (token, claimed) = desk.claim();
    assert_eq!(ids(&claimed), ["ann1p1"]);
    let row = &claimed.rows[0];
    let Content::Message {
        turn_id,
        from,
        to,
        content_hash,
        sealed,
    } = &row.content
    else {
        panic!("an answer")
    };
    assert_eq!(
        (turn_id, *from, *to, content_hash.as_deref()),
        (&turn, 0, 10, Some("hash-of-0"))
    );
    let sealed = sealed.as_ref().unwrap();
    assert_eq!(
        (sealed.key.key_id.as_str(), sealed.key.wrapped.as_slice()),
        ("key_00ann", &[0xaa][..])
    );
    assert_eq!(sealed.sealed, [0xc0, 0xff, 0xee]);
    let Destination::Address { address_id, sealed } = &row.to else {
        panic!("an address")
    };
    let sealed = sealed.as_ref().unwrap();
    assert_eq!((address_id, sealed.sealed.as_slice()), (&address("ann"), &[0xa1][..]));
    assert_eq!(
        (row.attempt_no, row.part_no, row.part_count, row.tried.attempt_count),
        (1, 1, 2, 1)
    );
    assert_eq!(row.lease_until, desk.now().plus(TELEGRAM.lease));
    assert_eq!(row.tried.expires_at, desk.now().plus(Millis::from_mins(1_440)));
    let gateway = claimed.gateway.as_ref().unwrap();
    assert_eq!(gateway.updated_at, Timestamp::from_millis(7));
    assert_eq!(gateway.channel_token.as_ref().unwrap().sealed, [0x0b, 0x07]);
    assert_eq!(desk.attempts("ann1p1"), "1:open");
    assert_eq!(desk.events(&turn), "send_claimed send_attempted");
    assert_eq!(desk.stand(), "ann1p1:leased ann1p2:pending");
    let again = desk.read(&claimed::claimed(&GatewayId::parse(BOT).unwrap(), &token, desk.now()));
    assert_eq!(ids(&again), ["ann1p1"], "found again by its token");
}

#[test]
fn parts_go_one_after_the_other_and_the_turn_ends_with_the_last() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 2);
    let (token, claimed) = desk.claim();
    let outcomes = desk.settle(&token, &claimed.rows[0], &accepted("11"));
    assert_eq!(outcomes.settled, [row("ann1p1")]);
    assert_eq!(outcomes.next_due, Some(desk.now().plus(Millis::from_secs(1))));
    assert_eq!(desk.takes(), Vec::<String>::new());
    desk.wait(Millis::from_secs(1));
    let (token, claimed) = desk.claim();
    desk.settle(&token, &claimed.rows[0], &accepted("12"));
    assert_eq!(desk.stand(), "ann1p1:provider_accepted ann1p2:provider_accepted");
    assert_eq!(desk.turn_stands(&turn), "terminal_success/accepted");
    assert_eq!(
        desk.events(&turn),
        "send_claimed send_attempted provider_accepted send_claimed send_attempted provider_accepted turn_terminal_success"
    );
}

/// The sender gave the first copy of its batch up for lost and sent it again; the first arrives only then.
#[test]
fn a_claim_that_arrives_twice_opens_one_attempt() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    let token = desk.token();
    let batch = desk.claim_batch(&token);
    desk.run(&batch);
    desk.run(&batch);
    assert_eq!(desk.attempts("ann1p1"), "1:open");
    assert_eq!(desk.events(&turn), "send_claimed send_attempted");
}

#[test]
fn a_wave_is_six_rows_of_different_lanes_and_goes_by_priority() {
    let desk = Desk::new();
    for number in 0..8 {
        desk.person(number);
        desk.turn(&format!("p{number}"), 1, 1);
    }
    desk.sql
        .execute("UPDATE outbound_messages SET priority = 10 WHERE outbox_id = 'out_00p71p1'");
    let (_, claimed) = desk.claim();
    assert_eq!(ids(&claimed), ["p71p1", "p01p1", "p11p1", "p21p1", "p31p1", "p41p1"]);
    assert_eq!(
        claimed.next_due,
        Some(desk.now().plus(Millis::new(6 * 42))),
        "the two that are left wait for the gateway's pace"
    );
    desk.wait(Millis::new(6 * 42));
    assert_eq!(desk.takes(), ["p51p1", "p61p1"]);
}

#[test]
fn two_claims_never_take_the_same_row() {
    let desk = Desk::new();
    for number in 0..9 {
        desk.person(number);
        desk.turn(&format!("p{number}"), 1, 1);
    }
    // The pace of the gateway would part them anyway; here only the lease does.
    desk.sql.drop_fence(Fence::GatewayPaced);
    let (first, second, third) = (desk.takes(), desk.takes(), desk.takes());
    assert_eq!((first.len(), second.len(), third.len()), (6, 3, 0));
    assert!(first.iter().all(|id| !second.contains(id)));
}

#[test]
fn no_more_than_thirty_go_in_any_second() {
    let desk = Desk::new();
    for number in 0..80 {
        desk.person(number);
        desk.turn(&format!("p{number}"), 1, 1);
    }
    let mut times = Vec::new();
    while times.len() < 80 {
        times.extend(desk.takes().iter().map(|_| desk.at.get()));
        desk.wait(Millis::new(1));
    }
    for at in &times {
        let within = times.iter().filter(|other| (*at..*at + 1_000).contains(*other)).count();
        assert!(within <= 30, "{within} in the second from {at}");
    }
    assert!(*times.last().unwrap() < 3_400, "and not much slower than allowed");
}

#[test]
fn a_lease_that_ran_out_is_taken_over_with_its_attempt_closed_as_ambiguous() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    let (lost, first) = desk.claim();
    desk.wait(Millis::new(TELEGRAM.lease.get() - 1));
    assert_eq!(desk.takes(), Vec::<String>::new());
    desk.wait(Millis::new(1));
    let (held, second) = desk.claim();
    assert_eq!(ids(&second), ["ann1p1"]);
    assert_eq!(
        (second.rows[0].attempt_no, second.rows[0].tried.ambiguous_count),
        (2, 1)
    );
    assert_eq!(desk.attempts("ann1p1"), "1:ambiguous:lease_lost 2:open");
    let late = desk.settle(&lost, &first.rows[0], &accepted("late"));
    assert_eq!((late.settled.len(), late.lost), (0, vec![row("ann1p1")]), "too late");
    assert_eq!(desk.stand(), "ann1p1:leased");
    assert_eq!(
        desk.settle(&held, &second.rows[0], &accepted("1")).settled,
        [row("ann1p1")]
    );
    assert_eq!(desk.attempts("ann1p1"), "1:ambiguous:lease_lost 2:accepted");
    assert_eq!(desk.turn_stands(&turn), "terminal_success/accepted");
}

#[test]
fn a_crash_after_crash_is_not_sent_for_ever() {
    let desk = Desk::new();
    let turn = desk.turn("ann", 1, 1);
    for _ in 0..4 {
        assert_eq!(desk.takes(), ["ann1p1"]);
        desk.wait(TELEGRAM.lease);
    }
    assert_eq!(
        desk.takes(),
        Vec::<String>::new(),
        "four attempts of which nobody knows"
    );
    desk.end_what_is_over();
    assert_eq!(desk.stand(), "ann1:pending ann1p1:failed", "and the notice of it");
    assert_eq!(desk.error("ann1p1"), "policy:unconfirmed");
    assert_eq!(
        desk.turn_stands(&turn),
        "terminal_failure/failed/delivery/delivery_failed/0"
    );
}

#[test]
fn a_row_without_attempts_left_is_ended() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    desk.sql.execute("UPDATE outbound_messages SET attempt_count = 11");
    assert_eq!(desk.takes(), ["ann1p1"]);
    desk.wait(TELEGRAM.lease);
    assert_eq!(desk.takes(), Vec::<String>::new());
    desk.end_what_is_over();
    assert_eq!(desk.error("ann1p1"), "policy:attempts_exhausted");
}

#[test]
fn content_or_a_destination_that_is_gone_is_said_to_be_gone() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    desk.sql
        .execute("UPDATE data_keys SET wrapped = NULL, destroyed_at = 1 WHERE key_id = 'key_00ann'");
    let (_, claimed) = desk.claim();
    assert!(matches!(claimed.rows[0].content, Content::Message { sealed: None, .. }));
    assert!(matches!(claimed.rows[0].to, Destination::Address { sealed: None, .. }));
}

#[test]
fn what_is_due_later_is_known() {
    let desk = Desk::new();
    assert_eq!(desk.claim().1.next_due, None);
    desk.turn("ann", 1, 1);
    desk.sql
        .execute("UPDATE outbound_messages SET next_attempt_at = next_attempt_at + 700, not_before = not_before + 700");
    assert_eq!(desk.claim().1.next_due, Some(desk.now().plus(Millis::new(700))));
}
