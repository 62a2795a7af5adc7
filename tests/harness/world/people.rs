//! The users of a world, their tokens and their keys.

use std::rc::Rc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::auth::{AuthMethod, Principal, Role, Scope, Subject};
use domain::ids::{DataKeyId, FamilyId, GatewayId, TokenId, UserId};
use domain::keys::{Aad, DataKey, KeySubject, MasterSecrets};
use domain::ports::Clock;
use domain::sql::{Shard, Statement, Value};
use domain::time::{Millis, Timestamp};

use crate::executor::{Executor, SimClock};
use crate::sqlite::Database;

/// Master secrets that protect nothing: the keys are wrapped under the first, and the second is the current one.
fn secrets(current: u32) -> MasterSecrets {
    let (one, two) = (STANDARD.encode([1; 32]), STANDARD.encode([2; 32]));
    let text = format!(r#"{{"current":{current},"versions":{{"1":"{one}","2":"{two}"}},"hash_version":1}}"#);
    MasterSecrets::from_json(&text).expect("master secrets")
}

/// One user.
pub struct Person {
    pub user: UserId,
    pub family: FamilyId,
    /// The token they had at the beginning.
    pub first_token: Principal,
    /// Kept by the world alone, so that it can read what it said even after the key was destroyed.
    pub key: DataKey,
}

/// All users: two to a family.
pub struct People {
    pub secrets: Rc<MasterSecrets>,
    /// Speaks for every family.
    pub gateway: GatewayId,
    pub first_gateway_token: Principal,
    pub all: Vec<Person>,
}

impl People {
    pub fn settle(executor: &Executor, database: &Database, count: usize) -> Self {
        let before = secrets(1);
        let now = SimClock::exact(executor).now();
        let gateway = GatewayId::parse("gateway_000").expect("an id");
        database.execute(&format!(
            "INSERT INTO gateways (gateway_id, scopes, channels, production, assertion_jwk, status,
               authorization_revision, created_at, updated_at)
             VALUES ('{gateway}', '[]', '[]', 0, '{{}}', 'active', 1, 0, 0)"
        ));
        let first_gateway_token = gateway_token(&gateway, 1, now);
        let all = (0..count)
            .map(|at| settle(executor, database, &before, now, at))
            .collect();
        Self {
            secrets: Rc::new(secrets(2)),
            gateway,
            first_gateway_token,
            all,
        }
    }

    /// The token that the gateway would be issued now.
    pub fn gateway_token(&self, database: &Database, now: Timestamp) -> Principal {
        let rows = database.query("SELECT authorization_revision AS v FROM gateways", &[]);
        gateway_token(
            &self.gateway,
            rows.first().expect("a gateway").integer("v").expect("a revision"),
            now,
        )
    }

    /// Whether a message of `user` may be taken with `token` at this moment, by what the directory says.
    pub fn is_current(&self, database: &Database, user: usize, token: &Principal) -> bool {
        let sql = "SELECT u.status AS user_status, f.status AS family_status, u.authorization_revision,
                     u.tokens_valid_from AS user_from, m.tokens_valid_from AS all_from,
                     g.authorization_revision AS gateway_revision
                   FROM users u JOIN families f ON f.family_id = u.family_id, meta m, gateways g WHERE u.user_id = ?1";
        let rows = database.query(sql, &[Value::from(&self.all[user].user)]);
        let row = rows.first().expect("a user");
        let issued = token.issued_at.as_millis();
        let since = |column: &str| row.integer(column).is_ok_and(|from| from <= issued);
        let own = match token.subject {
            Subject::User(_) => row.integer("authorization_revision") == Ok(token.revision) && since("user_from"),
            Subject::Gateway(_) => row.integer("gateway_revision") == Ok(token.revision),
            Subject::Operator(_) => false,
        };
        own && since("all_from") && row.text("user_status") == Ok("active") && row.text("family_status") == Ok("active")
    }

    /// What the ledger holds in a sealed message of `turn`.
    pub fn read(&self, user: usize, turn: &str, role: &str, sealed: &[u8]) -> Option<String> {
        let row = format!("{turn}/{role}");
        let place = Aad {
            table: "messages",
            row: &row,
            column: "content_sealed",
        };
        String::from_utf8(self.all.get(user)?.key.open(&place, sealed).ok()?).ok()
    }
}

fn settle(executor: &Executor, database: &Database, secrets: &MasterSecrets, now: Timestamp, at: usize) -> Person {
    let family = FamilyId::parse(&format!("family_00{}", at / 2)).expect("an id");
    let user = UserId::parse(&format!("user_00{at}")).expect("an id");
    let key_id = DataKeyId::parse(&format!("key_00{at}")).expect("an id");
    let key = DataKey::generate(key_id, KeySubject::User(user.clone()), executor.rng());
    let wrapped = secrets.wrap(&key, executor.rng()).expect("a wrapped key");
    let insert = |name, sql, binds| Statement { name, sql, binds };
    let batch = [
        insert(
            "family",
            "INSERT OR IGNORE INTO families VALUES (?1, 'active', ?2, ?2)",
            vec![(&family).into(), now.into()],
        ),
        insert(
            "user",
            "INSERT INTO users (user_id, family_id, role, status, authorization_revision, created_at, updated_at)
             VALUES (?1, ?2, 'guardian', 'active', 1, ?3, ?3)",
            vec![(&user).into(), (&family).into(), now.into()],
        ),
        store::keys::insert_key(&key, &wrapped, now),
    ];
    let outcome = database.run(Shard::Directory, &batch);
    assert!(matches!(outcome, domain::sql::Outcome::Committed(_)), "{outcome:?}");
    let first_token = token(&user, &family, 1, now);
    Person {
        user,
        family,
        first_token,
        key,
    }
}

fn token(user: &UserId, family: &FamilyId, revision: i64, now: Timestamp) -> Principal {
    let issued_at = Timestamp::from_millis(now.as_secs() * 1_000);
    Principal {
        subject: Subject::User(user.clone()),
        family: Some(family.clone()),
        roles: vec![Role::Guardian],
        scopes: vec![Scope::Chat, Scope::TurnsRead, Scope::TurnsAck],
        jti: TokenId::parse("jwt_00simulated").expect("an id"),
        auth_method: AuthMethod::UserJwt,
        gateway: None,
        revision,
        issued_at,
        expires_at: issued_at.plus(Millis::from_mins(15)),
        idp: None,
        idp_sub: None,
    }
}

fn gateway_token(gateway: &GatewayId, revision: i64, now: Timestamp) -> Principal {
    let issued_at = Timestamp::from_millis(now.as_secs() * 1_000);
    Principal {
        subject: Subject::Gateway(gateway.clone()),
        family: None,
        roles: vec![],
        scopes: vec![Scope::Chat],
        jti: TokenId::parse("jwt_00simulated").expect("an id"),
        auth_method: AuthMethod::GatewayService,
        gateway: Some(gateway.clone()),
        revision,
        issued_at,
        expires_at: issued_at.plus(Millis::from_mins(15)),
        idp: None,
        idp_sub: None,
    }
}

impl Person {
    /// The token that the user would be issued now.
    pub fn fresh_token(&self, database: &Database, now: Timestamp) -> Principal {
        let sql = "SELECT authorization_revision FROM users WHERE user_id = ?1";
        let rows = database.query(sql, &[Value::from(&self.user)]);
        let revision = rows
            .first()
            .expect("a user")
            .integer("authorization_revision")
            .expect("a revision");
        token(&self.user, &self.family, revision, now)
    }
}
