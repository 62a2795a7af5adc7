//! What the webhook puts into the outbox, as a sender finds it there.

use domain::ids::LeaseToken;
use domain::keys::{Aad, KeySubject};
use domain::outbox::SendChannel;
use domain::outbox::policy::OUTSIDE;
use domain::ports::Clock;
use domain::sql::{Outcome, Rows, Shard, Statement};
use domain::time::Millis;
use domain::turn::event::Actor;
use store::channels::dedup::Disposition;
use store::outbox::claim::{Claim, Claimant, claim};
use store::outbox::claimed::{ClaimedRow, Content, Destination, read_claimed};
use store::outbox::sweep;

use super::desk::{Desk, gateway, message_update};
use super::links::{Hand, start};

fn run(desk: &Desk, batch: &[Statement]) -> Vec<Rows> {
    match desk.sql.sql.run(Shard::Directory, batch) {
        Outcome::Committed(rows) => rows,
        other => panic!("{other:?}"),
    }
}

/// Claims what can be sent now, as `template to chat`.
fn takes(desk: &Desk) -> Vec<String> {
    let now = desk.clock.now();
    let token = LeaseToken::parse(&format!("lease_00{}", now.as_millis())).unwrap();
    let gateway_id = gateway();
    let rows = run(
        desk,
        &claim(&Claim {
            gateway_id: &gateway_id,
            channel: SendChannel::Telegram,
            claimant: Claimant::Outside,
            token: &token,
            owner: "test",
            epoch: 1,
            limit: 6,
            policy: &OUTSIDE,
            now,
        }),
    );
    let claimed = read_claimed(&rows, now).unwrap();
    claimed
        .rows
        .iter()
        .map(|row| format!("{} to {}", words(row), chat(desk, row)))
        .collect()
}

fn words(row: &ClaimedRow) -> &'static str {
    match &row.content {
        Content::Template(template) => template.as_str(),
        Content::Message { .. } => "an answer",
    }
}

/// The chat that a row goes to, opened as a sender does.
fn chat(desk: &Desk, row: &ClaimedRow) -> String {
    let id = match &row.to {
        Destination::Address { address_id, sealed } => {
            let place = Aad {
                table: "channel_addresses",
                row: address_id.as_str(),
                column: "external_sealed",
            };
            let sealed = sealed.as_ref().unwrap();
            let subject = KeySubject::User(row.user_id.clone().unwrap());
            let key = sealed.key.unwrap_for(&subject, &desk.secrets).unwrap();
            key.open(&place, &sealed.sealed).unwrap()
        }
        Destination::Chat(sealed) => {
            let place = Aad {
                table: "outbound_messages",
                row: row.outbox_id.as_str(),
                column: "destination_sealed",
            };
            desk.secrets.open_own(&place, sealed).unwrap()
        }
        Destination::Nowhere => panic!("it goes nowhere"),
    };
    String::from_utf8(id).unwrap()
}

#[test]
fn a_fixed_reply_goes_to_the_chat_it_answers() {
    let desk = Desk::new();
    desk.deliver(&message_update(1, 1001, &serde_json::json!({"voice": {}})))
        .unwrap();
    desk.say(2, 9_007_199_254_740_993, "who are you");
    let mut taken = takes(&desk);
    taken.sort_unstable();
    assert_eq!(taken, ["link_first to 9007199254740993", "text_only to 1001"]);
}

#[test]
fn a_chat_that_changed_hands_gets_nothing_that_was_meant_for_its_former_owner() {
    let desk = Desk::new();
    desk.deliver(&message_update(1, 1001, &serde_json::json!({"voice": {}})))
        .unwrap();
    let code = Hand::of(&desk, "bob").code();
    assert_eq!(start(&desk, 1001, &code), Disposition::Linked);
    assert_eq!(
        takes(&desk),
        Vec::<String>::new(),
        "what waits first is not sent, and not overtaken"
    );
    // The sweep ends what may not be sent any more, and the way is clear.
    desk.pass(Millis::from_secs(60));
    let over = sweep::read_over(&run(&desk, &sweep::over(desk.clock.now(), 10))).unwrap();
    run(&desk, &sweep::end(&over, Actor::Sweep, desk.clock.now()));
    assert_eq!(takes(&desk), ["linked to 1001"]);
    assert_eq!(
        desk.texts("SELECT content_ref || ' ' || status AS v FROM outbound_messages ORDER BY lane_no"),
        ["text_only cancelled", "linked leased"]
    );
}

#[test]
fn the_last_word_to_a_chat_that_was_shut_reaches_it() {
    let desk = Desk::new();
    assert_eq!(desk.say(1, 1001, "/stop"), Disposition::Stopped);
    assert_eq!(takes(&desk), ["stopped to 1001"]);
}
