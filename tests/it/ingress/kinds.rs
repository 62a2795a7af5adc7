//! Every kind of update has a stated answer.

use domain::telegram::update::UpdateKind;
use serde_json::{Value, json};
use store::channels::dedup::Disposition;

use super::desk::{Desk, message_update, text_update};

/// Delivers an update of Ann's; gives what was done with it and the fixed texts that came of it.
fn answer(desk: &Desk, update: &Value) -> (Disposition, Vec<String>) {
    let taken = desk.deliver(update).unwrap();
    assert_eq!(desk.trips(), 2);
    (taken.disposition.unwrap(), desk.notices())
}

fn fixed(desk: &Desk, members: &Value) -> (Disposition, Vec<String>) {
    answer(desk, &message_update(9, 1001, members))
}

#[test]
fn other_kinds_are_recorded_by_kind_and_nothing_else_happens() {
    let desk = Desk::new();
    let message = message_update(0, 1001, &json!({"text": "hello"}))["message"].clone();
    let mut id = 0;
    let mut kinds = Vec::new();
    for kind in UpdateKind::ALL.iter().filter(|kind| **kind != UpdateKind::Message) {
        for content in [
            &message,
            &json!({"from": message["from"], "message": message}),
            &json!({}),
            &json!(7),
        ] {
            id += 1;
            let taken = desk.deliver(&json!({"update_id": id, kind.as_str(): content})).unwrap();
            assert_eq!(
                (taken.disposition, taken.order),
                (Some(Disposition::Ignored), None),
                "{kind:?}"
            );
            kinds.push(kind.as_str());
        }
    }
    let taken = desk.deliver(&json!({"update_id": 1_000_000})).unwrap();
    assert_eq!(taken.disposition, Some(Disposition::Ignored));
    kinds.push("unknown");
    let recorded = desk.texts("SELECT update_kind AS v FROM inbound_dedup ORDER BY update_kind");
    kinds.sort_unstable();
    assert_eq!(recorded, kinds);
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 0);
    assert_eq!(desk.notices(), Vec::<String>::new());
    assert_eq!(desk.say(2_000_000, 1001, "and the bot goes on"), Disposition::Turn);
}

#[test]
fn groups_channels_bots_and_strangers_posing_as_a_chat_are_ignored() {
    let bot = json!({"id": 1001, "is_bot": true, "first_name": "Bot"});
    let other = json!({"id": 1002, "is_bot": false, "first_name": "Other"});
    for members in [
        json!({"text": "hi", "chat": {"id": 1001, "type": "group"}}),
        json!({"text": "/stop", "chat": {"id": 1001, "type": "supergroup"}}),
        json!({"text": "hi", "chat": {"id": 1001, "type": "channel"}}),
        json!({"text": "hi", "from": bot}),
        json!({"text": "hi", "from": other}),
        json!({"text": "hi", "from": null}),
        json!({"text": "hi", "chat": null}),
        json!({"text": "hi", "chat": {"type": "private"}}),
    ] {
        let desk = Desk::new();
        assert_eq!(fixed(&desk, &members), (Disposition::Ignored, vec![]), "{members}");
        assert_eq!(desk.bonds(), ["user_00ann 1001"]);
    }
}

#[test]
fn what_has_no_words_gets_one_fixed_reply() {
    let to_ann = |template: &str| vec![format!("{template} to address_00ann")];
    for (members, expected) in [
        (json!({"sticker": {}}), (Disposition::Answered, to_ann("text_only"))),
        (json!({"voice": {}}), (Disposition::Answered, to_ann("text_only"))),
        (json!({"photo": [{}]}), (Disposition::Answered, to_ann("text_only"))),
        (json!({"photo": [{}], "caption": "look"}), (Disposition::Turn, vec![])),
        (json!({"photo": [{}], "caption": " \n"}), (Disposition::Ignored, vec![])),
        (json!({"pinned_message": {}}), (Disposition::Ignored, vec![])),
        (json!({"text": " \u{2003}\n"}), (Disposition::Ignored, vec![])),
        (json!({"text": ""}), (Disposition::Ignored, vec![])),
        (json!({"text": "/settings"}), (Disposition::Turn, vec![])),
        (json!({"text": "/help"}), (Disposition::Helped, to_ann("help"))),
        (json!({"text": "/start"}), (Disposition::Helped, to_ann("help"))),
    ] {
        assert_eq!(fixed(&Desk::new(), &members), expected, "{members}");
    }
}

#[test]
fn a_message_has_sixteen_thousand_bytes_at_most() {
    let desk = Desk::new();
    assert_eq!(desk.say(1, 1001, &"é".repeat(8_000)), Disposition::Turn);
    assert_eq!(desk.say(2, 1001, &"é".repeat(8_001)), Disposition::Answered);
    assert_eq!(desk.notices(), ["too_long to address_00ann"]);
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 1);
}

#[test]
fn an_album_gets_one_reply_not_one_for_each_picture() {
    let desk = Desk::new();
    for id in 0..10 {
        let taken = desk
            .deliver(&message_update(id, 1001, &json!({"photo": [{}]})))
            .unwrap();
        assert_eq!(taken.disposition, Some(Disposition::Answered));
        assert_eq!(taken.order.is_some(), id == 0, "only what was made is to be sent");
    }
    assert_eq!(desk.notices(), ["text_only to address_00ann"]);
}

#[test]
fn a_caption_is_taken_as_the_text() {
    let desk = Desk::new();
    assert_eq!(
        fixed(&desk, &json!({"photo": [{}], "caption": "/stop"})).0,
        Disposition::Turn
    );
    assert_eq!(desk.bonds(), ["user_00ann 1001"]);
}

#[test]
fn ids_at_the_ends_of_int64_are_different_updates() {
    let desk = Desk::new();
    for id in [i64::MAX, i64::MAX - 1, i64::MIN, 0, -1] {
        assert_eq!(desk.say(id, 1001, "hello"), Disposition::Turn);
    }
    assert_eq!(
        desk.deliver(&text_update(i64::MAX, 1001, "hello")).unwrap().disposition,
        None
    );
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 5);
}
