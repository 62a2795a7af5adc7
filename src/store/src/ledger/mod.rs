//! The turn ledger: accepting, running, storing, handing over and ending turns.
//!
//! Each function builds one batch. Guards stand first, so a batch whose reason has gone writes nothing.

pub mod accept;
pub mod catalogue;
pub mod channel;
pub mod deliveries;
pub mod failure;
pub mod funnel;
pub mod handover;
pub mod place;
pub mod read;
pub mod repair;
pub mod run;
pub mod sweep;

use domain::ids::TurnId;
use domain::sql::{Statement, Value};
use domain::turn::event::Event;

/// Appends `events` to the turn's history, numbered on from the last one.
pub(crate) fn append_events(turn: &TurnId, events: &[Event]) -> Statement {
    Statement {
        name: "append_events",
        sql: "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, attempt_no, metadata_json)
SELECT ?1,
       (SELECT ifnull(max(sequence_no), 0) FROM turn_events WHERE turn_id = ?1) + 1 + e.key,
       e.value ->> 'type', e.value ->> 'at', e.value ->> 'actor', e.value ->> 'attempt', e.value -> 'metadata'
  FROM json_each(?2) e",
        binds: vec![turn.into(), events_json(events)],
    }
}

fn events_json(events: &[Event]) -> Value {
    // Serialising these plain structs cannot fail; an empty list would lose history, and the gap would be seen.
    Value::Text(serde_json::to_string(events).unwrap_or_else(|_| "[]".to_owned()))
}

/// Reads the service's epoch.
pub fn epoch() -> Statement {
    Statement {
        name: "epoch",
        sql: "SELECT epoch FROM meta WHERE id = 1",
        binds: vec![],
    }
}

/// The guard that the service's epoch still is `epoch`.
pub fn epoch_current(epoch: i64) -> Statement {
    Statement {
        name: "epoch_current",
        sql: "INSERT INTO must(label, ok)
SELECT 'epoch_current', EXISTS (SELECT 1 FROM meta WHERE id = 1 AND epoch = CAST(?1 AS INTEGER))",
        binds: vec![safe(epoch)],
    }
}

/// A counter as a bound value; one that left the safe integers becomes NULL, which no guard accepts.
pub(crate) fn safe(value: i64) -> Value {
    Value::integer(value).unwrap_or(Value::Null)
}
