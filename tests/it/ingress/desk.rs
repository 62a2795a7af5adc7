//! A gateway's webhook over the native database: updates in, what is on record out.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use domain::auth::webhook::secret_hash;
use domain::ids::{DataKeyId, GatewayId, RequestId, UserId};
use domain::job::JobMessage;
use domain::keys::{Aad, DataKey, HashLabel, KeySubject, MasterSecrets};
use domain::ports::{Checkpoint, Clock, Sql};
use domain::sql::{Outcome, Row, Shard, Statement};
use domain::time::{Millis, Timestamp};
use domain::turn::protocol::Costs;
use futures::future::join_all;
use harness::block_on;
use harness::rng::Rng;
use harness::sqlite::TestSql;
use objects::ingress::{Delivery, Refused, Taken, Webhook};
use serde_json::{Value, json};
use store::channels::dedup::Disposition;

pub const GATEWAY: &str = "gateway_00bot";
pub const SECRET: &str = "synthetic-webhook-secret";

const SECRETS: &str =
    r#"{"current":1,"versions":{"1":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="},"hash_version":1}"#;

/// A clock that stands still unless it is told to move; whoever sleeps moves it.
#[derive(Clone)]
pub struct DeskClock(Rc<Cell<Timestamp>>);

impl Clock for DeskClock {
    fn now(&self) -> Timestamp {
        self.0.get()
    }
    async fn sleep(&self, duration: Millis) {
        self.0.set(self.0.get().plus(duration));
    }
}

/// Lets everyone else run before each batch, and perhaps someone meddle with the database.
#[derive(Clone)]
pub struct DeskSql {
    pub sql: TestSql,
    meddling: Rc<RefCell<Vec<Option<String>>>>,
}

impl Sql for DeskSql {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        let mut waited = false;
        std::future::poll_fn(|context| {
            if waited {
                return std::task::Poll::Ready(());
            }
            waited = true;
            context.waker().wake_by_ref();
            std::task::Poll::Pending
        })
        .await;
        let next = {
            let mut meddling = self.meddling.borrow_mut();
            if meddling.is_empty() { None } else { meddling.remove(0) }
        };
        if let Some(script) = next {
            self.sql.execute(&script);
        }
        self.sql.batch(shard, statements).await
    }
}

/// Counts what was reached.
#[derive(Clone, Default)]
pub struct Reached(Rc<RefCell<Vec<&'static str>>>);

impl Checkpoint for Reached {
    async fn reach(&self, name: &'static str) {
        self.0.borrow_mut().push(name);
    }
}

pub struct Desk {
    pub sql: DeskSql,
    pub clock: DeskClock,
    pub secrets: MasterSecrets,
    pub reached: Reached,
    /// 32 unless a test says otherwise.
    pub line_max: usize,
    entropy: Rng,
    costs: Rc<Cell<Costs>>,
}

impl Desk {
    /// Ann and Bob in families of their own, and a gateway for both. Ann's chat is 1001; Bob has none.
    pub fn new() -> Self {
        let desk = Self::without_chats();
        desk.bind("address_00ann", "user_00ann", 1001);
        desk
    }

    pub fn without_chats() -> Self {
        let sql = DeskSql {
            sql: TestSql::new(),
            meddling: Rc::default(),
        };
        let desk = Self {
            sql,
            clock: DeskClock(Rc::new(Cell::new(Timestamp::from_millis(1_783_728_000_000)))),
            secrets: MasterSecrets::from_json(SECRETS).unwrap(),
            reached: Reached::default(),
            line_max: 32,
            entropy: Rng::new(7),
            costs: Rc::default(),
        };
        let hash = secret_hash(&desk.secrets, &gateway(), SECRET);
        desk.execute(&format!(
            "INSERT INTO gateways (gateway_id, scopes, channels, production, assertion_jwk, webhook_secret_hash, status,
               authorization_revision, created_at, updated_at)
             VALUES ('{GATEWAY}', '[]', '[\"telegram\"]', 0, '', '{hash}', 'active', 1, 0, 0);"
        ));
        for name in ["ann", "bob"] {
            desk.settle(name);
        }
        desk
    }

    fn settle(&self, name: &str) {
        let user = UserId::parse(&format!("user_00{name}")).unwrap();
        let id = DataKeyId::parse(&format!("key_00{name}")).unwrap();
        let key = DataKey::generate(id, KeySubject::User(user.clone()), &self.entropy);
        let wrapped = self.secrets.wrap(&key, &self.entropy).unwrap();
        self.execute(&format!(
            "INSERT INTO families VALUES ('family_00{name}', 'active', 0, 0);
             INSERT INTO users (user_id, family_id, role, status, authorization_revision, created_at, updated_at)
             VALUES ('{user}', 'family_00{name}', 'guardian', 'active', 1, 0, 0);
             INSERT INTO gateway_families VALUES ('{GATEWAY}', 'family_00{name}');"
        ));
        let inserted = store::keys::insert_key(&key, &wrapped, self.clock.now());
        self.sql.sql.run(user.shard(), &[inserted]);
    }

    /// Binds a chat as an operator would.
    pub fn bind(&self, address: &str, user: &str, chat: i64) {
        let key = self.key_of(user);
        let place = Aad {
            table: "channel_addresses",
            row: address,
            column: "external_sealed",
        };
        let sealed = key.seal(&place, chat.to_string().as_bytes(), &self.entropy).unwrap();
        let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
        self.execute(&format!(
            "INSERT INTO channel_addresses VALUES ('{address}', '{GATEWAY}', 'telegram', '{user}', '{}', '{}', x'{hex}',
               'active', 0, 0);",
            self.external_hash(chat),
            key.id()
        ));
    }

    pub fn key_of(&self, user: &str) -> DataKey {
        let user = UserId::parse(user).unwrap();
        let rows = self.sql.sql.run(user.shard(), &[store::keys::live_key_of_user(&user)]);
        let Outcome::Committed(rows) = rows else {
            panic!("{rows:?}")
        };
        let row = store::keys::KeyRow::read(rows[0].first().unwrap()).unwrap();
        row.unwrap_for(&KeySubject::User(user), &self.secrets).unwrap()
    }

    pub fn external_hash(&self, chat: i64) -> String {
        let chat = chat.to_string();
        let parts = [GATEWAY.as_bytes(), b"telegram", chat.as_bytes()];
        self.secrets.keyed_hash_of(HashLabel::ExternalAddress, &parts)
    }

    pub fn execute(&self, script: &str) {
        self.sql.sql.execute(script);
    }

    /// Runs `script` right before the batch of this number, counted from 0 from now on.
    pub fn meddle(&self, batch: usize, script: &str) {
        let mut meddling = self.sql.meddling.borrow_mut();
        *meddling = vec![None; batch];
        meddling.push(Some(script.to_owned()));
    }

    pub fn pass(&self, duration: Millis) {
        self.clock.0.set(self.clock.now().plus(duration));
    }

    /// How many trips the last delivery took.
    pub fn trips(&self) -> u32 {
        self.costs.get().trips
    }

    pub fn rows_written(&self) -> u64 {
        self.costs.get().rows_written
    }

    pub fn deliver(&self, body: &Value) -> Result<Taken, Refused> {
        self.deliver_as(GATEWAY, Some(SECRET), &body.to_string())
    }

    pub fn deliver_as(&self, gateway: &str, secret: Option<&str>, body: &str) -> Result<Taken, Refused> {
        self.costs.set(Costs::default());
        block_on(self.delivery(gateway.to_owned(), secret.map(str::to_owned), body.to_owned()))
    }

    /// Delivers all at once: each reads before any writes.
    pub fn deliver_at_once(&self, bodies: &[Value]) -> Vec<Result<Taken, Refused>> {
        let all = bodies
            .iter()
            .map(|body| self.delivery(GATEWAY.to_owned(), Some(SECRET.to_owned()), body.to_string()));
        block_on(join_all(all))
    }

    async fn delivery(&self, gateway: String, secret: Option<String>, body: String) -> Result<Taken, Refused> {
        let gateway = GatewayId::parse(&gateway).unwrap();
        let hash = secret.map(|secret| secret_hash(&self.secrets, &gateway, &secret));
        let now = self.clock.now();
        let webhook = Webhook {
            sql: &self.sql,
            clock: &self.clock,
            entropy: &self.entropy,
            checkpoint: &self.reached,
            secrets: &self.secrets,
            line_max: self.line_max,
        };
        let delivery = Delivery {
            gateway_id: &gateway,
            secret_hash: hash.as_deref(),
            body: &body,
            request_id: &RequestId::mint(now, &self.entropy),
            client_request_id: None,
            trace_id: "0123456789abcdef0123456789abcdef",
            source_address_hash: None,
            received_at: now,
        };
        webhook.receive(&delivery, Rc::clone(&self.costs)).await
    }

    /// Delivers a text and says what was done with it.
    pub fn say(&self, id: i64, chat: i64, text: &str) -> Disposition {
        let taken = self.deliver(&text_update(id, chat, text)).unwrap();
        taken.disposition.expect("not a repetition")
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.sql.sql.query(sql, &[])
    }

    /// The `v` of every row.
    pub fn texts(&self, sql: &str) -> Vec<String> {
        self.rows(sql)
            .iter()
            .map(|row| row.text("v").unwrap().to_owned())
            .collect()
    }

    pub fn number(&self, sql: &str) -> i64 {
        self.rows(sql)[0].integer("v").unwrap()
    }

    /// Every fixed text in the outbox, oldest first, as `template to address` or `template to chat`.
    pub fn notices(&self) -> Vec<String> {
        self.texts(
            "SELECT content_ref || ' to ' || ifnull(address_id, 'a chat') AS v FROM outbound_messages
             WHERE content_kind = 'template' ORDER BY lane_no, outbox_id",
        )
    }

    /// Every active address as `user chat`.
    pub fn bonds(&self) -> Vec<String> {
        let rows = self.rows(
            "SELECT user_id, address_id, external_sealed FROM channel_addresses WHERE status = 'active' ORDER BY user_id",
        );
        let bond = |row: &Row| {
            let user = row.text("user_id").unwrap();
            let place = Aad {
                table: "channel_addresses",
                row: row.text("address_id").unwrap(),
                column: "external_sealed",
            };
            let chat = self.key_of(user).open(&place, row.blob("external_sealed").unwrap());
            format!("{user} {}", String::from_utf8(chat.unwrap()).unwrap())
        };
        rows.iter().map(bond).collect()
    }

    pub fn checkpoints(&self) -> Vec<&'static str> {
        self.reached.0.borrow().clone()
    }
}

pub fn gateway() -> GatewayId {
    GatewayId::parse(GATEWAY).unwrap()
}

/// A private message of the person of this chat, with these members besides.
pub fn message_update(id: i64, chat: i64, members: &Value) -> Value {
    let mut message = json!({"message_id": id, "date": 1_783_728_000, "chat": {"id": chat, "type": "private"},
        "from": {"id": chat, "is_bot": false, "first_name": "Synthetic", "language_code": "de"}});
    for (name, value) in members.as_object().unwrap() {
        message[name] = value.clone();
    }
    json!({"update_id": id, "message": message})
}

pub fn text_update(id: i64, chat: i64, text: &str) -> Value {
    message_update(id, chat, &json!({ "text": text }))
}

/// What is to be done next, as it stands on a queue.
pub fn order(taken: &Taken) -> Option<String> {
    taken.order.as_ref().map(JobMessage::encode)
}
