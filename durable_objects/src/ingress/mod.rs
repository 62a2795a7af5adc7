//! The webhook of a Telegram gateway, after HTTP: every update is authenticated, remembered once and answered for.
//!
//! Two trips to the database: one read of everything that could matter, one batch that writes all that comes of it.
//!
//! Every await, and why repeating it is safe:
//! 1. Reading writes nothing.
//! 2. The batch begins with the guard that the update was not handled before, and remembers that it was.
//! 3. Counting a repetition is left undone when it cannot be confirmed: the update itself is on record.
//! 4. A lost order is given again by the sweep; one given twice makes someone look twice.

mod decide;
mod incoming;
mod write;

use std::cell::Cell;
use std::rc::Rc;

use domain::guard::Guard;
use domain::ids::{GatewayId, RequestId, TurnId};
use domain::job::{Job, JobMessage};
use domain::keys::{MasterSecrets, hashes_equal};
use domain::ports::{Checkpoint, Clock, Entropy, Queue, Sql};
use domain::sql::{RowError, Rows};
use domain::telegram::update::NotAnUpdate;
use domain::time::{Millis, Timestamp};
use domain::turn::protocol::Costs;
use store::channels::dedup::{self, Disposition};
use store::channels::link::{self, CodeFacts};
use store::channels::sender::{self, SenderFacts, WebhookGateway};
use store::db::{Db, DbError};

use decide::decide;
use incoming::Incoming;

/// The channel, as its addresses and conversations name it.
pub const TELEGRAM: &str = "telegram";

/// How long after its delivery a message may still be answered.
pub const TURN_DEADLINE: Millis = Millis::from_mins(10);

/// How often an update is tried when others keep changing what the answer was based on. Telegram sends a chat's
/// messages one after the other, so this is for what happens beside them.
const TRIES: u32 = 6;

/// What the webhook is built on.
pub struct Webhook<'a, S, C, E, K> {
    pub sql: &'a S,
    pub clock: &'a C,
    pub entropy: &'a E,
    pub checkpoint: &'a K,
    pub secrets: &'a MasterSecrets,
    /// How many turns of one person may wait at once, whichever way they came.
    pub line_max: usize,
}

/// One request of Telegram.
pub struct Delivery<'a> {
    pub gateway_id: &'a GatewayId,
    /// The secret that it shows, hashed (see [`domain::auth::webhook::secret_hash`]); `None` where it shows none.
    pub secret_hash: Option<&'a str>,
    pub body: &'a str,
    pub request_id: &'a RequestId,
    pub client_request_id: Option<&'a str>,
    /// 32 hex digits.
    pub trace_id: &'a str,
    pub source_address_hash: Option<&'a str>,
    pub received_at: Timestamp,
}

/// An update that is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// What was done with it; `None` for one that came before.
    pub disposition: Option<Disposition>,
    /// What is to be done next; see [`pass_on`].
    pub order: Option<JobMessage>,
}

/// Why an update was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no such gateway, or the secret is not its own.
    Unauthenticated,
    /// The gateway takes no updates: it has no secret, is suspended, or has no leave for the channel.
    Closed,
    /// The body is not an update.
    NotAnUpdate(NotAnUpdate),
    /// Another update came under the same id before. That is counted.
    Conflict,
    Db(DbError),
}

impl From<DbError> for Refused {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

/// Hands an order on. It may be lost: then the sweep gives it again.
pub async fn pass_on(order: &JobMessage, jobs: &impl Queue, sends: &impl Queue) {
    // await 4
    let _ = match order.job {
        Job::Generate { .. } => jobs.send(order.encode(), Millis::ZERO).await,
        Job::Deliver { .. } => sends.send(order.encode(), Millis::ZERO).await,
    };
}

/// What is known before an update is handled.
struct Facts {
    gateway: Option<WebhookGateway>,
    /// The payload's hash, if the update came before.
    seen: Option<String>,
    /// The person behind the chat.
    sender: Option<SenderFacts>,
    /// Whom the code was made for, if it may be used here.
    code: Option<CodeFacts>,
}

impl<S: Sql, C: Clock, E: Entropy, K: Checkpoint> Webhook<'_, S, C, E, K> {
    /// Takes one update. Whatever comes of it is on record when this returns; `costs` counts what it took.
    pub async fn receive(&self, delivery: &Delivery<'_>, costs: Rc<Cell<Costs>>) -> Result<Taken, Refused> {
        let incoming = Incoming::read(delivery, self.secrets);
        let turn_id = TurnId::mint(delivery.received_at, self.entropy);
        for _ in 0..TRIES {
            let now = self.clock.now();
            let facts = self.look_up(delivery, incoming.as_ref().ok(), now, &costs).await?;
            let gateway = authenticate(facts.gateway.as_ref(), delivery)?;
            // Who is not known is told nothing about the body either.
            let incoming = incoming.as_ref().map_err(|error| Refused::NotAnUpdate(*error))?;
            if let Some(payload_hash) = &facts.seen {
                return self.count_again(delivery, incoming, payload_hash, now, costs).await;
            }
            let decision = decide(incoming, facts.sender.as_ref(), facts.code.as_ref(), self.line_max);
            let writing = write::Writing {
                webhook: self,
                delivery,
                incoming,
                gateway,
                sender: facts.sender.as_ref(),
                turn_id: &turn_id,
                now,
                costs: Rc::clone(&costs),
            };
            match writing.write(&decision).await {
                Ok(taken) => {
                    self.checkpoint.reach("ingress_committed").await;
                    return Ok(taken);
                }
                // What the decision was based on has changed, perhaps by the very same update.
                Err(DbError::Refused(
                    Guard::IngressUnused
                    | Guard::SenderCurrent
                    | Guard::SessionCurrent
                    | Guard::LinkCodeLive
                    | Guard::KeyLive
                    | Guard::EpochCurrent,
                )) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Refused::Db(DbError::Unavailable))
    }

    async fn look_up(
        &self,
        delivery: &Delivery<'_>,
        incoming: Option<&Incoming>,
        now: Timestamp,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<Facts, DbError> {
        let gateway_id = delivery.gateway_id;
        let mut batch = vec![sender::gateway(gateway_id, TELEGRAM)];
        if let Some(incoming) = incoming {
            batch.push(dedup::seen(gateway_id, &incoming.ingress_hash));
            if let Some(chat) = incoming.chat(gateway_id) {
                batch.extend(sender::sender_facts(chat, self.line_max));
                if let Some(code_hash) = &incoming.code_hash {
                    batch.extend(link::code(chat, code_hash, now));
                }
            }
        }
        // await 1
        let rows = self.db(costs).read(gateway_id.shard(), batch).await?;
        Ok(Facts::read(&rows)?)
    }

    /// Counts an update that came before.
    async fn count_again(
        &self,
        delivery: &Delivery<'_>,
        incoming: &Incoming,
        payload_hash: &str,
        now: Timestamp,
        costs: Rc<Cell<Costs>>,
    ) -> Result<Taken, Refused> {
        let count = dedup::count_again(delivery.gateway_id, &incoming.ingress_hash, &incoming.payload_hash, now);
        let shard = delivery.gateway_id.shard();
        let seen = vec![dedup::seen(delivery.gateway_id, &incoming.ingress_hash)];
        // await 3. Whether a lost batch was counted nobody can tell; it is not counted twice.
        let counted = self
            .db(&costs)
            .write(shard, vec![count], |_| Ok(()), seen, |_| Ok(Some(())))
            .await;
        if payload_hash != incoming.payload_hash {
            return Err(Refused::Conflict);
        }
        // Not counted is no reason to have it delivered once more: it would only be the next repetition.
        let _ = counted;
        Ok(Taken {
            disposition: None,
            order: None,
        })
    }

    fn db(&self, costs: &Rc<Cell<Costs>>) -> Db<'_, S, C> {
        Db::new(self.sql, self.clock, Rc::clone(costs))
    }
}

impl Facts {
    fn read(rows: &[Rows]) -> Result<Self, RowError> {
        let (gateway, rows) = rows.split_first().ok_or(RowError {
            column: String::new(),
            expected: "the gateway's rows",
        })?;
        let seen = rows.first().map_or(Ok(None), dedup::read_seen)?;
        let sender = rows.get(1..5).map_or(Ok(None), SenderFacts::read)?;
        let code = rows.get(5..7).map_or(Ok(None), link::read_code)?;
        Ok(Self {
            gateway: sender::read_gateway(gateway)?,
            seen,
            sender,
            code,
        })
    }
}

/// The gateway, if the delivery really is for it and it takes any.
fn authenticate<'a>(
    gateway: Option<&'a WebhookGateway>,
    delivery: &Delivery<'_>,
) -> Result<&'a WebhookGateway, Refused> {
    let gateway = gateway.ok_or(Refused::Unauthenticated)?;
    let wanted = gateway.secret_hash.as_deref().ok_or(Refused::Closed)?;
    let named = delivery.secret_hash.ok_or(Refused::Unauthenticated)?;
    if !hashes_equal(wanted, named) {
        return Err(Refused::Unauthenticated);
    }
    if gateway.open {
        Ok(gateway)
    } else {
        Err(Refused::Closed)
    }
}
