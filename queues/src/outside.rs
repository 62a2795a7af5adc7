//! Outside senders: whoever holds a gateway's credential elsewhere claims, sends and reports under the same leases.
//!
//! Every await, and why repeating it is safe:
//! 1. Looking a command up writes nothing.
//! 2. A command's batch stands under its key, and is found again by it.
//! 3. Reading what was claimed writes nothing. The token follows from the key, so the same key finds the same rows.
//! 4. A row whose words or destination cannot be opened is settled under the token, which works once.

use domain::auth::Principal;
use domain::guard::Guard;
use domain::idempotency::IdempotencyKey;
use domain::ids::{GatewayId, HOME_SHARD, LeaseToken, OutboxId};
use domain::keys::MasterSecrets;
use domain::outbox::outside::{AttemptBody, ClaimBody, OutcomeBody};
use domain::outbox::policy::OUTSIDE;
use domain::outbox::settlement::settle;
use domain::ports::{Clock, Entropy, Sql};
use domain::problem::{Code, Problem};
use domain::rfc3339;
use domain::sql::{RowError, Rows, Shard, Statement};
use domain::time::Millis;
use serde_json::{Value, json};
use store::db::{Db, DbError};
use store::idempotency::{KeyUse, Known, Settled, StoredResult};
use store::outbox::claim::{Claim, Claimant};
use store::outbox::claimed::{ClaimedRow, claimed, read_claimed};
use store::outbox::outside::{self, Beginning, Held};
use store::outbox::settle as settling;
use store::provisioning::Command;
use store::token;

use crate::deliver::open::{self, Unopened};

const SHARD: Shard = Shard::User(HOME_SHARD);

/// How much of a keyed hash a lease token takes: 240 bits.
const TOKEN_CHARS: usize = 40;

const LOST: &str = "The message is no longer held under this lease.";
const OURS: &str = "The service itself sends for this gateway.";
const CHANNEL: &str = "The gateway may not send through this channel.";

/// What a command answered.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// A JSON document; from 400 on a stored [`Problem`].
    pub body: String,
    pub replayed: bool,
}

/// One request of a gateway that sends for itself.
pub struct Request<'a, S, C, E> {
    pub sql: &'a S,
    pub clock: &'a C,
    pub entropy: &'a E,
    pub secrets: &'a MasterSecrets,
    pub principal: &'a Principal,
    pub gateway_id: &'a GatewayId,
    pub key: KeyUse<'a>,
}

/// The token of the claim that `caller` makes under this key: the same again for the same.
pub fn lease_token(caller: &str, key: &IdempotencyKey, secrets: &MasterSecrets) -> Option<LeaseToken> {
    let hash = key.hash_of_caller(secrets, caller);
    LeaseToken::parse(&format!("lease_{HOME_SHARD:02x}{}", hash.get(..TOKEN_CHARS)?)).ok()
}

impl<S: Sql, C: Clock, E: Entropy> Request<'_, S, C, E> {
    /// Takes what is due. The answer tells the words and destinations of the rows that stand under `token`; asked
    /// again under the same key, of those that still do.
    pub async fn claim(&self, body: &ClaimBody, token: &LeaseToken) -> Result<Answer, Problem> {
        let replayed = match self.judge(outside::standing(self.gateway_id, body.channel)).await? {
            Judged::Known(stored) if stored.status >= 400 => return Ok(answer(stored, true)),
            Judged::Known(_) => true,
            Judged::New(rows) => {
                let standing = outside::read_standing(&rows).map_err(defect)?;
                let standing = standing.ok_or(Problem::new(Code::Forbidden))?;
                if !standing.allowed {
                    return Err(Problem::new(Code::Forbidden).with_detail(CHANNEL));
                }
                if standing.ours {
                    return self.fail(OURS).await;
                }
                let batch = self.claim_batch(body, token, standing.epoch);
                // await 2
                let told = self.tell(self.settle(batch).await)?;
                if told.status >= 400 {
                    return Ok(told);
                }
                told.replayed
            }
        };
        let rows = self.rows_under(token).await?;
        let mut messages = Vec::with_capacity(rows.len());
        for row in &rows {
            match self.message(row) {
                Ok(message) => messages.push(message),
                Err(unopened) => self.give_up(row, unopened, token).await?,
            }
        }
        Ok(Answer {
            status: 200,
            body: json!({ "lease_token": token, "messages": messages }).to_string(),
            replayed,
        })
    }

    fn claim_batch(&self, body: &ClaimBody, token: &LeaseToken, epoch: i64) -> Vec<Statement> {
        outside::claim_rows(
            &self.command(),
            &Claim {
                gateway_id: self.gateway_id,
                channel: body.channel,
                claimant: Claimant::Outside,
                token,
                owner: self.gateway_id.as_str(),
                epoch,
                limit: body.limit,
                policy: &OUTSIDE,
                now: self.clock.now(),
            },
        )
    }

    /// The sender is about to send: 200 with its lease renewed when it still may, else 409.
    pub async fn attempt(&self, row: &OutboxId, body: &AttemptBody) -> Result<Answer, Problem> {
        let held = match self.held(row, &body.lease_token).await? {
            Ok(held) => held,
            Err(answer) => return Ok(answer),
        };
        if held.ours || !held.held {
            return self.fail(if held.ours { OURS } else { LOST }).await;
        }
        let now = self.clock.now();
        let until = now.plus(OUTSIDE.lease);
        let beginning = Beginning {
            row,
            gateway_id: self.gateway_id,
            token: &body.lease_token,
            epoch: held.epoch,
            until,
            until_text: &rfc3339::format(until),
            now,
        };
        let batch = outside::begin(&self.command(), &beginning, &stored_conflict(LOST)?);
        // await 2
        self.tell(self.settle(batch).await)
    }

    /// What came of an attempt: 200 and how the message stands then, or 409 when it was no longer held.
    pub async fn finish(&self, row: &OutboxId, body: &OutcomeBody) -> Result<Answer, Problem> {
        let held = match self.held(row, &body.lease_token).await? {
            Ok(held) => held,
            Err(answer) => return Ok(answer),
        };
        if !held.held {
            return self.fail(LOST).await;
        }
        let now = self.clock.now();
        let settlement = settle(&held.tried, &body.outcome, &OUTSIDE, now, self.entropy);
        let attempts = [settling::Settled {
            outbox_id: row,
            turn_id: held.turn_id.as_ref(),
            outcome: &body.outcome,
            settlement: &settlement,
            http_status: None,
            moved: None,
        }];
        let wave = settling::Wave {
            gateway_id: self.gateway_id,
            gateway_seen: held.gateway_seen,
            token: &body.lease_token,
            attempts: &attempts,
            now,
        };
        let batch = outside::finish(&self.command(), &wave, row, &stored_conflict(LOST)?);
        // await 2
        self.tell(self.settle(batch).await)
    }

    fn command(&self) -> Command<'_> {
        Command {
            principal: self.principal,
            key: self.key.clone(),
        }
    }

    /// Whether the token still counts and the key was used, with the row set of one more statement.
    async fn judge(&self, extra: Statement) -> Result<Judged, Problem> {
        let batch = vec![token::freshness(self.principal), self.key.look_up(), extra];
        // await 1
        let rows = self.db().read(SHARD, batch).await.map_err(unreached)?;
        let [fresh, known, extra] = rows.as_slice() else {
            return Err(Problem::new(Code::Internal));
        };
        if !token::is_fresh(fresh).map_err(defect)? {
            return Err(Problem::new(Code::TokenStale));
        }
        match self.key.read(known).map_err(defect)? {
            Known::Unused => Ok(Judged::New(extra.clone())),
            Known::Replay(stored) => Ok(Judged::Known(stored)),
            Known::Reused => Err(Problem::new(Code::IdempotencyKeyReused)),
        }
    }

    /// The row as this lease finds it, or the answer that is known already. Another gateway's row is not there.
    async fn held(&self, row: &OutboxId, token: &LeaseToken) -> Result<Result<Held, Answer>, Problem> {
        match self.judge(outside::held(row, self.gateway_id, token)).await? {
            Judged::Known(stored) => Ok(Err(answer(stored, true))),
            Judged::New(rows) => {
                let held = outside::read_held(&rows).map_err(defect)?;
                held.map(Ok).ok_or(Problem::new(Code::NotFound))
            }
        }
    }

    /// What stands under the token now.
    async fn rows_under(&self, token: &LeaseToken) -> Result<Vec<ClaimedRow>, Problem> {
        let now = self.clock.now();
        let batch = claimed(self.gateway_id, token, now);
        // await 3
        let rows = self.db().read(SHARD, batch).await.map_err(unreached)?;
        Ok(read_claimed(&rows, now).map_err(defect)?.rows)
    }

    /// One message as its sender gets it.
    fn message(&self, row: &ClaimedRow) -> Result<Value, Unopened> {
        let (text, key) = open::words(row, self.secrets)?;
        let (destination, _) = open::destination(row, key.as_ref(), self.secrets)?;
        Ok(json!({
            "outbox_id": row.outbox_id,
            "attempt": row.attempt_no,
            "turn_id": row.turn_id,
            "destination": destination,
            "text": text,
            "part": row.part_no,
            "parts": row.part_count,
            "expires_at": rfc3339::format(row.tried.expires_at),
            "lease_expires_at": rfc3339::format(row.lease_until),
        }))
    }

    /// Ends a row whose words or destination are gone; one that ought to open waits until it does.
    async fn give_up(&self, row: &ClaimedRow, unopened: Unopened, token: &LeaseToken) -> Result<(), Problem> {
        let now = self.clock.now();
        let outcome = unopened.outcome();
        let settlement = settle(&row.tried, &outcome, &OUTSIDE, now, self.entropy);
        let attempts = [settling::Settled {
            outbox_id: &row.outbox_id,
            turn_id: row.turn_id.as_ref(),
            outcome: &outcome,
            settlement: &settlement,
            http_status: None,
            moved: None,
        }];
        let batch = settling::settle_wave(&settling::Wave {
            gateway_id: self.gateway_id,
            gateway_seen: now,
            token,
            attempts: &attempts,
            now,
        });
        let back = settling::settled_under(self.gateway_id, token, &[&row.outbox_id], now);
        // await 4
        let db = self.db();
        let settled = db.write(SHARD, batch, settling::read_settled, back, settling::read_back);
        settled.await.map(|_| ()).map_err(unreached)
    }

    fn db(&self) -> Db<'_, S, C> {
        Db::new(self.sql, self.clock, Default::default())
    }

    async fn settle(&self, batch: Vec<Statement>) -> Settled {
        store::idempotency::settle(self.sql, self.clock, SHARD, &self.key, batch).await
    }

    /// Stores a conflict as the command's result and answers it.
    async fn fail(&self, detail: &'static str) -> Result<Answer, Problem> {
        let stored = stored_conflict(detail)?;
        let batch = self.command().fail(Code::Conflict.status(), &stored);
        // await 2
        self.tell(self.settle(batch).await)
    }

    fn tell(&self, settled: Settled) -> Result<Answer, Problem> {
        match settled {
            Settled::Done(result) => Ok(answer(result, false)),
            Settled::Replayed(result) => Ok(answer(result, true)),
            Settled::Reused => Err(Problem::new(Code::IdempotencyKeyReused)),
            Settled::Refused(Guard::TokenCurrent) => Err(Problem::new(Code::TokenStale)),
            Settled::Overloaded => Err(unreached(DbError::Overloaded)),
            Settled::Unavailable => Err(unreached(DbError::Unavailable)),
            Settled::Conflict | Settled::Refused(_) | Settled::Defect => Err(Problem::new(Code::Internal)),
        }
    }
}

/// What is known of a command before it runs.
enum Judged {
    Known(StoredResult),
    New(Rows),
}

fn answer(stored: StoredResult, replayed: bool) -> Answer {
    Answer {
        status: stored.status,
        body: stored.response,
        replayed,
    }
}

/// A conflict as it is stored under a key.
fn stored_conflict(detail: &'static str) -> Result<String, Problem> {
    let problem = Problem {
        new_key_required: true,
        ..Problem::new(Code::Conflict).with_detail(detail)
    };
    serde_json::to_string(&problem).map_err(|_| Problem::new(Code::Internal))
}

fn defect(_: RowError) -> Problem {
    Problem::new(Code::Internal)
}

fn unreached(error: DbError) -> Problem {
    let second = Millis::from_secs(1);
    match error {
        DbError::Overloaded => Problem::new(Code::Overloaded).with_retry_after(second),
        DbError::Unavailable | DbError::Refused(_) => Problem::new(Code::Unavailable).with_retry_after(second),
        DbError::Conflict | DbError::Defect => Problem::new(Code::Internal),
    }
}
