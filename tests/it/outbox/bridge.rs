//! A sender outside, and a desk whose words and addresses really open.

use domain::auth::{AuthMethod, Principal, Subject};
use domain::idempotency::IdempotencyKey;
use domain::ids::{DataKeyId, GatewayId, LeaseToken, OutboxId, TokenId, UserId};
use domain::keys::{Aad, DataKey, KeySubject, MasterSecrets};
use domain::outbox::outside::{AttemptBody, ClaimBody, OutcomeBody};
use domain::ports::Clock;
use domain::problem::{Code, Problem};
use domain::time::{Millis, Timestamp};
use domain::turn::message_row;
use harness::block_on;
use queues::outside::{Answer, Request, lease_token};
use serde_json::{Value, json};
use store::idempotency::KeyUse;

use super::desk::*;

pub struct At(pub Timestamp);

impl Clock for At {
    fn now(&self) -> Timestamp {
        self.0
    }
    async fn sleep(&self, _: Millis) {}
}

/// The desk with words and addresses that really open, and the sender of the bridge.
pub struct Bridge {
    pub desk: Desk,
    secrets: MasterSecrets,
    key: DataKey,
}

pub fn principal(gateway: &str) -> Principal {
    let gateway = GatewayId::parse(gateway).unwrap();
    Principal {
        subject: Subject::Gateway(gateway.clone()),
        family: None,
        roles: vec![],
        scopes: vec![],
        jti: TokenId::parse("jwt_00test").unwrap(),
        auth_method: AuthMethod::GatewayService,
        gateway: Some(gateway),
        revision: 1,
        issued_at: Timestamp::from_millis(START),
        expires_at: Timestamp::from_millis(START + 600_000),
        idp: None,
        idp_sub: None,
    }
}

pub type Told = Result<Answer, Problem>;

impl Bridge {
    pub fn new() -> Self {
        let desk = Desk::new();
        let secret =
            json!({"current": 1, "versions": {"1": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="}, "hash_version": 1});
        let secrets = MasterSecrets::from_json(&secret.to_string()).unwrap();
        let subject = KeySubject::User(UserId::parse("user_00ann").unwrap());
        let key = DataKey::generate(DataKeyId::parse("key_00ann").unwrap(), subject, &Even);
        let wrapped = secrets.wrap(&key, &Even).unwrap();
        let place = Aad {
            table: "channel_addresses",
            row: "address_00out",
            column: "external_sealed",
        };
        let chat = key.seal(&place, b"chat-1001", &Even).unwrap();
        desk.sql.query(
            "UPDATE data_keys SET wrapped = ?1 WHERE key_id = 'key_00ann'",
            &[wrapped.wrapped.into()],
        );
        desk.sql.query(
            "UPDATE channel_addresses SET external_sealed = ?1 WHERE address_id = 'address_00out'",
            &[chat.into()],
        );
        Self { desk, secrets, key }
    }

    /// An answer of two parts of ten bytes each.
    pub fn turn(&self, number: u32) {
        let turn = self.desk.turn("out", number, 2);
        let row = message_row(&turn, false);
        let place = Aad {
            table: "messages",
            row: &row,
            column: "content_sealed",
        };
        let sealed = self.key.seal(&place, b"first partsecond one", &Even).unwrap();
        self.desk.sql.query(
            "UPDATE messages SET content_sealed = ?1 WHERE turn_id = ?2",
            &[sealed.into(), (&turn).into()],
        );
        for (part, text) in [(1_u32, "first part"), (2, "second one")] {
            let hash = self.key.content_hash(text.as_bytes());
            let sql =
                "UPDATE outbound_messages SET content_hash = ?1 WHERE turn_id = ?2 AND part_no = CAST(?3 AS INTEGER)";
            self.desk.sql.query(sql, &[hash.into(), (&turn).into(), part.into()]);
        }
    }

    pub fn ask<T>(&self, gateway: &str, route: &str, key: &str, body: &str, run: impl AsyncFnOnce(&Ask<'_>) -> T) -> T {
        let (clock, principal) = (At(self.desk.now()), principal(gateway));
        let gateway_id = GatewayId::parse(gateway).unwrap();
        let request = Request {
            sql: &self.desk.sql,
            clock: &clock,
            entropy: &Even,
            secrets: &self.secrets,
            principal: &principal,
            gateway_id: &gateway_id,
            key: KeyUse {
                caller: &format!("gateway:{gateway}"),
                route,
                key_hash: key,
                request_hash: body,
                now: self.desk.now(),
            },
        };
        block_on(run(&request))
    }

    pub fn claim_as(&self, gateway: &str, key: &str, body: &str) -> Told {
        let parsed = ClaimBody::parse(body).unwrap();
        let token = self.token(gateway, key);
        self.ask(gateway, "POST claim", key, body, async |request| {
            request.claim(&parsed, &token).await
        })
    }

    pub fn token(&self, gateway: &str, key: &str) -> LeaseToken {
        let key = IdempotencyKey::parse(key).unwrap();
        lease_token(&format!("gateway:{gateway}"), &key, &self.secrets).unwrap()
    }

    pub fn claim(&self, key: &str) -> Value {
        let told = self.claim_as(BRIDGE, key, r#"{"channel":"telegram"}"#).ok().unwrap();
        assert_eq!(told.status, 200);
        serde_json::from_str(&told.body).unwrap()
    }

    pub fn attempt(&self, gateway: &str, row: &str, key: &str, token: &LeaseToken) -> Told {
        let body = AttemptBody {
            lease_token: token.clone(),
        };
        let row = OutboxId::parse(&format!("out_00{row}")).unwrap();
        self.ask(gateway, "POST attempt", key, row.as_str(), async |request| {
            request.attempt(&row, &body).await
        })
    }

    pub fn finish(&self, row: &str, key: &str, token: &LeaseToken, rest: &str) -> Told {
        let text = format!(r#"{{"lease_token":"{token}",{rest}}}"#);
        let body = if rest.contains("provider_message_id") {
            OutcomeBody::parse_confirm(&text)
        } else {
            OutcomeBody::parse_fail(&text)
        };
        let body = body.unwrap();
        let row = OutboxId::parse(&format!("out_00{row}")).unwrap();
        self.ask(BRIDGE, "POST finish", key, &text, async |request| {
            request.finish(&row, &body).await
        })
    }
}

pub type Ask<'a> = Request<'a, harness::sqlite::TestSql, At, Even>;

pub fn json_of(told: &Told) -> (u16, Value, bool) {
    let answer = told.as_ref().expect("an answer");
    (
        answer.status,
        serde_json::from_str(&answer.body).unwrap(),
        answer.replayed,
    )
}

pub fn code(told: &Told) -> Code {
    match told {
        Ok(answer) => serde_json::from_str::<Problem>(&answer.body).unwrap().code,
        Err(problem) => problem.code,
    }
}
