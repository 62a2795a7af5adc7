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
