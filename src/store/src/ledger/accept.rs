//! Accepting a message: one batch in which the turn, its first event and the encrypted words appear together.

use domain::guard::Guard;
use domain::http::context::RequestContext;
use domain::ids::{ConversationId, DataKeyId};
use domain::session::SessionAuthority;
use domain::sql::{RowError, Rows, Statement, Value};
use domain::time::Timestamp;
use domain::turn::EventType;
use domain::turn::event::{Actor, Event, Metadata};

use crate::channels::dedup::{self, Record};
use crate::channels::sender::{self, SenderSeen};
pub use crate::ledger::place::{ConversationSeen, Place};
use crate::ledger::{append_events, epoch_current};
use crate::{keys, token};

/// The way a message came in.
#[derive(Clone, Copy)]
pub enum Entry<'a> {
    /// A client or a gateway handed it in with a token of its own.
    Direct,
    /// A channel delivered it.
    Channel(&'a Arrival<'a>),
}

/// What is known of a channel's message besides its context.
pub struct Arrival<'a> {
    pub sender: &'a SenderSeen<'a>,
    /// How the update is remembered.
    pub record: &'a Record<'a>,
}

/// A message about to become a turn.
pub struct Acceptance<'a> {
    pub entry: Entry<'a>,
    pub context: &'a RequestContext,
    pub request_hash: &'a str,
    pub place: &'a Place,
    pub epoch: i64,
    pub content_key: &'a DataKeyId,
    pub content_sealed: Vec<u8>,
    pub now: Timestamp,
}

/// The batch that makes `a` a turn. Its last row set gives the arrival number; see [`arrival_no`].
///
/// Refused by `token_current`, `key_live`, `epoch_current`, `key_unused` or `session_current`; a channel's message by
/// `ingress_unused` and `sender_current` instead of the token and its key.
pub fn accept(a: &Acceptance<'_>) -> Vec<Statement> {
    let mut batch = entry_guards(a);
    batch.extend([
        keys::key_live(a.content_key),
        epoch_current(a.epoch),
        session_current(a.context, a.place),
        write_conversation(a),
    ]);
    if a.place.starts_session() {
        batch.push(insert_session(a));
    }
    batch.push(count_arrival(a));
    batch.push(insert_turn(a));
    batch.push(append_events(&a.context.turn_id, &first_events(a)));
    if let Entry::Channel(arrival) = a.entry {
        batch.push(dedup::record(arrival.record));
    }
    batch.push(insert_user_message(a));
    batch
}

fn entry_guards(a: &Acceptance<'_>) -> Vec<Statement> {
    let c = a.context;
    match a.entry {
        Entry::Direct => {
            let mut guards = token::may_act_for(&c.principal, &c.user_id, &c.family_id);
            guards.push(key_unused(c));
            guards
        }
        Entry::Channel(arrival) => vec![
            dedup::ingress_unused(arrival.record.gateway_id, arrival.record.ingress_hash),
            sender::sender_current(arrival.sender),
        ],
    }
}

fn first_events(a: &Acceptance<'_>) -> Vec<Event> {
    let accepted = |actor| {
        Event::new(EventType::EngineAccepted, a.now, actor).with(Metadata {
            new_session: Some(a.place.starts_session()),
            ..Metadata::default()
        })
    };
    match a.entry {
        Entry::Direct => vec![accepted(Actor::UserTurns)],
        Entry::Channel(_) => vec![
            Event::new(EventType::IngressReceived, a.context.received_at, Actor::Ingress),
            Event::new(EventType::IngressAuthenticated, a.now, Actor::Ingress),
            Event::new(EventType::IdentityResolved, a.now, Actor::Ingress),
            accepted(Actor::Ingress),
        ],
    }
}

/// Reads the arrival number out of a committed [`accept`].
pub fn arrival_no(rows: &[Rows]) -> Result<i64, RowError> {
    rows.last().and_then(Rows::first).map_or_else(
        || {
            Err(RowError {
                column: "arrival_no".to_owned(),
                expected: "a row of the accepted turn",
            })
        },
        |row| row.integer("arrival_no"),
    )
}

/// Looks up whether the turn of `context` exists: the answer to an acceptance whose reply was lost.
pub fn accepted_turn(context: &RequestContext) -> Statement {
    Statement {
        name: "accepted_turn",
        sql: "SELECT arrival_no FROM turns WHERE turn_id = ?1",
        binds: vec![(&context.turn_id).into()],
    }
}

fn key_unused(context: &RequestContext) -> Statement {
    Statement {
        name: Guard::KeyUnused.label(),
        sql: "INSERT INTO must(label, ok)
SELECT 'key_unused', NOT EXISTS (SELECT 1 FROM turns
  WHERE user_id = ?1 AND channel = ?2 AND idempotency_key_hash = ?3)",
        binds: vec![
            (&context.user_id).into(),
            context.channel.as_str().into(),
            context.idempotency_key_hash.as_str().into(),
        ],
    }
}

fn session_current(context: &RequestContext, place: &Place) -> Statement {
    match place {
        Place::Opens { .. } => Statement {
            name: Guard::SessionCurrent.label(),
            sql: "INSERT INTO must(label, ok)
SELECT 'session_current', NOT EXISTS (SELECT 1 FROM conversations
  WHERE user_id = ?1 AND channel = ?2 AND ifnull(gateway_id, '') = ifnull(?3, '') AND is_default = 1)",
            binds: vec![
                (&context.user_id).into(),
                context.channel.as_str().into(),
                context.gateway_id.as_ref().map_or(Value::Null, Value::from),
            ],
        },
        Place::Continues(seen) | Place::Resumes { seen, .. } => Statement {
            name: Guard::SessionCurrent.label(),
            sql: "INSERT INTO must(label, ok)
SELECT 'session_current', EXISTS (SELECT 1 FROM conversations
  WHERE conversation_id = ?1 AND user_id = ?2 AND session_id = ?3 AND last_message_at = CAST(?4 AS INTEGER))",
            binds: vec![
                (&seen.conversation_id).into(),
                (&context.user_id).into(),
                (&seen.session_id).into(),
                seen.last_message_at.into(),
            ],
        },
    }
}

fn write_conversation(a: &Acceptance<'_>) -> Statement {
    let context = a.context;
    match a.place {
        Place::Opens { conversation_id, session_id } => Statement {
            name: "open_conversation",
            sql: "INSERT INTO conversations (conversation_id, user_id, family_id, channel, gateway_id, is_default,
  visibility_scope, subject_user_id, created_by_user_id, authorization_revision, session_id, last_message_at, created_at)
SELECT ?1, u.user_id, u.family_id, ?3, ?4, 1, 'user_private', u.user_id, u.user_id, u.authorization_revision, ?5, ?6, ?6
  FROM users u WHERE u.user_id = ?2",
            binds: vec![
                conversation_id.into(),
                (&context.user_id).into(),
                context.channel.as_str().into(),
                context.gateway_id.as_ref().map_or(Value::Null, Value::from),
                session_id.into(),
                a.now.into(),
            ],
        },
        Place::Continues(_) | Place::Resumes { .. } => Statement {
            name: "touch_conversation",
            // A clock that went back must not shorten the gap that the next message is measured by.
            sql: "UPDATE conversations SET session_id = ?2, last_message_at = max(last_message_at, CAST(?3 AS INTEGER))
WHERE conversation_id = ?1",
            binds: vec![a.place.conversation_id().into(), a.place.session_id().into(), a.now.into()],
        },
    }
}

fn insert_session(a: &Acceptance<'_>) -> Statement {
    Statement {
        name: "insert_session",
        sql: "INSERT INTO sessions (session_id, user_id, family_id, conversation_id, authority, started_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        binds: vec![
            a.place.session_id().into(),
            (&a.context.user_id).into(),
            (&a.context.family_id).into(),
            a.place.conversation_id().into(),
            SessionAuthority::EngineGap.as_str().into(),
            a.now.into(),
        ],
    }
}

fn count_arrival(a: &Acceptance<'_>) -> Statement {
    Statement {
        name: "count_arrival",
        sql: "INSERT INTO user_heads (user_id, arrivals) VALUES (?1, 1)
ON CONFLICT (user_id) DO UPDATE SET arrivals = arrivals + 1",
        binds: vec![(&a.context.user_id).into()],
    }
}

fn insert_turn(a: &Acceptance<'_>) -> Statement {
    let context = a.context;
    let (origin, ingress, address) = match a.entry {
        Entry::Direct => ("direct", Value::Null, Value::Null),
        Entry::Channel(arrival) => (
            "channel",
            arrival.record.ingress_hash.into(),
            arrival.sender.sender.address_id.as_str().into(),
        ),
    };
    Statement {
        name: "insert_turn",
        sql: "INSERT INTO turns (turn_id, origin, request_id, client_request_id, trace_id, parent_turn_id,
  idempotency_key_hash, request_hash, family_id, user_id, conversation_id, channel, gateway_id, source_address_hash,
  locale, timezone, visibility_scope, subject_user_id, created_by_user_id, authorization_revision,
  session_id, session_authority, arrival_no, history_watermark, context_revision_read,
  status, generation_status, writeback_status, delivery_status, accepted_at, deadline_at, updated_at,
  external_ingress_hash, address_id)
SELECT ?1, ?19, ?2, ?3, ?4, ?5, ?6, ?7, u.family_id, u.user_id, ?9, ?10, ?11, ?12, ?13, ?14,
  'user_private', u.user_id, u.user_id, u.authorization_revision, ?15, ?16, h.arrivals,
  ifnull((SELECT max(m.arrival_no) FROM messages m WHERE m.conversation_id = ?9), 0), h.revision,
  'accepted', 'not_started', 'not_started', 'not_required', ?17, ?18, ?17, ?20, ?21
  FROM user_heads h JOIN users u ON u.user_id = h.user_id WHERE h.user_id = ?8",
        binds: vec![
            (&context.turn_id).into(),
            (&context.request_id).into(),
            context.client_request_id.clone().into(),
            context.trace_id.as_str().into(),
            context.parent_turn_id.as_ref().map_or(Value::Null, Value::from),
            context.idempotency_key_hash.as_str().into(),
            a.request_hash.into(),
            (&context.user_id).into(),
            a.place.conversation_id().into(),
            context.channel.as_str().into(),
            context.gateway_id.as_ref().map_or(Value::Null, Value::from),
            context.source_address_hash.clone().into(),
            context.locale.clone().into(),
            context.timezone.clone().into(),
            a.place.session_id().into(),
            SessionAuthority::EngineGap.as_str().into(),
            a.now.into(),
            context.deadline_at.into(),
            origin.into(),
            ingress,
            address,
        ],
    }
}

fn insert_user_message(a: &Acceptance<'_>) -> Statement {
    Statement {
        name: "insert_user_message",
        sql: "INSERT INTO messages (conversation_id, arrival_no, role, turn_id, user_id, family_id, session_id,
  visibility_scope, subject_user_id, created_by_user_id, authorization_revision, content_key_id, content_sealed,
  created_at)
SELECT t.conversation_id, t.arrival_no, 'user', t.turn_id, t.user_id, t.family_id, t.session_id,
  t.visibility_scope, t.subject_user_id, t.created_by_user_id, t.authorization_revision, ?2, ?3, ?4
  FROM turns t WHERE t.turn_id = ?1
RETURNING arrival_no",
        binds: vec![
            (&a.context.turn_id).into(),
            a.content_key.into(),
            a.content_sealed.clone().into(),
            a.now.into(),
        ],
    }
}

/// Everything that has to be known before a message is accepted, in one read; see [`Facts::read`].
pub fn read_facts(context: &RequestContext, conversation: Option<&ConversationId>) -> Vec<Statement> {
    vec![
        token::freshness(&context.principal),
        crate::ledger::epoch(),
        keys::live_key_of_user(&context.user_id),
        crate::ledger::read::turn_by_key(context),
        find_conversation(context, conversation),
    ]
}

fn find_conversation(context: &RequestContext, named: Option<&ConversationId>) -> Statement {
    match named {
        Some(id) => Statement {
            name: "conversation_by_id",
            sql: "SELECT conversation_id, session_id, last_message_at, is_default FROM conversations
WHERE conversation_id = ?1 AND user_id = ?2 AND channel = ?3 AND ifnull(gateway_id, '') = ifnull(?4, '')",
            binds: vec![
                id.into(),
                (&context.user_id).into(),
                context.channel.as_str().into(),
                context.gateway_id.as_ref().map_or(Value::Null, Value::from),
            ],
        },
        None => Statement {
            name: "default_conversation",
            sql: "SELECT conversation_id, session_id, last_message_at, is_default FROM conversations
WHERE user_id = ?1 AND channel = ?2 AND ifnull(gateway_id, '') = ifnull(?3, '') AND is_default = 1",
            binds: vec![
                (&context.user_id).into(),
                context.channel.as_str().into(),
                context.gateway_id.as_ref().map_or(Value::Null, Value::from),
            ],
        },
    }
}

/// What [`read_facts`] found.
pub struct Facts {
    pub fresh: bool,
    pub epoch: i64,
    pub key: Option<keys::KeyRow>,
    /// The turn that already stands under the same idempotency key.
    pub prior: Option<crate::ledger::read::TurnRecord>,
    pub conversation: Option<ConversationSeen>,
}

impl Facts {
    /// Reads the rows of [`read_facts`].
    pub fn read(rows: &[Rows]) -> Result<Self, RowError> {
        let [fresh, epoch, key, prior, conversation] = rows else {
            return Err(RowError {
                column: String::new(),
                expected: "five row sets",
            });
        };
        Ok(Self {
            fresh: token::is_fresh(fresh)?,
            epoch: epoch.first().map_or(Ok(0), |row| row.integer("epoch"))?,
            key: key.first().map(keys::KeyRow::read).transpose()?,
            prior: prior.first().map(crate::ledger::read::TurnRecord::read).transpose()?,
            conversation: conversation.first().map(ConversationSeen::read).transpose()?,
        })
    }
}
