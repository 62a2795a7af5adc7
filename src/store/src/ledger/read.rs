//! Reading turns: by key, by id, their history, and those left unfinished.

use domain::http::context::RequestContext;
use domain::ids::{ConversationId, SessionId, TurnId, UserId};
use domain::sql::{Row, RowError, Rows, Statement};
use domain::time::Timestamp;
use domain::turn::event::{Actor, Event, Metadata};
use domain::turn::recovery::OpenTurn;
use domain::turn::{EventType, FailureCode, Status};

use crate::ledger::channel::Through;
use crate::ledger::run::SealedMessage;

macro_rules! turn_record {
    ($where:literal) => {
        concat!(
            "SELECT t.turn_id, t.status, t.request_hash, t.error_code, t.conversation_id, t.session_id, t.model_calls,
  t.shown, t.context_revision_read, t.context_revision_write, t.model_provider, t.model_name, t.input_tokens, t.output_tokens,
  t.cost_microunits, t.accepted_at, t.deadline_at, t.durable_write_at, t.response_committed_at, t.terminal_at,
  'assistant' AS role, m.content_key_id, m.content_sealed
  FROM turns t LEFT JOIN messages m
    ON m.conversation_id = t.conversation_id AND m.arrival_no = t.arrival_no AND m.role = 'assistant'
 WHERE ",
            $where
        )
    };
}

/// A turn as its owner may see it, the answer still sealed.
#[derive(Clone)]
pub struct TurnRecord {
    pub turn_id: TurnId,
    pub status: Status,
    pub request_hash: String,
    pub failure: Option<FailureCode>,
    pub conversation_id: ConversationId,
    pub session_id: SessionId,
    pub context_revision_read: i64,
    pub context_revision_write: Option<i64>,
    pub provider: Option<String>,
    pub model: Option<String>,
    pub input_tokens: Option<i64>,
    pub output_tokens: Option<i64>,
    pub cost_microunits: Option<i64>,
    pub accepted_at: Timestamp,
    pub deadline_at: Timestamp,
    pub response_committed_at: Option<Timestamp>,
    pub terminal_at: Option<Timestamp>,
    pub answer: Option<SealedMessage>,
}

impl TurnRecord {
    pub(crate) fn read(row: &Row) -> Result<Self, RowError> {
        let answer = match row.optional_blob("content_sealed")? {
            Some(_) => Some(SealedMessage::read(row)?),
            None => None,
        };
        let failure = match row.optional_text("error_code")? {
            Some(text) => Some(FailureCode::parse(text).ok_or_else(|| crate::wrong("error_code", "a failure code"))?),
            None => None,
        };
        Ok(Self {
            turn_id: crate::id(row, "turn_id", TurnId::parse)?,
            status: Status::parse(row.text("status")?).ok_or_else(|| crate::wrong("status", "a turn status"))?,
            request_hash: row.text("request_hash")?.to_owned(),
            failure,
            conversation_id: crate::id(row, "conversation_id", ConversationId::parse)?,
            session_id: crate::id(row, "session_id", SessionId::parse)?,
            context_revision_read: row.integer("context_revision_read")?,
            context_revision_write: row.optional_integer("context_revision_write")?,
            provider: row.optional_text("model_provider")?.map(str::to_owned),
            model: row.optional_text("model_name")?.map(str::to_owned),
            input_tokens: row.optional_integer("input_tokens")?,
            output_tokens: row.optional_integer("output_tokens")?,
            cost_microunits: row.optional_integer("cost_microunits")?,
            accepted_at: row.timestamp("accepted_at")?,
            deadline_at: row.timestamp("deadline_at")?,
            response_committed_at: row.optional_timestamp("response_committed_at")?,
            terminal_at: row.optional_timestamp("terminal_at")?,
            answer,
        })
    }
}

/// The turn under the caller's idempotency key, if there is one.
pub fn turn_by_key(context: &RequestContext) -> Statement {
    Statement {
        name: "turn_by_key",
        sql: turn_record!("t.user_id = ?1 AND t.channel = ?2 AND t.idempotency_key_hash = ?3"),
        binds: vec![
            (&context.user_id).into(),
            context.channel.as_str().into(),
            context.idempotency_key_hash.as_str().into(),
        ],
    }
}

/// A turn of this user.
pub fn turn_by_id(user: &UserId, turn: &TurnId) -> Statement {
    Statement {
        name: "turn_by_id",
        sql: turn_record!("t.turn_id = ?2 AND t.user_id = ?1"),
        binds: vec![user.into(), turn.into()],
    }
}

/// Reads the answer of [`turn_by_key`] or [`turn_by_id`].
pub fn read_turn(rows: &Rows) -> Result<Option<TurnRecord>, RowError> {
    rows.first().map(TurnRecord::read).transpose()
}

/// The history of a turn of this user, in order.
pub fn events_of_turn(user: &UserId, turn: &TurnId) -> Statement {
    Statement {
        name: "events_of_turn",
        sql: "SELECT e.sequence_no, e.event_type, e.event_at, e.actor, e.attempt_no, e.metadata_json
  FROM turns t JOIN turn_events e ON e.turn_id = t.turn_id
 WHERE t.turn_id = ?2 AND t.user_id = ?1 ORDER BY e.sequence_no",
        binds: vec![user.into(), turn.into()],
    }
}

/// Reads the answer of [`events_of_turn`].
pub fn read_events(rows: &Rows) -> Result<Vec<Event>, RowError> {
    rows.rows.iter().map(read_event).collect()
}

fn read_event(row: &Row) -> Result<Event, RowError> {
    let metadata = serde_json::from_str::<Metadata>(row.text("metadata_json")?)
        .map_err(|_| crate::wrong("metadata_json", "event metadata"))?;
    Ok(Event {
        event_type: EventType::parse(row.text("event_type")?).ok_or_else(|| crate::wrong("event_type", "an event"))?,
        at: row.timestamp("event_at")?,
        actor: Actor::parse(row.text("actor")?).ok_or_else(|| crate::wrong("actor", "an actor"))?,
        attempt: row.optional_integer("attempt_no")?,
        metadata,
    })
}

/// An unfinished turn and what the ledger knows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    pub turn_id: TurnId,
    /// The channel it came through, if any.
    pub through: Option<Through>,
    pub state: OpenTurn,
}

/// The user's unfinished turns that stand in the line, oldest first, at most 50, and the epoch.
pub fn unfinished(user: &UserId) -> Statement {
    Statement {
        name: "unfinished_turns",
        sql: "SELECT t.turn_id, t.status, t.model_calls, t.shown, t.accepted_at, t.deadline_at, t.origin,
  t.channel, t.gateway_id,
  CASE WHEN h.running_turn = t.turn_id THEN h.run_until END AS run_until
  FROM turns t JOIN user_heads h ON h.user_id = t.user_id
 WHERE t.user_id = ?1 AND t.terminal_at IS NULL AND t.delivery_status <> 'pending'
   AND t.status IN ('accepted', 'processing') AND t.origin IN ('direct', 'channel')
 ORDER BY t.arrival_no LIMIT 50",
        binds: vec![user.into()],
    }
}

/// Reads the answer of [`unfinished`].
pub fn read_unfinished(rows: &Rows) -> Result<Vec<Unfinished>, RowError> {
    rows.rows
        .iter()
        .map(|row| {
            Ok(Unfinished {
                turn_id: crate::id(row, "turn_id", TurnId::parse)?,
                through: Through::read(row)?,
                state: OpenTurn {
                    status: Status::parse(row.text("status")?).ok_or_else(|| crate::wrong("status", "a status"))?,
                    model_calls: row.integer("model_calls")?,
                    shown: row.flag("shown")?,
                    accepted_at: row.timestamp("accepted_at")?,
                    deadline_at: row.timestamp("deadline_at")?,
                    run_until: row.optional_timestamp("run_until")?,
                },
            })
        })
        .collect()
}

/// What an object must know before it goes on with work it finds: the epoch and the user's live key.
pub fn object_state(user: &UserId) -> Vec<Statement> {
    vec![
        crate::ledger::epoch(),
        crate::keys::live_key_of_user(user),
        unfinished(user),
    ]
}
