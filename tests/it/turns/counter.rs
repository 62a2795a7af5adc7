//! A desk whose person writes through a Telegram bot, and a sender that hands on what the outbox holds.

use domain::ids::{GatewayId, LeaseToken};
use domain::outbox::SendChannel;
use domain::outbox::outcome::{ErrorClass, ErrorCode, Outcome};
use domain::outbox::policy::TELEGRAM;
use domain::outbox::settlement::settle;
use domain::ports::{Clock, Sql};
use domain::sql::Outcome as Batch;
use domain::sql::{Rows, Shard, Statement};
use domain::time::{Millis, Timestamp};
use harness::block_on;
use harness::rng::Rng;
use queues::sweep::{Swept, sweep};
use store::outbox::claim::{Claim, Claimant, claim};
use store::outbox::claimed::{ClaimedRow, read_claimed};
use store::outbox::settle::{Settled, Wave, settle_wave};

use crate::chat::desk::Desk;
use crate::chat::ports::DeskSends;

/// What the provider says to an attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Provider {
    Takes,
    IsDown,
    RefusesTheWords,
    HasBlockedUs,
}

pub struct Counter {
    pub desk: Desk,
    pub jobs: DeskSends,
    entropy: Rng,
}

impl Counter {
    pub fn new() -> Self {
        let desk = Desk::new();
        desk.sql.execute(
            "INSERT INTO gateways (gateway_id, scopes, channels, production, assertion_jwk, status,
               authorization_revision, created_at, updated_at, channel_token_master_version, channel_token_sealed)
             VALUES ('gateway_00bot', '[]', '[\"telegram\"]', 0, '{}', 'active', 1, 0, 0, 1, x'01');
             INSERT INTO gateway_families VALUES ('gateway_00bot', 'family_00oak');
             INSERT INTO channel_addresses VALUES ('address_00ann', 'gateway_00bot', 'telegram', 'user_00ann',
               'hash of a chat', 'key_00ann', x'01', 'active', 0, 0);",
        );
        Self {
            desk,
            jobs: DeskSends::default(),
            entropy: Rng::new(9),
        }
    }

    /// A message that came through the bot and was accepted, and nobody is at it yet.
    pub fn receive(&mut self, key: &str, words: &str) {
        drop(self.desk.hand_in(self.desk.command(key, words, false)));
        self.desk.restart();
        self.desk.sql.execute(
            "UPDATE turns SET origin = 'channel', channel = 'telegram', gateway_id = 'gateway_00bot',
               address_id = 'address_00ann', deadline_at = accepted_at + 600000
             WHERE origin = 'direct' AND status = 'accepted'",
        );
    }

    /// The same, and answered.
    pub fn answer(&mut self, key: &str, words: &str) {
        self.receive(key, words);
        self.desk.wake();
    }

    /// How the turns, their answers and their deliveries stand.
    pub fn turns(&self) -> Vec<String> {
        let sql = "SELECT t.status || ifnull(' ' || t.error_code, '') || ', ' || t.delivery_status ||
            iif(EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = t.turn_id AND m.role = 'assistant'), ', answered', '')
            AS turn FROM turns t ORDER BY t.arrival_no";
        self.desk.texts(sql, "turn")
    }

    /// Every message of the outbox: what, which part, and how it stands.
    pub fn outbox(&self) -> Vec<String> {
        let sql = "SELECT origin || ' ' || part_no || '/' || part_count || ' ' || status ||
            ifnull(' ' || last_error_code, '') AS row FROM outbound_messages ORDER BY lane_no";
        self.desk.texts(sql, "row")
    }

    /// The orders to send given so far.
    pub fn orders(&self) -> Vec<String> {
        self.desk.sends.0.take()
    }

    pub fn sweep(&self) -> Swept {
        block_on(sweep(
            &self.desk.sql,
            &self.jobs,
            &self.desk.sends,
            &self.desk.clock,
            &self.entropy,
        ))
    }

    /// Lets minutes pass with a sweep in each, and adds up what the sweeps did.
    pub fn sweep_for(&self, minutes: i64) -> Swept {
        let mut sum = Swept::default();
        for _ in 0..minutes {
            self.desk.pass(Millis::from_mins(1));
            let swept = self.sweep();
            sum.untaken += swept.untaken;
            sum.woken += swept.woken;
            sum.repaired += swept.repaired;
            sum.expired += swept.expired;
            sum.cancelled += swept.cancelled;
            sum.exhausted += swept.exhausted;
            sum.ordered += swept.ordered;
            sum.failed += swept.failed;
        }
        sum
    }

    /// One wave: claims what is due of the bot and has the provider judge it. How many rows there were.
    pub fn send(&self, provider: Provider) -> usize {
        let (token, rows, seen) = self.claim();
        let outcomes: Vec<Outcome> = rows.iter().map(|_| outcome(provider)).collect();
        let now = self.desk.clock.now();
        let settlements: Vec<_> = rows
            .iter()
            .zip(&outcomes)
            .map(|(row, outcome)| settle(&row.tried, outcome, &TELEGRAM, now, &self.entropy))
            .collect();
        let attempts: Vec<Settled<'_>> = rows
            .iter()
            .zip(outcomes.iter().zip(&settlements))
            .map(|(row, (outcome, settlement))| Settled {
                outbox_id: &row.outbox_id,
                turn_id: row.turn_id.as_ref(),
                outcome,
                settlement,
                http_status: None,
                moved: None,
            })
            .collect();
        if !attempts.is_empty() {
            let gateway_id = &bot();
            self.write(&settle_wave(&Wave {
                gateway_id,
                gateway_seen: seen,
                token: &token,
                attempts: &attempts,
                now,
            }));
        }
        rows.len()
    }

    /// Claims what is due of the bot, and does no more: a sender that dies with it in its hands.
    pub fn claim(&self) -> (LeaseToken, Vec<ClaimedRow>, Timestamp) {
        let now = self.desk.clock.now();
        let token = LeaseToken::mint(now, &self.entropy);
        let rows = self.write(&claim(&Claim {
            gateway_id: &bot(),
            channel: SendChannel::Telegram,
            claimant: Claimant::Hermod,
            token: &token,
            owner: "test",
            epoch: 1,
            limit: 6,
            policy: &TELEGRAM,
            now,
        }));
        let claimed = read_claimed(&rows, now).unwrap();
        (token, claimed.rows, claimed.gateway.unwrap().updated_at)
    }

    fn write(&self, batch: &[Statement]) -> Vec<Rows> {
        match block_on(self.desk.sql.batch(Shard::User(0), batch.to_vec())) {
            Batch::Committed(rows) => rows,
            other => panic!("{other:?}"),
        }
    }
}

fn bot() -> GatewayId {
    GatewayId::parse("gateway_00bot").unwrap()
}

fn outcome(provider: Provider) -> Outcome {
    match provider {
        Provider::Takes => Outcome::Accepted {
            provider_message_id: "4321".to_owned(),
        },
        Provider::IsDown => Outcome::Retry {
            class: ErrorClass::Provider,
            code: ErrorCode::ServerError,
            after: None,
            holds: domain::outbox::outcome::Holds::Row,
        },
        Provider::RefusesTheWords => Outcome::Rejected {
            class: ErrorClass::Content,
            code: ErrorCode::MessageTooLong,
        },
        Provider::HasBlockedUs => Outcome::Gone {
            code: ErrorCode::Blocked,
        },
    }
}
