//! The directory on a real database: provisioning, look-ups, revocation.

mod directory;
mod provisioning;
mod revocation;

use domain::auth::provisioning::{AddressPut, FamilyPut, GatewayPut, UpstreamPut, UserPut};
use domain::auth::{AuthMethod, Principal, Subject};
use domain::ids::{AddressId, DataKeyId, FamilyId, GatewayId, TokenId, UserId};
use domain::keys::{DataKey, KeySubject, MasterSecrets};
use domain::ports::{Clock, Entropy, Sql};
use domain::sql::{Outcome, Rows, Shard, Statement};
use domain::time::{Millis, Timestamp};
use harness::block_on;
use harness::sqlite::TestSql;
use serde_json::{Value, json};
use store::channels::channel_token;
use store::idempotency::{KeyUse, Settled, StoredResult, settle};
use store::provisioning::{Address, Command, Family, Gateway, Identity, NewKey, Upstream, User};
use store::token;

/// The public key of the first example in RFC 7517, appendix A.1.
const JWK: &str = r#"{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}"#;

struct NoWait;
impl Clock for NoWait {
    fn now(&self) -> Timestamp {
        now()
    }
    async fn sleep(&self, _: Millis) {}
}

struct Sevens;
impl Entropy for Sevens {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(1_783_728_000_000)
}

fn principal(subject: Subject, family: Option<&str>, revision: i64) -> Principal {
    Principal {
        family: family.map(|family| FamilyId::parse(family).unwrap()),
        roles: vec![],
        scopes: vec![],
        jti: TokenId::parse("jwt_00test").unwrap(),
        auth_method: AuthMethod::UserJwt,
        gateway: None,
        revision,
        issued_at: now(),
        expires_at: now().plus(Millis::from_mins(10)),
        idp: None,
        idp_sub: None,
        subject,
    }
}

fn user(id: &str, family: &str, revision: i64) -> Principal {
    principal(Subject::User(UserId::parse(id).unwrap()), Some(family), revision)
}

fn service(id: &str, revision: i64) -> Principal {
    principal(Subject::Gateway(GatewayId::parse(id).unwrap()), None, revision)
}

/// A database and an operator who writes the directory. Every command has a key of its own, unless told otherwise.
struct World {
    sql: TestSql,
    master: MasterSecrets,
    operator: Principal,
    commands: std::cell::Cell<u32>,
}

impl World {
    fn new() -> Self {
        let secret =
            json!({"current": 1, "versions": {"1": "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="}, "hash_version": 1});
        Self {
            sql: TestSql::new(),
            master: MasterSecrets::from_json(&secret.to_string()).unwrap(),
            operator: principal(Subject::Operator("on-call".to_owned()), None, 0),
            commands: std::cell::Cell::new(0),
        }
    }

    /// The demo: one family and user, an upstream that knows them, a gateway that may speak for them.
    fn demo() -> Self {
        let world = Self::new();
        world.put_family("family_00demo", "active");
        world.put_user("user_00demo", "family_00demo", "guardian", "active");
        world.put_upstream("demo", "https://login.example");
        done(&world.put_identity("user_00demo", "demo", "person-1"));
        done(&world.put_gateway("gateway_00demo", &["family_00demo"], "active"));
        done(&world.put_address("address_00demo", "gateway_00demo", "user_00demo", "1001", "active"));
        world
    }

    fn next_key(&self) -> String {
        self.commands.set(self.commands.get() + 1);
        format!("key-{}", self.commands.get())
    }

    fn settle(&self, key_hash: &str, request_hash: &str, build: impl Fn(&Command<'_>) -> Vec<Statement>) -> Settled {
        let key = KeyUse {
            caller: "operator:on-call",
            route: "PUT /test",
            key_hash,
            request_hash,
            now: now(),
        };
        let command = Command {
            principal: &self.operator,
            key: key.clone(),
        };
        let batch = build(&command);
        block_on(settle(&self.sql, &NoWait, Shard::Directory, &key, batch))
    }

    fn command(&self, build: impl Fn(&Command<'_>) -> Vec<Statement>) -> Settled {
        self.settle(&self.next_key(), "request", build)
    }

    fn put_family(&self, id: &str, status: &str) -> Settled {
        let family_id = FamilyId::parse(id).unwrap();
        let put = FamilyPut::parse(&json!({ "status": status }).to_string()).unwrap();
        let key_id = DataKeyId::parse(&format!("key_00f{}", self.commands.get())).unwrap();
        let key = DataKey::generate(key_id, KeySubject::Family(family_id.clone()), &Sevens);
        let wrapped = self.master.wrap(&key, &Sevens).unwrap();
        self.command(|command| {
            Family {
                family_id: &family_id,
                put: &put,
                new_key: NewKey {
                    key: &key,
                    wrapped: &wrapped,
                },
            }
            .batch(command)
        })
    }

    fn put_user(&self, id: &str, family: &str, role: &str, status: &str) -> Settled {
        self.put_user_with(
            &self.next_key(),
            "request",
            id,
            &json!({"family_id": family, "role": role, "status": status}),
        )
    }

    fn put_user_with(&self, key_hash: &str, request_hash: &str, id: &str, body: &Value) -> Settled {
        let user_id = UserId::parse(id).unwrap();
        let put = UserPut::parse(&body.to_string()).unwrap();
        let key_id = DataKeyId::parse(&format!("key_00u{}", self.commands.get())).unwrap();
        let key = DataKey::generate(key_id, KeySubject::User(user_id.clone()), &Sevens);
        let wrapped = self.master.wrap(&key, &Sevens).unwrap();
        self.settle(key_hash, request_hash, |command| {
            User {
                user_id: &user_id,
                put: &put,
                new_key: NewKey {
                    key: &key,
                    wrapped: &wrapped,
                },
            }
            .batch(command)
        })
    }

    fn put_identity(&self, id: &str, idp: &str, subject_hash: &str) -> Settled {
        let user_id = UserId::parse(id).unwrap();
        self.command(|command| {
            Identity {
                user_id: &user_id,
                idp,
                subject_hash,
            }
            .batch(command)
        })
    }

    fn put_upstream(&self, idp: &str, issuer: &str) -> Settled {
        let jwks = json!({"keys": [serde_json::from_str::<Value>(JWK).unwrap()]});
        let body =
            json!({"issuer": issuer, "audience": "hermod", "algorithms": ["ES256"], "jwks": jwks, "status": "active"});
        let put = UpstreamPut::parse(&body.to_string(), false).unwrap();
        self.command(|command| Upstream { idp, put: &put }.batch(command))
    }

    fn put_gateway(&self, id: &str, families: &[&str], status: &str) -> Settled {
        self.put_gateway_with(
            id,
            &json!({"scopes": ["chat"], "channels": ["telegram"], "families": families,
            "production": false, "assertion_jwk": serde_json::from_str::<Value>(JWK).unwrap(), "status": status}),
        )
    }

    fn put_gateway_with(&self, id: &str, body: &Value) -> Settled {
        let gateway_id = GatewayId::parse(id).unwrap();
        let put = GatewayPut::parse(&body.to_string()).unwrap();
        let secret = put
            .webhook_secret
            .as_ref()
            .map(|secret| format!("hash-of-{}", secret.len()));
        let place = channel_token::place(&gateway_id);
        let token = put.bot_token.as_ref();
        let token = token.map(|token| self.master.seal_own(&place, token.as_bytes(), &Sevens).unwrap());
        self.command(|command| {
            Gateway {
                gateway_id: &gateway_id,
                put: &put,
                webhook_secret_hash: secret.clone(),
                channel_token: token.as_ref(),
            }
            .batch(command)
        })
    }

    fn put_address(&self, id: &str, gateway: &str, user: &str, external: &str, status: &str) -> Settled {
        let address_id = AddressId::parse(id).unwrap();
        let body = json!({"gateway_id": gateway, "channel": "telegram", "user_id": user, "external_id": external, "status": status});
        let put = AddressPut::parse(&body.to_string()).unwrap();
        let key = self.text("SELECT key_id AS v FROM data_keys WHERE subject_kind = 'user' LIMIT 1");
        let key = DataKeyId::parse(&key).unwrap();
        let hash = format!("hash-of-{external}");
        self.command(|command| {
            let address = Address {
                address_id: &address_id,
                put: &put,
                external_hash: &hash,
                key: &key,
                external_sealed: vec![1],
            };
            address.batch(command)
        })
    }

    /// The rows of a read batch.
    fn read(&self, statement: Statement) -> Rows {
        match block_on(self.sql.batch(Shard::Directory, vec![statement])) {
            Outcome::Committed(mut rows) => rows.remove(0),
            other => panic!("{other:?}"),
        }
    }

    fn fresh(&self, principal: &Principal) -> bool {
        let fresh = token::is_fresh(&self.read(token::freshness(principal))).unwrap();
        let guard = block_on(self.sql.batch(Shard::Directory, vec![token::token_current(principal)]));
        let refused = Outcome::Refused(domain::sql::Refusal::Guard(domain::guard::Guard::TokenCurrent));
        assert_eq!(fresh, guard != refused, "the guard and the select agree");
        fresh
    }

    fn text(&self, sql: &str) -> String {
        self.sql.query(sql, &[])[0].text("v").unwrap().to_owned()
    }

    fn number(&self, sql: &str) -> i64 {
        self.sql.query(sql, &[])[0].integer("v").unwrap()
    }
}

fn done(settled: &Settled) -> Value {
    let Settled::Done(StoredResult { status: 200, response }) = settled else {
        panic!("{settled:?}")
    };
    serde_json::from_str(response).unwrap()
}
