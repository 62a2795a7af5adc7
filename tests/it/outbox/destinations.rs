//! Destinations that are gone or have moved.

use domain::keys::{MasterVersion, OwnSealed};
use domain::outbox::outcome::{ErrorCode, Outcome};
use domain::time::Millis;
use store::outbox::claimed::Destination;
use store::outbox::settle::Moved;

use super::desk::*;

#[test]
fn a_destination_that_is_gone_is_disabled_and_what_else_waits_for_it_is_cancelled() {
    let desk = Desk::new();
    let turns = [desk.turn("ann", 1, 1), desk.turn("ann", 2, 2), desk.turn("bob", 1, 1)];
    let (token, claimed) = desk.claim();
    assert_eq!(ids(&claimed), ["ann1p1", "bob1p1"]);
    let blocked = Outcome::Gone {
        code: ErrorCode::Blocked,
    };
    desk.settle_all(
        &token,
        &[
            (&claimed.rows[0], &blocked, None),
            (&claimed.rows[1], &accepted("1"), None),
        ],
    );
    assert_eq!(
        desk.stand(),
        "ann1p1:failed ann2p1:cancelled ann2p2:cancelled bob1p1:provider_accepted"
    );
    assert_eq!(desk.attempts("ann1p1"), "1:gone:blocked");
    assert_eq!(desk.error("ann2p1"), "policy:authorization_changed");
    assert_eq!(
        desk.list("SELECT address_id || ':' || status AS v FROM channel_addresses ORDER BY address_id"),
        "address_00ann:disabled address_00bob:active address_00out:active"
    );
    let stand: Vec<String> = turns.iter().map(|turn| desk.turn_stands(turn)).collect();
    assert_eq!(
        stand,
        [
            "terminal_failure/failed/delivery/delivery_failed/0",
            "terminal_failure/failed/delivery/delivery_cancelled/0",
            "terminal_success/accepted"
        ],
        "and nobody is told where nobody can be told"
    );
}

#[test]
fn a_destination_that_moved_is_known_by_its_new_id_and_tried_once_more() {
    let desk = Desk::new();
    desk.turn("ann", 1, 1);
    let (token, claimed) = desk.claim();
    let to = |hash: &str| Moved::Address {
        address_id: address("ann"),
        key_id: domain::ids::DataKeyId::parse("key_00ann").unwrap(),
        external_hash: hash.to_owned(),
        sealed: vec![0xa2],
    };
    let moved = Outcome::Moved {
        to: "-100555".to_owned(),
    };
    desk.settle_all(&token, &[(&claimed.rows[0], &moved, Some(&to("hash-new")))]);
    assert_eq!(
        desk.list("SELECT external_hash AS v FROM channel_addresses WHERE address_id = 'address_00ann'"),
        "hash-new"
    );
    desk.wait(Millis::from_secs(1));
    let (token, claimed) = desk.claim();
    let Destination::Address {
        sealed: Some(sealed), ..
    } = &claimed.rows[0].to
    else {
        panic!("an address")
    };
    assert_eq!(
        (sealed.sealed.as_slice(), claimed.rows[0].tried.moved),
        (&[0xa2][..], true)
    );
    desk.settle_all(&token, &[(&claimed.rows[0], &moved, Some(&to("hash-newer")))]);
    assert_eq!(desk.error("ann1p1"), "destination:moved", "once");
}

#[test]
fn nobody_moves_onto_an_address_that_is_there_or_seals_under_a_key_that_is_gone() {
    for (hash, script) in [
        ("hash-bob", ""),
        ("hash-new", "UPDATE data_keys SET wrapped = NULL, destroyed_at = 1"),
    ] {
        let desk = Desk::new();
        desk.turn("ann", 1, 1);
        let (token, claimed) = desk.claim();
        desk.sql.execute(script);
        let to = Moved::Address {
            address_id: address("ann"),
            key_id: domain::ids::DataKeyId::parse("key_00ann").unwrap(),
            external_hash: hash.to_owned(),
            sealed: vec![0xa2],
        };
        let moved = Outcome::Moved { to: "5".to_owned() };
        desk.settle_all(&token, &[(&claimed.rows[0], &moved, Some(&to))]);
        assert_eq!(
            desk.list("SELECT external_hash AS v FROM channel_addresses WHERE address_id = 'address_00ann'"),
            "hash-ann"
        );
        assert_eq!(desk.stand(), "ann1p1:retry");
    }
}

#[test]
fn a_chat_of_nobody_moves_with_its_row_and_is_forgotten_when_it_ends() {
    let desk = Desk::new();
    desk.notice_to_chat("once");
    let (token, claimed) = desk.claim();
    assert!(matches!(&claimed.rows[0].to, Destination::Chat(chat) if chat.sealed == [0xcc]));
    let to = Moved::Chat(OwnSealed {
        master_version: MasterVersion::new(2),
        sealed: vec![0xcd],
    });
    let moved = Outcome::Moved { to: "5".to_owned() };
    desk.settle_all(&token, &[(&claimed.rows[0], &moved, Some(&to))]);
    desk.wait(Millis::from_secs(1));
    let (token, claimed) = desk.claim();
    assert!(
        matches!(&claimed.rows[0].to, Destination::Chat(chat) if chat.sealed == [0xcd] && chat.master_version.get() == 2)
    );
    desk.settle(&token, &claimed.rows[0], &accepted("1"));
    assert_eq!(desk.list("SELECT destination_sealed AS v FROM outbound_messages"), "-");
}
