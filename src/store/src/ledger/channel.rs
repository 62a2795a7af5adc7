//! Turns that came through a channel: their answers go into the outbox in the batch that stores them.

use domain::ids::{GatewayId, TurnId};
use domain::outbox::SendChannel;
use domain::sql::{Row, RowError, Statement};
use domain::time::Timestamp;
use domain::turn::FailureCode;

/// The origin of turns whose answers go back through a channel.
const ORIGIN: &str = "channel";

/// The channel that a turn came through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    pub channel: SendChannel,
    pub gateway_id: GatewayId,
}

impl Through {
    /// Reads the columns `origin`, `channel` and `gateway_id`; `None` for a turn that came through none.
    pub(crate) fn read(row: &Row) -> Result<Option<Self>, RowError> {
        if row.text("origin")? != ORIGIN {
            return Ok(None);
        }
        Ok(Some(Self {
            channel: SendChannel::parse(row.text("channel")?).ok_or_else(|| crate::wrong("channel", "a channel"))?,
            gateway_id: crate::id(row, "gateway_id", GatewayId::parse)?,
        }))
    }
}

/// Has the turn, whose answer was just stored, wait for its delivery; where nothing went into the outbox, since its
/// address is no longer to be spoken to, the turn ends and the answer can still be read. The last row set holds
/// `context_revision_write`.
pub(super) fn await_delivery(turn: &TurnId, now: Timestamp) -> Vec<Statement> {
    let code = FailureCode::DeliveryCancelled;
    vec![
        Statement {
            name: "await_delivery_event",
            sql: "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT ?1, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = ?1) + 1,
       iif(q.parts > 0, 'outbox_enqueued', 'turn_terminal_failure'), ?2, 'user_turns',
       iif(q.parts > 0, json_object('parts', q.parts), json_object('error_code', ?3))
  FROM (SELECT count(*) AS parts FROM outbound_messages m WHERE m.turn_id = ?1 AND m.origin <> 'notice') q",
            binds: vec![turn.into(), now.into(), code.as_str().into()],
        },
        Statement {
            name: "await_delivery",
            sql: "UPDATE turns SET status = iif(q.queued, 'delivery_pending', 'terminal_failure'),
  delivery_status = iif(q.queued, 'pending', 'failed'),
  error_class = iif(q.queued, NULL, ?3), error_code = iif(q.queued, NULL, ?4), retryable = iif(q.queued, NULL, ?5),
  terminal_at = iif(q.queued, NULL, CAST(?2 AS INTEGER)), updated_at = ?2
  FROM (SELECT EXISTS (SELECT 1 FROM outbound_messages m WHERE m.turn_id = ?1 AND m.origin <> 'notice') AS queued) q
WHERE turn_id = ?1
RETURNING context_revision_write",
            binds: vec![
                turn.into(),
                now.into(),
                code.class().into(),
                code.as_str().into(),
                code.retryable().into(),
            ],
        },
    ]
}
