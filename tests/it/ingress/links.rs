//! Codes, and the bonds between chats and people that they make and end.

use std::cell::Cell;

use domain::auth::link_code::{LINK_CODE_LIFE, LinkCode};
use domain::auth::{AuthMethod, Principal, Subject};
use domain::guard::Guard;
use domain::ids::{FamilyId, TokenId, UserId};
use domain::ports::Clock;
use domain::time::{Millis, Timestamp};
use harness::block_on;
use store::channels::dedup::Disposition;
use store::channels::link::Linking;
use store::idempotency::{KeyUse, Settled, settle};
use store::provisioning::Command;

use super::desk::{Desk, text_update};

/// A signed-in person and their commands.
pub struct Hand<'a> {
    desk: &'a Desk,
    name: &'static str,
    keys: Cell<u32>,
}

impl<'a> Hand<'a> {
    pub fn of(desk: &'a Desk, name: &'static str) -> Self {
        Self {
            desk,
            name,
            keys: Cell::new(0),
        }
    }

    fn user(&self) -> UserId {
        UserId::parse(&format!("user_00{}", self.name)).unwrap()
    }

    fn command(&self, key_hash: &str, build: impl Fn(&Command<'_>) -> Vec<domain::sql::Statement>) -> Settled {
        let now = self.desk.clock.now();
        let issued_at = Timestamp::from_millis(now.as_secs() * 1_000);
        let principal = Principal {
            subject: Subject::User(self.user()),
            family: Some(FamilyId::parse(&format!("family_00{}", self.name)).unwrap()),
            roles: vec![],
            scopes: vec![],
            jti: TokenId::parse("jwt_00link").unwrap(),
            auth_method: AuthMethod::UserJwt,
            gateway: None,
            revision: 1,
            issued_at,
            expires_at: issued_at,
            idp: None,
            idp_sub: None,
        };
        let key = KeyUse {
            caller: "user",
            route: "POST /test",
            key_hash,
            request_hash: "r",
            now,
        };
        let command = Command {
            principal: &principal,
            key: key.clone(),
        };
        let batch = build(&command);
        block_on(settle(
            &self.desk.sql,
            &self.desk.clock,
            self.user().shard(),
            &key,
            batch,
        ))
    }

    /// A new code, as the person sees it.
    pub fn code(&self) -> String {
        self.keys.set(self.keys.get() + 1);
        self.code_under(&format!("{}-{}", self.name, self.keys.get()))
    }

    fn code_under(&self, key: &str) -> String {
        let code = LinkCode::of(&self.desk.secrets, &self.user(), "telegram", key);
        let hash = code.hash(&self.desk.secrets);
        let (user_id, until) = (self.user(), self.desk.clock.now().plus(LINK_CODE_LIFE));
        let linking = Linking {
            user_id: &user_id,
            channel: "telegram",
        };
        let settled = self.command(key, |command| linking.issue(command, &hash, until, "{}"));
        assert!(
            matches!(settled, Settled::Done(_) | Settled::Replayed(_)),
            "{settled:?}"
        );
        code.reveal().to_owned()
    }

    fn unlink(&self) {
        let user_id = self.user();
        let linking = Linking {
            user_id: &user_id,
            channel: "telegram",
        };
        let settled = self.command("unlink", |command| linking.unlink(command));
        let Settled::Done(result) = settled else {
            panic!("{settled:?}")
        };
        assert_eq!(result.response, r#"{"channel":"telegram","linked":false}"#);
    }
}

/// Sends `/start CODE` from a chat, in an update of its own.
pub fn start(desk: &Desk, chat: i64, code: &str) -> Disposition {
    let id = desk.number("SELECT count(*) AS v FROM inbound_dedup") + 1_000;
    desk.say(id, chat, &format!("/start {code}"))
}

#[test]
fn a_code_binds_the_chat_that_sends_it_once() {
    let desk = Desk::without_chats();
    let code = Hand::of(&desk, "ann").code();
    assert_eq!(start(&desk, 1001, &code), Disposition::Linked);
    assert_eq!(desk.trips(), 2);
    assert_eq!(desk.bonds(), ["user_00ann 1001"]);
    let address = desk.texts("SELECT address_id AS v FROM channel_addresses").remove(0);
    assert_eq!(desk.notices(), [format!("linked to {address}")]);
    assert_eq!(desk.texts("SELECT user_id AS v FROM inbound_dedup"), ["user_00ann"]);
    assert_eq!(desk.say(1, 1001, "hello"), Disposition::Turn);
    assert_eq!(desk.texts("SELECT user_id AS v FROM turns"), ["user_00ann"]);

    // It is used up for everyone else, and says so without harm to its owner.
    assert_eq!(start(&desk, 2002, &code), Disposition::LinkRefused);
    assert_eq!(start(&desk, 1001, &code), Disposition::Linked);
    assert_eq!(desk.bonds(), ["user_00ann 1001"]);
}

#[test]
fn a_code_may_be_typed_in_lower_case_and_with_hyphens() {
    let desk = Desk::without_chats();
    let code = Hand::of(&desk, "ann").code().to_lowercase();
    let (left, right) = code.split_at(8);
    assert_eq!(start(&desk, 1001, &format!("{left}-{right}")), Disposition::Linked);
}

#[test]
fn the_same_request_gives_the_same_code_and_only_its_hash_is_kept() {
    let desk = Desk::without_chats();
    let ann = Hand::of(&desk, "ann");
    let code = ann.code_under("k");
    assert_eq!(ann.code_under("k"), code);
    assert_ne!(ann.code_under("other"), code);
    assert_ne!(Hand::of(&desk, "bob").code_under("k2"), code);
    assert_eq!(desk.number("SELECT count(*) AS v FROM link_codes"), 3);
    for column in ["code_hash", "user_id"] {
        let kept = desk.texts(&format!("SELECT {column} AS v FROM link_codes"));
        assert!(kept.iter().all(|value| !value.contains(&code)));
    }
}

#[test]
fn a_code_lives_fifteen_minutes_to_the_millisecond() {
    for (passed, expected) in [(899_999, Disposition::Linked), (900_000, Disposition::LinkRefused)] {
        let desk = Desk::without_chats();
        let code = Hand::of(&desk, "ann").code();
        desk.pass(Millis::new(passed));
        assert_eq!(start(&desk, 1001, &code), expected, "{passed}");
    }
}

#[test]
fn a_code_is_refused_where_the_gateway_may_not_speak_for_its_person() {
    for change in [
        "DELETE FROM gateway_families WHERE family_id = 'family_00ann'",
        "UPDATE users SET status = 'suspended' WHERE user_id = 'user_00ann'",
        "UPDATE families SET status = 'suspended' WHERE family_id = 'family_00ann'",
        "UPDATE link_codes SET channel = 'imessage'",
        "UPDATE data_keys SET wrapped = NULL, destroyed_at = 1 WHERE subject_id = 'user_00ann'",
        "DELETE FROM link_codes",
    ] {
        let desk = Desk::without_chats();
        let code = Hand::of(&desk, "ann").code();
        desk.execute(change);
        assert_eq!(start(&desk, 1001, &code), Disposition::LinkRefused, "{change}");
        assert_eq!(desk.bonds(), Vec::<String>::new());
        assert_eq!(desk.notices(), ["link_refused to a chat"]);
    }
    for text in ["ABC", "0123456789ABCDEF", "0123456789ABCDEFG", "é"] {
        assert_eq!(
            start(&Desk::without_chats(), 1001, text),
            Disposition::LinkRefused,
            "{text}"
        );
    }
}

#[test]
fn another_persons_code_moves_the_chat_and_its_former_owner_is_heard_no_more() {
    let desk = Desk::new();
    assert_eq!(desk.say(1, 1001, "ann's words"), Disposition::Turn);
    let code = Hand::of(&desk, "bob").code();
    assert_eq!(start(&desk, 1001, &code), Disposition::Linked);
    assert_eq!(desk.bonds(), ["user_00bob 1001"]);
    desk.pass(Millis::new(1));
    let old = desk.texts("SELECT status AS v FROM channel_addresses WHERE address_id = 'address_00ann'");
    assert_eq!(old, ["disabled"]);
    assert_eq!(desk.say(2, 1001, "bob's words"), Disposition::Turn);
    let turns = desk.rows("SELECT user_id, conversation_id, address_id FROM turns ORDER BY accepted_at");
    assert_eq!(
        turns
            .iter()
            .map(|turn| turn.text("user_id").unwrap())
            .collect::<Vec<_>>(),
        ["user_00ann", "user_00bob"]
    );
    assert_ne!(turns[0].text("conversation_id"), turns[1].text("conversation_id"));
    assert_ne!(turns[0].text("address_id"), turns[1].text("address_id"));
}

#[test]
fn a_second_code_of_the_same_person_changes_nothing() {
    let desk = Desk::new();
    let code = Hand::of(&desk, "ann").code();
    assert_eq!(start(&desk, 1001, &code), Disposition::Linked);
    assert_eq!(
        desk.texts("SELECT address_id AS v FROM channel_addresses"),
        ["address_00ann"]
    );
    assert_eq!(desk.notices(), ["linked to address_00ann"]);
    assert_eq!(
        desk.number("SELECT count(*) AS v FROM link_codes WHERE used_at IS NOT NULL"),
        1
    );
}

#[test]
fn two_chats_that_send_one_code_at_once_do_not_both_get_it() {
    let desk = Desk::without_chats();
    let code = Hand::of(&desk, "ann").code();
    let updates = [1001, 2002].map(|chat| text_update(chat, chat, &format!("/start {code}")));
    let answers = desk.deliver_at_once(&updates);
    let mut done: Vec<_> = answers
        .iter()
        .map(|taken| taken.as_ref().unwrap().disposition.unwrap().as_str())
        .collect();
    done.sort_unstable();
    assert_eq!(done, ["link_refused", "linked"]);
    assert_eq!(desk.bonds().len(), 1);

    let desk = Desk::without_chats();
    desk.sql.sql.drop_guard(Guard::LinkCodeLive);
    let code = Hand::of(&desk, "ann").code();
    let updates = [1001, 2002].map(|chat| text_update(chat, chat, &format!("/start {code}")));
    desk.deliver_at_once(&updates);
    assert_eq!(desk.bonds().len(), 2, "without the guard both do");
}

#[test]
fn stop_ends_the_bond_and_says_so_to_the_chat() {
    let desk = Desk::new();
    assert_eq!(desk.say(1, 1001, "/stop"), Disposition::Stopped);
    assert_eq!(desk.bonds(), Vec::<String>::new());
    assert_eq!(desk.notices(), ["stopped to a chat"]);
    assert_eq!(desk.say(2, 1001, "hello?"), Disposition::Unlinked);
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 0);
    // Saying it again changes nothing, and is not answered each time.
    for id in 3..8 {
        assert_eq!(desk.say(id, 1001, "/stop"), Disposition::Stopped);
    }
    assert_eq!(
        desk.notices(),
        ["stopped to a chat", "link_first to a chat", "stopped to a chat"]
    );
}

#[test]
fn unlinking_ends_every_bond_of_the_person_on_the_channel() {
    let desk = Desk::new();
    desk.bind("address_00ann2", "user_00ann", 1002);
    desk.bind("address_00bob", "user_00bob", 2002);
    Hand::of(&desk, "ann").unlink();
    assert_eq!(desk.bonds(), ["user_00bob 2002"]);
    assert_eq!(desk.say(1, 1001, "hello"), Disposition::Unlinked);
    assert_eq!(desk.say(2, 2002, "hello"), Disposition::Turn);
}

#[test]
fn a_stranger_is_told_how_to_link_once_a_day() {
    let desk = Desk::without_chats();
    for (id, text) in ["hello", "/start", "anyone?", "/stat"].into_iter().enumerate() {
        assert_eq!(desk.say(i64::try_from(id).unwrap(), 1001, text), Disposition::Unlinked);
    }
    assert_eq!(desk.notices(), ["link_first to a chat"]);
    assert_eq!(desk.say(10, 2002, "another chat"), Disposition::Unlinked);
    assert_eq!(desk.notices().len(), 2);
    desk.pass(Millis::from_mins(24 * 60));
    assert_eq!(desk.say(11, 1001, "a day later"), Disposition::Unlinked);
    assert_eq!(desk.notices().len(), 3);
    assert_eq!(desk.number("SELECT count(*) AS v FROM turns"), 0);
}

#[test]
fn guesses_are_not_answered_one_by_one() {
    let desk = Desk::without_chats();
    for _ in 0..5 {
        assert_eq!(start(&desk, 1001, "0123456789ABCDEF"), Disposition::LinkRefused);
    }
    assert_eq!(desk.notices(), ["link_refused to a chat"]);
    desk.pass(Millis::from_mins(10));
    assert_eq!(start(&desk, 1001, "0123456789ABCDEF"), Disposition::LinkRefused);
    assert_eq!(desk.notices().len(), 2);
}
