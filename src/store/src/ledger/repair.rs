//! Turns that wait for a delivery though every message of theirs has ended. The batch that ends a turn's last message
//! ends the turn, so there should never be one; if there is, it is put right and counted.

use domain::ids::TurnId;
use domain::sql::{RowError, Rows, Statement};
use domain::time::Timestamp;
use domain::turn::FailureCode;

use crate::ledger::sweep::Round;

/// How many turns that wait for a delivery one sweep looks at.
pub const REPAIR_LIMIT: u32 = 500;

/// What a sweep's look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stranded {
    pub turns: Vec<TurnId>,
    /// Where the next look goes on; `None`: it begins anew.
    pub place: Option<String>,
}

/// Looks at the next [`REPAIR_LIMIT`] turns of [`Round::Repair`]; see [`read_stranded`].
pub fn stranded() -> Vec<Statement> {
    vec![Statement {
        name: "stranded_turns",
        sql: "SELECT t.user_id, t.turn_id, NOT EXISTS (SELECT 1 FROM outbound_messages m
   WHERE m.turn_id = t.turn_id AND m.origin <> 'notice' AND m.terminal_at IS NULL) AS stranded
  FROM turns t
 WHERE t.delivery_status = 'pending'
   AND (t.user_id, t.turn_id) > (SELECT ifnull(l.place ->> '$[0]', ''), ifnull(l.place ->> '$[1]', '')
     FROM service_leases l WHERE l.name = ?1)
 ORDER BY t.user_id, t.turn_id LIMIT CAST(?2 AS INTEGER)",
        binds: vec![Round::Repair.name().into(), REPAIR_LIMIT.into()],
    }]
}

/// Reads the answer of [`stranded`].
pub fn read_stranded(rows: &[Rows]) -> Result<Stranded, RowError> {
    let rows = rows.first().ok_or_else(|| crate::wrong("", "a row set"))?;
    let full = rows.rows.len() >= usize::try_from(REPAIR_LIMIT).unwrap_or(usize::MAX);
    let last = rows.rows.last().filter(|_| full);
    let place = last
        .map(|row| Ok(format!("[\"{}\",\"{}\"]", row.text("user_id")?, row.text("turn_id")?)))
        .transpose()?;
    let mut turns = Vec::new();
    for row in &rows.rows {
        if row.flag("stranded")? {
            turns.push(crate::id(row, "turn_id", TurnId::parse)?);
        }
    }
    Ok(Stranded { turns, place })
}

/// How a turn `t` ended whose messages have: NULL when the provider took all of them.
macro_rules! verdict {
    () => {
        "(SELECT CASE WHEN count(*) = 0 OR max(o.status = 'failed') THEN 'delivery_failed'
       WHEN max(o.status = 'expired') THEN 'delivery_expired'
       WHEN max(o.status = 'cancelled') THEN 'delivery_cancelled' END
     FROM outbound_messages o WHERE o.turn_id = t.turn_id AND o.origin <> 'notice')"
    };
}

/// The turns named in `?1` that are stranded still, each with its verdict.
macro_rules! judged {
    () => {
        concat!(
            "(SELECT t.turn_id, ",
            verdict!(),
            " AS code FROM json_each(?1) s JOIN turns t ON t.turn_id = s.value
   WHERE t.delivery_status = 'pending' AND t.status = 'delivery_pending'
     AND NOT EXISTS (SELECT 1 FROM outbound_messages m WHERE m.turn_id = t.turn_id AND m.origin <> 'notice'
       AND m.terminal_at IS NULL))"
        )
    };
}

/// Ends those of `turns` that still are stranded, as their messages ended. The last row set names them.
pub fn repair(turns: &[TurnId], now: Timestamp) -> Vec<Statement> {
    // Ids always serialise.
    let turns = serde_json::to_string(turns).unwrap_or_else(|_| "[]".to_owned());
    vec![
        Statement {
            name: "repair_turns_events",
            sql: concat!(
                "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT c.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = c.turn_id) + 1,
       iif(c.code IS NULL, 'turn_terminal_success', 'turn_terminal_failure'), ?2, 'sweep',
       iif(c.code IS NULL, '{}', json_object('error_code', c.code))
  FROM ",
                judged!(),
                " c"
            ),
            binds: vec![turns.as_str().into(), now.into()],
        },
        Statement {
            name: "repair_turns",
            sql: concat!(
                "UPDATE turns SET terminal_at = ?2, updated_at = ?2,
  status = iif(c.code IS NULL, 'terminal_success', 'terminal_failure'),
  delivery_status = iif(c.code IS NULL, 'accepted', 'failed'),
  error_class = iif(c.code IS NULL, NULL, ?3), error_code = c.code,
  retryable = iif(c.code IS NULL, NULL, c.code = ?4)
  FROM ",
                judged!(),
                " c
 WHERE turns.turn_id = c.turn_id RETURNING turn_id"
            ),
            binds: vec![
                turns.into(),
                now.into(),
                FailureCode::DeliveryFailed.class().into(),
                // The only way in which a delivery fails that another message may well escape.
                FailureCode::DeliveryExpired.as_str().into(),
            ],
        },
    ]
}
