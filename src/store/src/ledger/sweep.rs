//! The sweep: finds what no one is working on any more. Every statement is safe to repeat and to overlap.

use domain::ids::{LeaseToken, UserId};
use domain::sql::{RowError, Rows, Statement};
use domain::time::{Millis, Timestamp};
use domain::turn::FailureCode;

/// How long a stored answer waits to be taken before its turn ends `response_not_committed`.
pub const HANDOVER_WINDOW: Millis = Millis::from_mins(10);

/// How many turns or users one sweep takes on.
pub const SWEEP_LIMIT: u32 = 200;

/// Takes the sweep's lease; a row comes back when it was free. It only spares work: overlapping is safe.
pub fn claim(token: &LeaseToken, now: Timestamp, until: Timestamp) -> Vec<Statement> {
    vec![Statement {
        name: "claim_sweep",
        sql: "UPDATE service_leases SET token = ?1, held_until = ?3
WHERE name = 'sweep' AND (held_until IS NULL OR held_until <= CAST(?2 AS INTEGER)) RETURNING name",
        binds: vec![token.into(), now.into(), until.into()],
    }]
}

/// Ends turns whose answers nobody took within [`HANDOVER_WINDOW`]. The last row set names them.
pub fn end_untaken(now: Timestamp) -> Vec<Statement> {
    let code = FailureCode::ResponseNotCommitted;
    let since = now.minus(HANDOVER_WINDOW);
    vec![
        Statement {
            name: "end_untaken_events",
            sql: "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT t.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = t.turn_id) + 1,
       'turn_terminal_failure', ?2, 'sweep', json_object('error_code', ?3)
  FROM turns t
 WHERE t.terminal_at IS NULL AND t.delivery_status <> 'pending' AND t.status = 'persisted' AND t.origin = 'direct'
   AND t.durable_write_at <= CAST(?1 AS INTEGER)
 ORDER BY t.user_id, t.arrival_no LIMIT CAST(?4 AS INTEGER)",
            binds: vec![since.into(), now.into(), code.as_str().into(), SWEEP_LIMIT.into()],
        },
        Statement {
            name: "end_untaken",
            sql: "UPDATE turns SET status = 'terminal_failure', error_class = ?3, error_code = ?4, retryable = ?5,
  terminal_at = ?2, updated_at = ?2
WHERE turn_id IN (SELECT t.turn_id FROM turns t
 WHERE t.terminal_at IS NULL AND t.delivery_status <> 'pending' AND t.status = 'persisted' AND t.origin = 'direct'
   AND t.durable_write_at <= CAST(?1 AS INTEGER)
 ORDER BY t.user_id, t.arrival_no LIMIT CAST(?6 AS INTEGER))
RETURNING turn_id",
            binds: vec![
                since.into(),
                now.into(),
                code.class().into(),
                code.as_str().into(),
                code.retryable().into(),
                SWEEP_LIMIT.into(),
            ],
        },
    ]
}

/// The users who have a turn that was accepted before `before` and still waits for an answer, and the epoch.
pub fn stuck_users(before: Timestamp) -> Vec<Statement> {
    vec![
        crate::ledger::epoch(),
        Statement {
            name: "stuck_users",
            // Those who have waited least come first: users whose objects keep failing must not hide everyone else.
            sql: "SELECT t.user_id FROM turns t
 WHERE t.terminal_at IS NULL AND t.delivery_status <> 'pending' AND t.status IN ('accepted', 'processing')
   AND t.origin IN ('direct', 'channel')
   AND t.accepted_at <= CAST(?1 AS INTEGER)
 GROUP BY t.user_id ORDER BY min(t.accepted_at) DESC LIMIT CAST(?2 AS INTEGER)",
            binds: vec![before.into(), SWEEP_LIMIT.into()],
        },
    ]
}

/// Reads the answer of [`stuck_users`]: the epoch and the users.
pub fn read_stuck_users(rows: &[Rows]) -> Result<(i64, Vec<UserId>), RowError> {
    let [epoch, users] = rows else {
        return Err(crate::wrong("", "two row sets"));
    };
    let epoch = epoch.first().map_or(Ok(0), |row| row.integer("epoch"))?;
    let users = users
        .rows
        .iter()
        .map(|row| crate::id(row, "user_id", UserId::parse))
        .collect::<Result<_, _>>()?;
    Ok((epoch, users))
}
