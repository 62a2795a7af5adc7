//! Running a turn: taking the line, showing, storing the answer. [`super::failure`] ends it otherwise.
//!
//! The run token is the fence. Whoever lost it can no longer show, store or end anything.

use domain::guard::Guard;
use domain::ids::{ConversationId, DataKeyId, LeaseToken, SessionId, TurnId, UserId};
use domain::model::Usage;
use domain::sql::{Row, RowError, Rows, Statement};
use domain::time::Timestamp;
use domain::turn::EventType;
use domain::turn::event::{Actor, Event, Metadata};
use domain::turn::recovery::MODEL_CALLS_MAX;

use crate::keys;
use crate::ledger::channel::{self, Through};
use crate::ledger::{append_events, epoch_current, safe};
use crate::outbox::enqueue::{self, Part, Reply};

/// How many earlier messages of the session are read for a prompt.
pub const HISTORY_MAX: u32 = 40;

/// The right to run one turn: names the user's line, the turn and the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub user_id: UserId,
    pub turn_id: TurnId,
    pub token: LeaseToken,
    /// Which call of the model this run makes, from 1.
    pub attempt: i64,
    pub until: Timestamp,
}

/// Takes the line for a turn and reads what its prompt needs; see [`Started::read`].
///
/// Refused by `epoch_current`, `key_live`, `turn_open`, `line_free` or `oldest_first`.
pub fn start(run: &Run, epoch: i64, key: &DataKeyId, now: Timestamp) -> Vec<Statement> {
    let events = [
        Event::new(EventType::ContextSelected, now, Actor::UserTurns).attempt(run.attempt),
        Event::new(EventType::GenerationStarted, now, Actor::UserTurns).attempt(run.attempt),
    ];
    vec![
        epoch_current(epoch),
        keys::key_live(key),
        turn_startable(run),
        line_free(&run.user_id, now),
        oldest_first(run),
        Statement {
            name: "take_line",
            sql: "UPDATE user_heads SET running_turn = ?2, run_token = ?3, run_until = ?4 WHERE user_id = ?1",
            binds: vec![
                (&run.user_id).into(),
                (&run.turn_id).into(),
                (&run.token).into(),
                run.until.into(),
            ],
        },
        append_events(&run.turn_id, &events),
        Statement {
            name: "start_turn",
            sql: "UPDATE turns SET status = 'processing', generation_status = 'started', model_calls = model_calls + 1,
  run_token = ?3, generation_started_at = ?4, updated_at = ?4,
  context_revision_read = (SELECT h.revision FROM user_heads h WHERE h.user_id = ?2),
  history_watermark = ifnull((SELECT max(m.arrival_no) FROM messages m
    WHERE m.conversation_id = turns.conversation_id AND m.arrival_no < turns.arrival_no), 0)
WHERE turn_id = ?1
RETURNING conversation_id, session_id, arrival_no, context_revision_read, locale, timezone, origin, channel,
  gateway_id",
            binds: vec![
                (&run.turn_id).into(),
                (&run.user_id).into(),
                (&run.token).into(),
                now.into(),
            ],
        },
        history(&run.turn_id),
    ]
}

fn turn_startable(run: &Run) -> Statement {
    Statement {
        name: Guard::TurnOpen.label(),
        // The attempt is part of the condition: two runs can never both make the same call.
        sql: "INSERT INTO must(label, ok)
SELECT 'turn_open', EXISTS (SELECT 1 FROM turns WHERE turn_id = ?1 AND user_id = ?2
  AND model_calls = CAST(?3 AS INTEGER) - 1 AND CAST(?3 AS INTEGER) <= CAST(?4 AS INTEGER)
  AND (status = 'accepted' OR (status = 'processing' AND shown = 0)))",
        binds: vec![
            (&run.turn_id).into(),
            (&run.user_id).into(),
            safe(run.attempt),
            safe(MODEL_CALLS_MAX),
        ],
    }
}

pub(super) fn line_free(user: &UserId, now: Timestamp) -> Statement {
    Statement {
        name: Guard::LineFree.label(),
        sql: "INSERT INTO must(label, ok)
SELECT 'line_free', EXISTS (SELECT 1 FROM user_heads
  WHERE user_id = ?1 AND (run_token IS NULL OR run_until <= CAST(?2 AS INTEGER)))",
        binds: vec![user.into(), now.into()],
    }
}

fn oldest_first(run: &Run) -> Statement {
    Statement {
        name: Guard::OldestFirst.label(),
        // Turns that a Hermes agent runs itself do not stand in this line.
        sql: "INSERT INTO must(label, ok)
SELECT 'oldest_first', NOT EXISTS (SELECT 1 FROM turns o
  WHERE o.user_id = ?2 AND o.terminal_at IS NULL AND o.delivery_status <> 'pending'
    AND o.status IN ('accepted', 'processing')
    AND o.origin IN ('direct', 'channel')
    AND o.arrival_no < (SELECT t.arrival_no FROM turns t WHERE t.turn_id = ?1))",
        binds: vec![(&run.turn_id).into(), (&run.user_id).into()],
    }
}

fn history(turn: &TurnId) -> Statement {
    Statement {
        name: "session_history",
        sql: "SELECT m.role, m.turn_id, m.content_key_id, m.content_sealed
  FROM turns t JOIN messages m ON m.conversation_id = t.conversation_id AND m.arrival_no <= t.arrival_no
 WHERE t.turn_id = ?1 AND m.session_id = t.session_id
 ORDER BY m.arrival_no DESC, m.role ASC LIMIT CAST(?2 AS INTEGER)",
        binds: vec![turn.into(), HISTORY_MAX.saturating_add(1).into()],
    }
}

/// One stored message, still sealed.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedMessage {
    pub from_user: bool,
    pub turn_id: TurnId,
    pub key_id: DataKeyId,
    pub sealed: Vec<u8>,
}

impl SealedMessage {
    pub(crate) fn read(row: &Row) -> Result<Self, RowError> {
        Ok(Self {
            from_user: row.text("role")? == "user",
            turn_id: crate::id(row, "turn_id", TurnId::parse)?,
            key_id: crate::id(row, "content_key_id", DataKeyId::parse)?,
            sealed: row.blob("content_sealed")?.to_vec(),
        })
    }
}

/// What a run needs for its prompt.
pub struct Started {
    pub conversation_id: ConversationId,
    pub session_id: SessionId,
    pub context_revision: i64,
    pub locale: Option<String>,
    pub timezone: Option<String>,
    /// The channel that the answer goes back through, if it came through one.
    pub through: Option<Through>,
    /// The session's messages, oldest first, the turn's own message last.
    pub history: Vec<SealedMessage>,
}

impl Started {
    /// Reads the rows of a committed [`start`].
    pub fn read(rows: &[Rows]) -> Result<Self, RowError> {
        let [.., turn, history] = rows else {
            return Err(missing());
        };
        Self::from_rows(turn, history)
    }

    fn from_rows(turn: &Rows, history: &Rows) -> Result<Self, RowError> {
        let row = turn.first().ok_or_else(missing)?;
        let history = history
            .rows
            .iter()
            .rev()
            .map(SealedMessage::read)
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            conversation_id: crate::id(row, "conversation_id", ConversationId::parse)?,
            session_id: crate::id(row, "session_id", SessionId::parse)?,
            context_revision: row.integer("context_revision_read")?,
            locale: row.optional_text("locale")?.map(str::to_owned),
            timezone: row.optional_text("timezone")?.map(str::to_owned),
            through: Through::read(row)?,
            history,
        })
    }
}

fn missing() -> RowError {
    RowError {
        column: String::new(),
        expected: "the started turn",
    }
}

/// Asks whether `run` took the line: the answer to a [`start`] whose reply was lost. Rows as for [`Started::read`],
/// none when it did not.
pub fn started_run(run: &Run) -> Vec<Statement> {
    vec![
        Statement {
            name: "started_run",
            sql: "SELECT t.conversation_id, t.session_id, t.context_revision_read, t.locale, t.timezone, t.origin, t.channel,
  t.gateway_id
  FROM turns t JOIN user_heads h ON h.user_id = t.user_id
 WHERE t.turn_id = ?1 AND h.run_token = ?2 AND h.running_turn = t.turn_id",
            binds: vec![(&run.turn_id).into(), (&run.token).into()],
        },
        history(&run.turn_id),
    ]
}

/// Reads the answer of [`started_run`].
pub fn read_started_run(rows: &[Rows]) -> Result<Option<Started>, RowError> {
    let [turn, history] = rows else { return Err(missing()) };
    if turn.rows.is_empty() {
        Ok(None)
    } else {
        Started::from_rows(turn, history).map(Some)
    }
}

pub(super) fn run_held(run: &Run) -> Statement {
    Statement {
        name: Guard::RunHeld.label(),
        sql: "INSERT INTO must(label, ok)
SELECT 'run_held', EXISTS (SELECT 1 FROM user_heads WHERE user_id = ?1 AND running_turn = ?2 AND run_token = ?3)",
        binds: vec![(&run.user_id).into(), (&run.turn_id).into(), (&run.token).into()],
    }
}

/// Puts on record that a part of the answer is about to be shown. Refused by `epoch_current` or `run_held`.
pub fn mark_shown(run: &Run, epoch: i64, now: Timestamp) -> Vec<Statement> {
    vec![
        epoch_current(epoch),
        run_held(run),
        Statement {
            name: "mark_shown",
            sql: "UPDATE turns SET shown = 1, updated_at = ?2 WHERE turn_id = ?1",
            binds: vec![(&run.turn_id).into(), now.into()],
        },
    ]
}

/// An answer about to be stored.
pub struct Answer<'a> {
    pub content_key: &'a DataKeyId,
    pub content_sealed: Vec<u8>,
    pub prompt_hash: String,
    pub response_hash: String,
    pub provider: &'a str,
    pub model: &'a str,
    pub usage: &'a Usage,
    /// When the model finished.
    pub generated_at: Timestamp,
    /// The parts in which it goes out, for a turn that came through a channel.
    pub parts: Option<&'a [Part]>,
}

/// Stores the answer and frees the line; with [`Answer::parts`] it goes into the outbox at once. The last row set holds
/// `context_revision_write`.
///
/// Refused by `epoch_current`, `key_live` or `run_held`.
pub fn persist(run: &Run, epoch: i64, answer: &Answer<'_>, now: Timestamp) -> Vec<Statement> {
    let tokens = Metadata {
        input_tokens: Some(i64::from(answer.usage.input_tokens)),
        output_tokens: Some(i64::from(answer.usage.output_tokens)),
        ..Metadata::default()
    };
    let events = [
        Event::new(EventType::GenerationCompleted, answer.generated_at, Actor::UserTurns)
            .attempt(run.attempt)
            .with(tokens),
        Event::new(EventType::DurableWriteStarted, now, Actor::UserTurns),
        Event::new(EventType::DurableWriteCompleted, now, Actor::UserTurns),
    ];
    let mut batch = vec![
        epoch_current(epoch),
        keys::key_live(answer.content_key),
        run_held(run),
        Statement {
            name: "insert_assistant_message",
            sql: "INSERT INTO messages (conversation_id, arrival_no, role, turn_id, user_id, family_id, session_id,
  visibility_scope, subject_user_id, created_by_user_id, authorization_revision, content_key_id, content_sealed,
  created_at)
SELECT t.conversation_id, t.arrival_no, 'assistant', t.turn_id, t.user_id, t.family_id, t.session_id,
  t.visibility_scope, t.subject_user_id, t.created_by_user_id, t.authorization_revision, ?2, ?3, ?4
  FROM turns t WHERE t.turn_id = ?1",
            binds: vec![
                (&run.turn_id).into(),
                answer.content_key.into(),
                answer.content_sealed.clone().into(),
                now.into(),
            ],
        },
        Statement {
            name: "advance_head",
            sql:
                "UPDATE user_heads SET revision = revision + 1, running_turn = NULL, run_token = NULL, run_until = NULL
WHERE user_id = ?1",
            binds: vec![(&run.user_id).into()],
        },
        append_events(&run.turn_id, &events),
        store_answer(run, answer, now),
    ];
    if let Some(parts) = answer.parts {
        let turn_id = &run.turn_id;
        batch.extend(enqueue::reply_of_turn(&Reply { turn_id, parts, now }));
        batch.extend(channel::await_delivery(&run.turn_id, now));
    }
    batch
}

fn store_answer(run: &Run, answer: &Answer<'_>, now: Timestamp) -> Statement {
    Statement {
        name: "store_answer",
        sql: "UPDATE turns SET status = 'persisted', generation_status = 'completed', writeback_status = 'completed',
  context_revision_write = (SELECT h.revision FROM user_heads h WHERE h.user_id = ?2),
  model_provider = ?3, model_name = ?4, prompt_hash = ?5, response_hash = ?6,
  input_tokens = ?7, output_tokens = ?8, cost_microunits = ?9,
  generation_completed_at = ?10, durable_write_at = ?11, updated_at = ?11
WHERE turn_id = ?1
RETURNING context_revision_write",
        binds: vec![
            (&run.turn_id).into(),
            (&run.user_id).into(),
            answer.provider.into(),
            answer.model.into(),
            answer.prompt_hash.as_str().into(),
            answer.response_hash.as_str().into(),
            answer.usage.input_tokens.into(),
            answer.usage.output_tokens.into(),
            answer.usage.cost_microunits.into(),
            answer.generated_at.into(),
            now.into(),
        ],
    }
}

/// Reads the context revision out of a committed [`persist`].
pub fn revision_written(rows: &[Rows]) -> Result<i64, RowError> {
    rows.last()
        .and_then(Rows::first)
        .ok_or_else(missing)?
        .integer("context_revision_write")
}

/// Asks whether `run` stored its answer: the answer to a [`persist`] whose reply was lost.
pub fn stored_by_run(run: &Run) -> Statement {
    Statement {
        name: "stored_by_run",
        sql: "SELECT context_revision_write FROM turns
WHERE turn_id = ?1 AND run_token = ?2 AND context_revision_write IS NOT NULL",
        binds: vec![(&run.turn_id).into(), (&run.token).into()],
    }
}
