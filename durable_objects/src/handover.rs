//! The edge's part after the object has answered: that an answer was taken, how a turn stands, what a client says.
//!
//! None of it needs the object: the ledger's guards are enough.

use std::rc::Rc;

use domain::auth::Principal;
use domain::guard::Guard;
use domain::ids::{TurnId, UserId};
use domain::keys::{KeySubject, MasterSecrets, MasterVersion, WrappedKey};
use domain::ports::{Clock, Sql};
use domain::sql::Rows;
use domain::time::Timestamp;
use domain::turn::event::{AckType, Event};
use store::idempotency::{self, KeyUse, Settled, StoredResult};
use store::keys::{self, KeyRow};
use store::ledger::deliveries::{self, Delivery};
use store::ledger::read::{self, TurnRecord};
use store::{ledger::handover, token};

use crate::user_turns::open_text;
use store::db::{Db, DbError};

/// Puts on record that the runtime took the whole answer. `false`: that was on record already.
pub async fn commit_response(
    sql: &impl Sql,
    clock: &impl Clock,
    turn: &TurnId,
    user: &UserId,
    started: Timestamp,
) -> Result<bool, DbError> {
    let taken = clock.now();
    let db = Db::new(sql, clock, Rc::default());
    let batch = handover::commit_response(turn, user, started, taken);
    let read_back = vec![read::turn_by_id(user, turn)];
    let resolve = |rows: &[Rows]| {
        let record = rows.first().map_or(Ok(None), read::read_turn)?;
        Ok(record
            .filter(|record| record.response_committed_at.is_some())
            .map(|_| true))
    };
    match db.write(user.shard(), batch, |_| Ok(true), read_back, resolve).await {
        Err(DbError::Refused(Guard::TurnOpen)) => Ok(false),
        outcome => outcome,
    }
}

/// A turn as its owner sees it.
pub struct TurnView {
    pub record: TurnRecord,
    pub reply: Option<String>,
    pub events: Vec<Event>,
    /// What was sent of it through a channel.
    pub deliveries: Vec<Delivery>,
}

/// Why a turn cannot be shown or acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnError {
    /// The token is out of date.
    Stale,
    /// No such turn of this user.
    NotFound,
    /// There is no answer that could be acknowledged.
    NoAnswer,
    /// The idempotency key belongs to another request.
    KeyReused,
    Db(DbError),
}

impl From<DbError> for TurnError {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

/// Reads a turn, its answer, its history and its deliveries in one round trip.
pub async fn view_turn<S: Sql, C: Clock>(
    db: &Db<'_, S, C>,
    secrets: &MasterSecrets,
    principal: &Principal,
    user: &UserId,
    turn: &TurnId,
) -> Result<TurnView, TurnError> {
    let batch = vec![
        token::freshness(principal),
        keys::live_key_of_user(user),
        read::turn_by_id(user, turn),
        read::events_of_turn(user, turn),
        deliveries::deliveries_of_turn(user, turn),
    ];
    let rows = db.read(user.shard(), batch).await?;
    let [fresh, key, record, events, deliveries] = rows.as_slice() else {
        return Err(DbError::Defect.into());
    };
    if !token::is_fresh(fresh).map_err(DbError::from)? {
        return Err(TurnError::Stale);
    }
    let record = read::read_turn(record)
        .map_err(DbError::from)?
        .ok_or(TurnError::NotFound)?;
    let key = key.first().map(KeyRow::read).transpose().map_err(DbError::from)?;
    let reply = match (&record.answer, key) {
        (Some(sealed), Some(row)) => {
            let wrapped = WrappedKey {
                master_version: MasterVersion::new(u32::try_from(row.master_version).map_err(|_| DbError::Defect)?),
                wrapped: row.wrapped,
            };
            let subject = KeySubject::User(user.clone());
            let key = secrets
                .unwrap_key(&row.key_id, &subject, &wrapped)
                .map_err(|_| DbError::Defect)?;
            open_text(sealed, &key)
        }
        (Some(_) | None, _) => None,
    };
    let events = read::read_events(events).map_err(DbError::from)?;
    let deliveries = deliveries::read_deliveries(deliveries).map_err(DbError::from)?;
    Ok(TurnView {
        record,
        reply,
        events,
        deliveries,
    })
}

/// What a client says it did with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgment {
    pub ack: AckType,
    pub client_timestamp: Timestamp,
}

/// Puts an acknowledgment on record and gives back the result that is stored under the key.
pub async fn acknowledge(
    sql: &impl Sql,
    clock: &impl Clock,
    principal: &Principal,
    user: &UserId,
    turn: &TurnId,
    key: &KeyUse<'_>,
    acknowledgment: Acknowledgment,
) -> Result<Acknowledged, TurnError> {
    let Acknowledgment { ack, client_timestamp } = acknowledgment;
    let response = format!(
        r#"{{"turn_id":"{turn}","ack_type":"{}","status":"client_acknowledged"}}"#,
        ack.as_str()
    );
    let mut batch = vec![token::token_current(principal), key.key_unused()];
    batch.extend(handover::acknowledge(turn, user, ack, client_timestamp, key.now));
    batch.push(key.store(200, &response));
    match idempotency::settle(sql, clock, user.shard(), key, batch).await {
        Settled::Done(result) => Ok(Acknowledged {
            result,
            replayed: false,
        }),
        Settled::Replayed(result) => Ok(Acknowledged { result, replayed: true }),
        Settled::Reused => Err(TurnError::KeyReused),
        Settled::Refused(Guard::TokenCurrent) => Err(TurnError::Stale),
        Settled::Refused(Guard::TurnOpen) => {
            let db = Db::new(sql, clock, Rc::default());
            let rows = db.read(user.shard(), vec![read::turn_by_id(user, turn)]).await?;
            let found = rows.first().is_some_and(|rows| !rows.rows.is_empty());
            Err(if found {
                TurnError::NoAnswer
            } else {
                TurnError::NotFound
            })
        }
        Settled::Refused(guard) => Err(DbError::Refused(guard).into()),
        Settled::Overloaded => Err(DbError::Overloaded.into()),
        Settled::Unavailable => Err(DbError::Unavailable.into()),
        Settled::Conflict | Settled::Defect => Err(DbError::Defect.into()),
    }
}

/// An acknowledgment that is on record.
pub struct Acknowledged {
    pub result: StoredResult,
    /// The same request was answered before.
    pub replayed: bool,
}
