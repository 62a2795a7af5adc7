//! The sweep: finds what no one is working on any more. Every statement is safe to repeat and to overlap.
//!
//! What there may be much of is taken in rounds: each sweep takes on a part and leaves a mark where the next one goes
//! on, so that nothing that keeps failing hides anything else.

use domain::ids::{LeaseToken, UserId};
use domain::sql::{RowError, Rows, Statement};
use domain::time::{Millis, Timestamp};
use domain::turn::FailureCode;

/// How long a stored answer waits to be taken before its turn ends `response_not_committed`.
pub const HANDOVER_WINDOW: Millis = Millis::from_mins(10);

/// How many turns or users one sweep takes on.
pub const SWEEP_LIMIT: u32 = 200;

/// What is done under a lease of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    Sweep,
    Funnel,
}

impl Duty {
    const fn name(self) -> &'static str {
        match self {
            Self::Sweep => "sweep",
            Self::Funnel => "funnel",
        }
    }
}

/// Takes a duty's lease; see [`read_claim`]. It only spares work: overlapping is safe.
pub fn claim(duty: Duty, token: &LeaseToken, now: Timestamp, until: Timestamp) -> Vec<Statement> {
    vec![Statement {
        name: "claim_duty",
        sql: "UPDATE service_leases SET token = ?1, held_until = ?3
WHERE name = ?4 AND (held_until IS NULL OR held_until <= CAST(?2 AS INTEGER)) RETURNING name",
        binds: vec![token.into(), now.into(), until.into(), duty.name().into()],
    }]
}

/// Whether [`claim`] took the lease.
pub fn read_claim(rows: &[Rows]) -> bool {
    rows.first().is_some_and(|rows| !rows.rows.is_empty())
}

/// A round that takes several sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// Over the people whose turns wait for an answer.
    Waking,
    /// Over the turns that wait for a delivery.
    Repair,
    /// Over the gateways of which something is due.
    Orders,
}

impl Round {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Waking => "sweep",
            Self::Repair => "repair",
            Self::Orders => "orders",
        }
    }
}

/// Leaves the mark of a round.
pub fn keep_place(round: Round, place: Option<&str>) -> Statement {
    Statement {
        name: "keep_place",
        sql: "UPDATE service_leases SET place = ?2 WHERE name = ?1 AND place IS NOT ?2",
        binds: vec![round.name().into(), place.map(str::to_owned).into()],
    }
}

/// Ends turns whose answers nobody took within [`HANDOVER_WINDOW`]. The last row set names them.
///
/// Only turns whose client was to take the answer itself: what goes out through a channel waits in the outbox.
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

/// The users who have a turn that was accepted before `before` and still waits for an answer, and the epoch; see
/// [`read_stuck_users`]. First those behind the mark of [`Round::Waking`], then those before it.
pub fn stuck_users(before: Timestamp) -> Vec<Statement> {
    vec![
        crate::ledger::epoch(),
        Statement {
            name: "stuck_users_behind",
            sql: "SELECT t.user_id FROM turns t
 WHERE t.terminal_at IS NULL AND t.delivery_status <> 'pending' AND t.status IN ('accepted', 'processing')
   AND t.origin IN ('direct', 'channel') AND t.accepted_at <= CAST(?1 AS INTEGER)
   AND t.user_id > ifnull((SELECT l.place FROM service_leases l WHERE l.name = ?3), '')
 GROUP BY t.user_id ORDER BY t.user_id LIMIT CAST(?2 AS INTEGER)",
            binds: vec![before.into(), SWEEP_LIMIT.into(), Round::Waking.name().into()],
        },
        Statement {
            name: "stuck_users_before",
            sql: "SELECT t.user_id FROM turns t
 WHERE t.terminal_at IS NULL AND t.delivery_status <> 'pending' AND t.status IN ('accepted', 'processing')
   AND t.origin IN ('direct', 'channel') AND t.accepted_at <= CAST(?1 AS INTEGER)
   AND t.user_id <= (SELECT l.place FROM service_leases l WHERE l.name = ?3)
 GROUP BY t.user_id ORDER BY t.user_id LIMIT CAST(?2 AS INTEGER)",
            binds: vec![before.into(), SWEEP_LIMIT.into(), Round::Waking.name().into()],
        },
    ]
}

/// Who is to be woken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckUsers {
    pub epoch: i64,
    /// At most [`SWEEP_LIMIT`], in the order of the round.
    pub users: Vec<UserId>,
    /// Whether there are more; then the next sweep goes on behind the last one.
    pub more: bool,
}

/// Reads the answer of [`stuck_users`].
pub fn read_stuck_users(rows: &[Rows]) -> Result<StuckUsers, RowError> {
    let [epoch, behind, before] = rows else {
        return Err(crate::wrong("", "three row sets"));
    };
    let epoch = epoch.first().map_or(Ok(0), |row| row.integer("epoch"))?;
    let limit = usize::try_from(SWEEP_LIMIT).unwrap_or(usize::MAX);
    let found = behind.rows.len().saturating_add(before.rows.len());
    let users = behind
        .rows
        .iter()
        .chain(&before.rows)
        .take(limit)
        .map(|row| crate::id(row, "user_id", UserId::parse))
        .collect::<Result<_, _>>()?;
    let more = found >= limit;
    Ok(StuckUsers { epoch, users, more })
}
