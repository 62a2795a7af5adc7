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
use store::keys::{self, KeyRow};
use store::ledger::read::{self, TurnRecord};
use store::{ledger::handover, token};

use crate::db::{Db, DbError};
use crate::user_turns::open_text;

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
    Db(DbError),
}

impl From<DbError> for TurnError {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

/// Reads a turn, its answer and its history in one round trip.
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
    ];
    let rows = db.read(user.shard(), batch).await?;
    let [fresh, key, record, events] = rows.as_slice() else {
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
    Ok(TurnView { record, reply, events })
}

/// What a client says it did with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledgment {
    pub ack: AckType,
    pub client_timestamp: Timestamp,
}

/// Puts an acknowledgment on record; saying the same again changes nothing.
pub async fn acknowledge<S: Sql, C: Clock>(
    db: &Db<'_, S, C>,
    principal: &Principal,
    user: &UserId,
    turn: &TurnId,
    acknowledgment: Acknowledgment,
    now: Timestamp,
) -> Result<(), TurnError> {
    let mut batch = vec![token::token_current(principal)];
    batch.extend(handover::acknowledge(
        turn,
        user,
        acknowledgment.ack,
        acknowledgment.client_timestamp,
        now,
    ));
    let read_back = vec![read::events_of_turn(user, turn)];
    let resolve = |rows: &[Rows]| {
        let events = rows.first().map_or(Ok(vec![]), read::read_events)?;
        Ok(events
            .iter()
            .any(|event| event.metadata.ack_type == Some(acknowledgment.ack))
            .then_some(()))
    };
    match db
        .write(user.shard(), batch, |_| Ok(()), read_back.clone(), resolve)
        .await
    {
        Ok(()) => Ok(()),
        Err(DbError::Refused(Guard::TokenCurrent)) => Err(TurnError::Stale),
        Err(DbError::Refused(Guard::TurnOpen)) => {
            let rows = db
                .read(
                    user.shard(),
                    vec![read::turn_by_id(user, turn), read::events_of_turn(user, turn)],
                )
                .await?;
            let [record, events] = rows.as_slice() else {
                return Err(DbError::Defect.into());
            };
            if read::read_turn(record).map_err(DbError::from)?.is_none() {
                return Err(TurnError::NotFound);
            }
            match resolve(std::slice::from_ref(events)).map_err(DbError::from)? {
                Some(()) => Ok(()),
                None => Err(TurnError::NoAnswer),
            }
        }
        Err(error) => Err(error.into()),
    }
}
