//! A small town to send in: one family, its people, a bot with two chats, and the turns whose answers go there.

use std::cell::Cell;

use domain::ids::{AddressId, GatewayId, LeaseToken, OutboxId, TurnId};
use domain::keys::{MasterVersion, OwnSealed};
use domain::outbox::SendChannel;
use domain::outbox::outcome::Outcome;
use domain::outbox::policy::{OUTSIDE, TELEGRAM};
use domain::outbox::settlement::{Settlement, settle};
use domain::outbox::template::Template;
use domain::ports::Entropy;
use domain::sql::{Outcome as Batch, Row, Rows, Shard, Statement, Value};
use domain::time::{Millis, Timestamp};
use domain::turn::event::Actor;
use harness::sqlite::TestSql;
use store::outbox::claim::{Claim, Claimant, claim};
use store::outbox::claimed::{Claimed, ClaimedRow, read_claimed};
use store::outbox::enqueue::{Notice, NoticeTo, Part, Reply, notice, reply_of_turn};
use store::outbox::settle::{Moved, Outcomes, Settled, Wave, read_settled, settle_wave};
use store::outbox::sweep::{SWEEP_LIMIT, end, over, read_over};

pub const START: i64 = 1_783_728_000_000;
pub const BOT: &str = "gateway_00bot";
/// A gateway that an outside sender sends for.
pub const BRIDGE: &str = "gateway_00bridge";

/// No jitter.
pub struct Even;

impl Entropy for Even {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
        if let [.., third, second, first] = bytes {
            (*third, *second, *first) = (3, 13, 64);
        }
    }
}

pub struct Desk {
    pub sql: TestSql,
    /// Milliseconds since the start.
    pub at: Cell<i64>,
    tokens: Cell<u32>,
}

const TOWN: &str = "
INSERT INTO families VALUES ('family_00a', 'active', 0, 0);
INSERT INTO users (user_id, family_id, role, status, authorization_revision, created_at, updated_at) VALUES
  ('user_00ann', 'family_00a', 'guardian', 'active', 1, 0, 0), ('user_00bob', 'family_00a', 'guardian', 'active', 1, 0, 0);
INSERT INTO user_heads (user_id) VALUES ('user_00ann'), ('user_00bob');
INSERT INTO data_keys (key_id, subject_kind, subject_id, master_version, wrapped, created_at) VALUES
  ('key_00ann', 'user', 'user_00ann', 1, x'aa', 0), ('key_00bob', 'user', 'user_00bob', 1, x'bb', 0);
INSERT INTO gateways (gateway_id, scopes, channels, production, assertion_jwk, status, authorization_revision,
  created_at, updated_at, channel_token_master_version, channel_token_sealed) VALUES
  ('gateway_00bot', '[]', '[\"telegram\"]', 0, '{}', 'active', 1, 0, 7, 1, x'0b07'),
  ('gateway_00bridge', '[]', '[\"telegram\"]', 0, '{}', 'active', 1, 0, 7, NULL, NULL);
INSERT INTO gateway_families VALUES ('gateway_00bot', 'family_00a'), ('gateway_00bridge', 'family_00a');
INSERT INTO channel_addresses VALUES
  ('address_00ann', 'gateway_00bot', 'telegram', 'user_00ann', 'hash-ann', 'key_00ann', x'a1', 'active', 0, 0),
  ('address_00bob', 'gateway_00bot', 'telegram', 'user_00bob', 'hash-bob', 'key_00bob', x'b1', 'active', 0, 0),
  ('address_00out', 'gateway_00bridge', 'telegram', 'user_00ann', 'hash-ann', 'key_00ann', x'a1', 'active', 0, 0);
";

impl Desk {
    pub fn new() -> Self {
        let sql = TestSql::new();
        sql.execute(TOWN);
        Self {
            sql,
            at: Cell::new(0),
            tokens: Cell::new(0),
        }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(START + self.at.get())
    }

    pub fn wait(&self, duration: Millis) {
        self.at.set(self.at.get() + duration.get());
    }

    pub fn run(&self, batch: &[Statement]) -> Vec<Rows> {
        match self.sql.run(Shard::User(0), batch) {
            Batch::Committed(rows) => rows,
            other => panic!("{other:?}"),
        }
    }

    /// A turn of `who` ("ann", "bob" or, through the bridge, "out") that waits for its answer of `parts` parts.
    pub fn turn(&self, who: &str, number: u32, parts: usize) -> TurnId {
        let user = if who == "out" { "ann" } else { who };
        let gateway = if who == "out" { BRIDGE } else { BOT };
        let turn = TurnId::parse(&format!("turn_00{who}{number}")).unwrap();
        let now = self.now().as_millis();
        self.sql.execute(&format!(
            "INSERT OR IGNORE INTO conversations VALUES ('conv_00{who}', 'user_00{user}', 'family_00a', 'telegram',
               '{gateway}', 1, 'user_private', 'user_00{user}', 'user_00{user}', 1, 'session_00{who}', {now}, {now});
             INSERT INTO turns (turn_id, origin, request_id, trace_id, idempotency_key_hash, request_hash, family_id,
               user_id, conversation_id, channel, gateway_id, address_id, visibility_scope, subject_user_id,
               created_by_user_id, authorization_revision, session_id, session_authority, arrival_no,
               history_watermark, context_revision_read, status, generation_status, writeback_status, delivery_status,
               accepted_at, deadline_at, updated_at)
             VALUES ('{turn}', 'channel', 'req_00{who}{number}', 'trace', 'key-{who}{number}', '', 'family_00a',
               'user_00{user}', 'conv_00{who}', 'telegram', '{gateway}', 'address_00{who}', 'user_private',
               'user_00{user}', 'user_00{user}', 1, 'session_00{who}', 'engine_gap', {number}, 0, 0,
               'delivery_pending', 'completed', 'completed', 'pending', {now}, {now}, {now});
             INSERT INTO turn_events VALUES ('{turn}', 1, 'outbox_enqueued', {now}, 'user_turns', NULL, '{{}}');
             INSERT INTO messages VALUES ('conv_00{who}', {number}, 'assistant', '{turn}', 'user_00{user}',
               'family_00a', 'session_00{who}', 'user_private', 'user_00{user}', 'user_00{user}', 1, 'key_00{user}',
               x'c0ffee', {now});"
        ));
        let parts: Vec<Part> = (0..parts)
            .map(|at| Part {
                outbox_id: row(&format!("{who}{number}p{}", at + 1)),
                from: at * 10,
                to: at * 10 + 10,
                content_hash: format!("hash-of-{at}"),
            })
            .collect();
        self.run(&reply_of_turn(&Reply {
            turn_id: &turn,
            parts: &parts,
            now: self.now(),
        }));
        turn
    }

    /// One more person of the family, "p0", "p1", …, with a chat of their own.
    pub fn person(&self, number: usize) {
        self.sql.execute(&format!(
            "INSERT INTO users (user_id, family_id, role, status, authorization_revision, created_at, updated_at)
               VALUES ('user_00p{number}', 'family_00a', 'guardian', 'active', 1, 0, 0);
             INSERT INTO channel_addresses VALUES ('address_00p{number}', 'gateway_00bot', 'telegram',
               'user_00p{number}', 'hash-p{number}', 'key_00ann', x'a1', 'active', 0, 0);"
        ));
    }

    /// What the sweep does to rows that nobody claims.
    pub fn end_what_is_over(&self) -> usize {
        let over = read_over(&self.run(&over(self.now(), SWEEP_LIMIT))).unwrap();
        self.run(&end(&over, Actor::Sweep, self.now()));
        over.len()
    }

    /// Why a row did not go out.
    pub fn error(&self, row: &str) -> String {
        self.list(&format!(
            "SELECT last_error_class || ':' || last_error_code AS v FROM outbound_messages
             WHERE outbox_id = 'out_00{row}'"
        ))
    }

    pub fn token(&self) -> LeaseToken {
        self.tokens.set(self.tokens.get() + 1);
        LeaseToken::parse(&format!("lease_00t{}", self.tokens.get())).unwrap()
    }

    pub fn claim_batch(&self, token: &LeaseToken) -> Vec<Statement> {
        self.claim_of(BOT, Claimant::Hermod, 1, token)
    }

    pub fn claim_of(&self, gateway: &str, claimant: Claimant, epoch: i64, token: &LeaseToken) -> Vec<Statement> {
        claim(&Claim {
            gateway_id: &GatewayId::parse(gateway).unwrap(),
            channel: SendChannel::Telegram,
            claimant,
            token,
            owner: "test",
            epoch,
            limit: 6,
            policy: if claimant == Claimant::Hermod {
                &TELEGRAM
            } else {
                &OUTSIDE
            },
            now: self.now(),
        })
    }

    /// Claims a wave of the bot.
    pub fn claim(&self) -> (LeaseToken, Claimed) {
        let token = self.token();
        let claimed = self.read(&self.claim_batch(&token));
        (token, claimed)
    }

    pub fn read(&self, batch: &[Statement]) -> Claimed {
        read_claimed(&self.run(batch), self.now()).unwrap()
    }

    /// The ids that a claim of the bot takes.
    pub fn takes(&self) -> Vec<String> {
        ids(&self.claim().1)
    }

    pub fn settle(&self, token: &LeaseToken, row: &ClaimedRow, outcome: &Outcome) -> Outcomes {
        self.settle_all(token, &[(row, outcome, None)])
    }

    pub fn settle_all(&self, token: &LeaseToken, all: &[(&ClaimedRow, &Outcome, Option<&Moved>)]) -> Outcomes {
        read_settled(&self.run(&self.settle_batch(token, all))).unwrap()
    }

    pub fn settle_batch(&self, token: &LeaseToken, all: &[(&ClaimedRow, &Outcome, Option<&Moved>)]) -> Vec<Statement> {
        let settlements: Vec<Settlement> = all
            .iter()
            .map(|(row, outcome, _)| settle(&row.tried, outcome, &TELEGRAM, self.now(), &Even))
            .collect();
        let attempts: Vec<Settled<'_>> = all
            .iter()
            .zip(&settlements)
            .map(|((row, outcome, moved), settlement)| Settled {
                outbox_id: &row.outbox_id,
                turn_id: row.turn_id.as_ref(),
                outcome,
                settlement,
                http_status: Some(200),
                moved: *moved,
            })
            .collect();
        settle_wave(&Wave {
            gateway_id: &GatewayId::parse(BOT).unwrap(),
            gateway_seen: Timestamp::from_millis(7),
            token,
            attempts: &attempts,
            now: self.now(),
        })
    }

    /// A fixed text to a chat that belongs to nobody, once for its key.
    pub fn notice_to_chat(&self, key: &str) {
        let sealed = OwnSealed {
            master_version: MasterVersion::new(1),
            sealed: vec![0xcc],
        };
        self.run(&notice(&Notice {
            outbox_id: &OutboxId::mint(self.now(), &Even),
            gateway_id: &GatewayId::parse(BOT).unwrap(),
            channel: SendChannel::Telegram,
            template: Template::LinkFirst,
            idempotency_key: key,
            to: NoticeTo::Sealed {
                sealed: &sealed,
                external_hash: "hash-stranger",
            },
            trace_id: "trace",
            now: self.now(),
        }));
    }

    /// All that stands in the tables that sending touches.
    pub fn everything(&self) -> Vec<Vec<Row>> {
        let tables = [
            "outbound_messages",
            "outbound_attempts",
            "send_lanes",
            "send_pacing",
            "turns",
            "turn_events",
            "gateways",
            "channel_addresses",
        ];
        tables.map(|table| self.rows(&format!("SELECT * FROM {table}"))).into()
    }

    pub fn rows(&self, sql: &str) -> Vec<Row> {
        self.sql.query(sql, &[])
    }

    /// The values of the only column, joined by spaces.
    pub fn list(&self, sql: &str) -> String {
        let text = |row: &Row| match row.value("v").unwrap() {
            domain::sql::Value::Null => "-".to_owned(),
            domain::sql::Value::Integer(number) => number.get().to_string(),
            domain::sql::Value::Text(text) => text.clone(),
            domain::sql::Value::Blob(bytes) => format!("{bytes:02x?}"),
        };
        self.rows(sql).iter().map(text).collect::<Vec<_>>().join(" ")
    }

    /// Every outbox row, in order, and how it stands.
    pub fn stand(&self) -> String {
        self.list("SELECT substr(outbox_id, 7) || ':' || status AS v FROM outbound_messages ORDER BY outbox_id")
    }

    pub fn attempts(&self, row: &str) -> String {
        self.list(&format!(
            "SELECT attempt_no || ':' || ifnull(outcome, 'open') || ifnull(':' || error_code, '') AS v
             FROM outbound_attempts WHERE outbox_id = 'out_00{row}' ORDER BY attempt_no"
        ))
    }

    pub fn events(&self, turn: &TurnId) -> String {
        self.list(&format!(
            "SELECT event_type AS v FROM turn_events WHERE turn_id = '{turn}' AND sequence_no > 1 ORDER BY sequence_no"
        ))
    }

    pub fn turn_stands(&self, turn: &TurnId) -> String {
        self.list(&format!(
            "SELECT status || '/' || delivery_status || ifnull('/' || error_class || '/' || error_code || '/' || retryable, '') AS v
             FROM turns WHERE turn_id = '{turn}'"
        ))
    }
}

pub fn row(name: &str) -> OutboxId {
    OutboxId::parse(&format!("out_00{name}")).unwrap()
}

pub fn address(name: &str) -> AddressId {
    AddressId::parse(&format!("address_00{name}")).unwrap()
}

pub fn ids(claimed: &Claimed) -> Vec<String> {
    let name = |row: &ClaimedRow| row.outbox_id.as_str().trim_start_matches("out_00").to_owned();
    claimed.rows.iter().map(name).collect()
}

pub fn accepted(id: &str) -> Outcome {
    Outcome::Accepted {
        provider_message_id: id.to_owned(),
    }
}

/// The statement with NULL wherever it names `token`.
pub fn with_null(mut statement: Statement, token: &LeaseToken) -> Statement {
    for bind in &mut statement.binds {
        if *bind == Value::from(token) {
            *bind = Value::Null;
        }
    }
    statement
}
