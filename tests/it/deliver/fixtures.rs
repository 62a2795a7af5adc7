//! Who there is at the office, and what waits in its outbox.

use domain::ids::{GatewayId, OutboxId, TurnId};
use domain::keys::{Aad, HashLabel};
use domain::outbox::template::Template;
use domain::ports::Clock;
use domain::sql::{Outcome, Shard, Statement, Value};
use domain::telegram::split::parts;
use domain::turn::message_row;
use store::outbox::enqueue::{Notice, NoticeTo, Part, Reply as Enqueued, notice, reply_of_turn};

use super::office::{BOT, CHAT, Office, TOKEN};

impl Office {
    pub(super) fn settle_in(&self) {
        let wrapped = self.ports.secrets.wrap(&self.key, self.executor.rng()).unwrap();
        self.sql.execute(&format!(
            "INSERT INTO families VALUES ('family_00oak', 'active', 0, 0);
             INSERT INTO users (user_id, family_id, role, status, authorization_revision, created_at, updated_at)
             VALUES ('user_00ann', 'family_00oak', 'guardian', 'active', 1, 0, 0);
             INSERT INTO gateways (gateway_id, scopes, channels, production, assertion_jwk, status,
               authorization_revision, created_at, updated_at)
             VALUES ('{BOT}', '[]', '[\"telegram\"]', 0, '{{}}', 'active', 1, 0, 0);
             INSERT INTO gateway_families VALUES ('{BOT}', 'family_00oak');
             INSERT INTO conversations VALUES ('conv_00ann', 'user_00ann', 'family_00oak', 'telegram', '{BOT}', 1,
               'user_private', 'user_00ann', 'user_00ann', 1, 'session_00ann', 0, 0);"
        ));
        let now = self.ports.clock.now();
        self.run(vec![store::keys::insert_key(&self.key, &wrapped, now)]);
        self.give_token(TOKEN);
        self.address("address_00ann", CHAT);
    }

    /// As an operator does who gives the bot a token: its rows go again.
    pub fn give_token(&self, token: &str) {
        let place = Aad {
            table: "gateways",
            row: BOT,
            column: "channel_token_sealed",
        };
        let secrets = &self.ports.secrets;
        let sealed = secrets.seal_own(&place, token.as_bytes(), self.executor.rng()).unwrap();
        self.write(
            "UPDATE gateways SET channel_token_master_version = ?1, channel_token_sealed = ?2, status = 'active',
               updated_at = ?3 WHERE gateway_id = ?4",
            vec![
                sealed.master_version.into(),
                sealed.sealed.into(),
                self.ports.clock.now().into(),
                BOT.into(),
            ],
        );
    }

    pub fn address(&self, id: &str, chat: &str) {
        let place = Aad {
            table: "channel_addresses",
            row: id,
            column: "external_sealed",
        };
        let sealed = self.key.seal(&place, chat.as_bytes(), self.executor.rng()).unwrap();
        self.write(
            "INSERT INTO channel_addresses (address_id, gateway_id, channel, user_id, external_hash, external_key_id,
               external_sealed, status, created_at, updated_at)
             VALUES (?1, ?2, 'telegram', ?3, ?4, ?5, ?6, 'active', 0, 0)",
            vec![
                id.into(),
                BOT.into(),
                (&self.user).into(),
                self.hash_of(chat).into(),
                self.key.id().into(),
                sealed.into(),
            ],
        );
    }

    fn hash_of(&self, chat: &str) -> String {
        let parts = [BOT.as_bytes(), b"telegram", chat.as_bytes()];
        self.ports.secrets.keyed_hash_of(HashLabel::ExternalAddress, &parts)
    }

    pub fn run(&self, batch: Vec<Statement>) {
        let outcome = self.sql.run(Shard::User(0), &batch);
        assert!(matches!(outcome, Outcome::Committed(_)), "{outcome:?}");
    }

    pub fn write(&self, sql: &'static str, binds: Vec<Value>) {
        let name = "fixture";
        self.run(vec![Statement { name, sql, binds }]);
    }

    /// A turn of Ann's with this answer, which now waits in the outbox.
    pub fn reply(&self, text: &str) -> TurnId {
        let no = self.turns.get() + 1;
        self.turns.set(no);
        let turn = TurnId::parse(&format!("turn_00no{no}")).unwrap();
        let now = self.ports.clock.now();
        self.write(
            "INSERT INTO turns (turn_id, origin, request_id, trace_id, idempotency_key_hash, request_hash, family_id,
               user_id, conversation_id, channel, gateway_id, address_id, visibility_scope, subject_user_id,
               created_by_user_id, authorization_revision, session_id, session_authority, arrival_no,
               history_watermark, context_revision_read, status, generation_status, writeback_status,
               delivery_status, accepted_at, deadline_at, updated_at)
             VALUES (?1, 'channel', 'req_00a', '0', ?1, '', 'family_00oak', 'user_00ann', 'conv_00ann', 'telegram',
               'gateway_00bot', 'address_00ann', 'user_private', 'user_00ann', 'user_00ann', 1, 'session_00ann',
               'engine_gap', ?2, 0, 0, 'delivery_pending', 'completed', 'completed', 'pending', ?3, ?3, ?3)",
            vec![(&turn).into(), no.into(), now.into()],
        );
        self.write(
            "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor)
             VALUES (?1, 1, 'outbox_enqueued', ?2, 'user_turns')",
            vec![(&turn).into(), now.into()],
        );
        let row = message_row(&turn, false);
        let place = Aad {
            table: "messages",
            row: &row,
            column: "content_sealed",
        };
        let sealed = self.key.seal(&place, text.as_bytes(), self.executor.rng()).unwrap();
        self.write(
            "INSERT INTO messages VALUES ('conv_00ann', ?1, 'assistant', ?2, 'user_00ann', 'family_00oak',
               'session_00ann', 'user_private', 'user_00ann', 'user_00ann', 1, 'key_00ann', ?3, 0)",
            vec![no.into(), (&turn).into(), sealed.into()],
        );
        let ranges = parts(text).into_iter().enumerate();
        let parts: Vec<Part> = ranges
            .map(|(at, range)| Part {
                outbox_id: OutboxId::parse(&format!("out_00no{no}-{at}")).unwrap(),
                content_hash: self.key.content_hash(&text.as_bytes()[range.clone()]),
                from: range.start,
                to: range.end,
            })
            .collect();
        self.run(reply_of_turn(&Enqueued {
            turn_id: &turn,
            parts: &parts,
            now,
        }));
        turn
    }

    /// An answer to each of so many chats.
    pub fn reply_to_chats(&self, count: u32) {
        for chat in 1..=count {
            let address = format!("address_00chat{chat}");
            self.address(&address, &chat.to_string());
            let turn = self.reply("Hello.");
            let lane = format!("telegram/{BOT}/{chat}");
            self.write(
                "INSERT INTO send_lanes VALUES (?1, 'gateway_00bot', 1, 0, 0)",
                vec![lane.as_str().into()],
            );
            self.write(
                "UPDATE outbound_messages SET lane = ?1, lane_no = 1, address_id = ?2 WHERE turn_id = ?3",
                vec![lane.into(), address.into(), (&turn).into()],
            );
        }
    }

    /// Another bot of the same family's, with an address of Ann's of its own.
    pub fn second_bot(&self) {
        self.sql.execute(
            "INSERT INTO gateways SELECT 'gateway_00two', scopes, channels, profile, production, assertion_jwk,
               webhook_secret_hash, status, authorization_revision, tokens_valid_from, created_at, updated_at,
               channel_token_master_version, channel_token_sealed FROM gateways;
             INSERT INTO gateway_families VALUES ('gateway_00two', 'family_00oak');
             INSERT INTO send_lanes VALUES ('telegram/gateway_00two/22', 'gateway_00two', 100, 0, 0);",
        );
        let place = Aad {
            table: "gateways",
            row: "gateway_00two",
            column: "channel_token_sealed",
        };
        let sealed = self
            .ports
            .secrets
            .seal_own(&place, b"22:other", self.executor.rng())
            .unwrap();
        self.write(
            "UPDATE gateways SET channel_token_sealed = ?1 WHERE gateway_id = 'gateway_00two'",
            vec![sealed.sealed.into()],
        );
        self.address("address_00two", "22");
        self.sql
            .execute("UPDATE channel_addresses SET gateway_id = 'gateway_00two' WHERE address_id = 'address_00two'");
    }

    pub fn reply_by_second_bot(&self, text: &str) {
        let turn = self.reply(text);
        self.write(
            "UPDATE outbound_messages SET gateway_id = 'gateway_00two', address_id = 'address_00two',
               lane = 'telegram/gateway_00two/22' WHERE turn_id = ?1",
            vec![(&turn).into()],
        );
    }

    /// A fixed text to a chat of which nobody knows whose it is.
    pub fn notice_to_stranger(&self, chat: &str) {
        let outbox_id = OutboxId::parse("out_00stranger").unwrap();
        let place = Aad {
            table: "outbound_messages",
            row: outbox_id.as_str(),
            column: "destination_sealed",
        };
        let secrets = &self.ports.secrets;
        let sealed = secrets.seal_own(&place, chat.as_bytes(), self.executor.rng()).unwrap();
        self.run(notice(&Notice {
            outbox_id: &outbox_id,
            gateway_id: &GatewayId::parse(BOT).unwrap(),
            channel: domain::outbox::SendChannel::Telegram,
            template: Template::LinkFirst,
            idempotency_key: "unlinked",
            to: NoticeTo::Sealed {
                sealed: &sealed,
                external_hash: &self.hash_of(chat),
            },
            trace_id: "0",
            now: self.ports.clock.now(),
        }));
    }
}
