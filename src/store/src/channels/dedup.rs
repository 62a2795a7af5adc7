//! Every update of a channel, remembered under its provider's own id, so that a repetition is only counted.

use domain::guard::Guard;
use domain::ids::{GatewayId, OutboxId, TurnId, UserId};
use domain::sql::{RowError, Rows, Statement, Value};
use domain::time::Timestamp;

/// What was done with an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// It became a turn.
    Turn,
    /// It bound the chat to a person.
    Linked,
    /// Its code was not taken.
    LinkRefused,
    /// Its sender is not known; they were told how to become so, at most once a day.
    Unlinked,
    /// It ended the chat's bond.
    Stopped,
    Helped,
    /// It got a fixed reply.
    Answered,
    Ignored,
}

impl Disposition {
    /// The name as it is stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Linked => "linked",
            Self::LinkRefused => "link_refused",
            Self::Unlinked => "unlinked",
            Self::Stopped => "stopped",
            Self::Helped => "helped",
            Self::Answered => "answered",
            Self::Ignored => "ignored",
        }
    }
}

/// How an update is remembered. The hashes are keyed ones.
#[derive(Clone)]
pub struct Record<'a> {
    pub gateway_id: &'a GatewayId,
    pub ingress_hash: &'a str,
    pub payload_hash: &'a str,
    /// The provider's kind of update.
    pub kind: &'static str,
    pub disposition: Disposition,
    /// Whose it is, where that is known.
    pub user_id: Option<&'a UserId>,
    /// Exactly where it became a turn.
    pub turn_id: Option<&'a TurnId>,
    pub now: Timestamp,
}

/// What is remembered of an update that came before; see [`read_seen`].
pub fn seen(gateway: &GatewayId, ingress_hash: &str) -> Statement {
    Statement {
        name: "ingress_seen",
        sql: "SELECT payload_hash FROM inbound_dedup WHERE gateway_id = ?1 AND ingress_hash = ?2",
        binds: vec![gateway.into(), ingress_hash.into()],
    }
}

/// Reads the answer of [`seen`]: the payload's hash.
pub fn read_seen(rows: &Rows) -> Result<Option<String>, RowError> {
    rows.first()
        .map(|row| row.text("payload_hash").map(ToOwned::to_owned))
        .transpose()
}

/// The guard that the update was not handled before.
pub fn ingress_unused(gateway: &GatewayId, ingress_hash: &str) -> Statement {
    Statement {
        name: Guard::IngressUnused.label(),
        sql: "INSERT INTO must(label, ok)
SELECT 'ingress_unused', NOT EXISTS (SELECT 1 FROM inbound_dedup WHERE gateway_id = ?1 AND ingress_hash = ?2)",
        binds: vec![gateway.into(), ingress_hash.into()],
    }
}

/// Remembers the update. Behind the turn that it became, which it names.
pub fn record(record: &Record<'_>) -> Statement {
    Statement {
        name: "record_ingress",
        sql: "INSERT INTO inbound_dedup (gateway_id, ingress_hash, disposition, update_kind, user_id, turn_id,
  payload_hash, first_seen_at, last_seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)",
        binds: vec![
            record.gateway_id.into(),
            record.ingress_hash.into(),
            record.disposition.as_str().into(),
            record.kind.into(),
            record.user_id.map_or(Value::Null, Value::from),
            record.turn_id.map_or(Value::Null, Value::from),
            record.payload_hash.into(),
            record.now.into(),
        ],
    }
}

/// Counts a repetition of the update: with the payload it came with first, or with another, which is a conflict.
pub fn count_again(gateway: &GatewayId, ingress_hash: &str, payload_hash: &str, now: Timestamp) -> Statement {
    Statement {
        name: "count_ingress_again",
        sql: "UPDATE inbound_dedup SET last_seen_at = max(last_seen_at, CAST(?4 AS INTEGER)),
  duplicate_count = duplicate_count + (payload_hash = ?3), conflict_count = conflict_count + (payload_hash <> ?3)
WHERE gateway_id = ?1 AND ingress_hash = ?2",
        binds: vec![gateway.into(), ingress_hash.into(), payload_hash.into(), now.into()],
    }
}

/// A row if the notice of this id was made: another under the same key may have stood in its way.
pub fn notice_made(outbox_id: &OutboxId) -> Statement {
    Statement {
        name: "notice_made",
        sql: "SELECT outbox_id FROM outbound_messages WHERE outbox_id = ?1",
        binds: vec![outbox_id.into()],
    }
}
