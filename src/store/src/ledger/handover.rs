//! Handing an answer over: that the runtime took it, and that a client says it got it.

use domain::guard::Guard;
use domain::ids::{TurnId, UserId};
use domain::sql::Statement;
use domain::time::Timestamp;
use domain::turn::EventType;
use domain::turn::event::{AckType, Actor, Event, Metadata};

use crate::ledger::append_events;

/// Puts on record that the runtime took the whole answer, which was begun to be written at `started`.
///
/// A turn whose answer was given up as not taken keeps that ending; the later hand-over is one more event.
/// Refused by `turn_open` when the hand-over is on record already.
pub fn commit_response(turn: &TurnId, user: &UserId, started: Timestamp, taken: Timestamp) -> Vec<Statement> {
    let handed_over = [
        Event::new(EventType::ResponseCommitStarted, started, Actor::Edge),
        Event::new(EventType::ResponseCommitted, taken, Actor::Edge),
    ];
    vec![
        Statement {
            name: Guard::TurnOpen.label(),
            sql: "INSERT INTO must(label, ok)
SELECT 'turn_open', EXISTS (SELECT 1 FROM turns WHERE turn_id = ?1 AND user_id = ?2 AND response_committed_at IS NULL
  AND (status = 'persisted' OR (status = 'terminal_failure' AND error_code = 'response_not_committed')))",
            binds: vec![turn.into(), user.into()],
        },
        append_events(turn, &handed_over),
        Statement {
            name: "succeed_if_persisted",
            sql: "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor)
SELECT t.turn_id, (SELECT max(sequence_no) FROM turn_events WHERE turn_id = ?1) + 1, 'turn_terminal_success', ?2, 'edge'
  FROM turns t WHERE t.turn_id = ?1 AND t.status = 'persisted'",
            binds: vec![turn.into(), taken.into()],
        },
        Statement {
            name: "commit_response",
            sql: "UPDATE turns SET response_committed_at = ?2, updated_at = ?2,
  terminal_at = CASE status WHEN 'persisted' THEN CAST(?2 AS INTEGER) ELSE terminal_at END,
  status = CASE status WHEN 'persisted' THEN 'terminal_success' ELSE status END
WHERE turn_id = ?1",
            binds: vec![turn.into(), taken.into()],
        },
    ]
}

/// Puts on record that a client says it rendered or read the answer; each kind once, saying it again changes nothing.
///
/// Refused by `turn_open` when there is no answer.
pub fn acknowledge(
    turn: &TurnId,
    user: &UserId,
    ack: AckType,
    client_timestamp: Timestamp,
    now: Timestamp,
) -> Vec<Statement> {
    let metadata = Metadata {
        ack_type: Some(ack),
        client_timestamp: Some(client_timestamp),
        ..Metadata::default()
    };
    vec![
        Statement {
            name: Guard::TurnOpen.label(),
            sql: "INSERT INTO must(label, ok)
SELECT 'turn_open', EXISTS (SELECT 1 FROM turns t WHERE t.turn_id = ?1 AND t.user_id = ?2
    AND t.durable_write_at IS NOT NULL)",
            binds: vec![turn.into(), user.into()],
        },
        Statement {
            name: "append_acknowledgment",
            sql: "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT ?1, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = ?1) + 1,
       'client_acknowledged', ?2, 'client', ?3
 WHERE NOT EXISTS (SELECT 1 FROM turn_events e WHERE e.turn_id = ?1 AND e.event_type = 'client_acknowledged'
    AND e.metadata_json ->> 'ack_type' = ?4)",
            binds: vec![
                turn.into(),
                now.into(),
                serde_json::to_string(&metadata)
                    .unwrap_or_else(|_| "{}".to_owned())
                    .into(),
                ack.as_str().into(),
            ],
        },
        Statement {
            name: "acknowledge",
            sql: "UPDATE turns SET client_acknowledged_at = ifnull(client_acknowledged_at, CAST(?2 AS INTEGER)),
  updated_at = ?2 WHERE turn_id = ?1",
            binds: vec![turn.into(), now.into()],
        },
    ]
}
