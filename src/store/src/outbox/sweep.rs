//! What nobody claims: rows whose time is over, that may no longer be sent or were tried too often, and gateways whose
//! order to send was lost. Every statement is safe to repeat and to overlap.

use domain::ids::{GatewayId, OutboxId, TurnId};
use domain::outbox::Status;
use domain::outbox::outcome::ErrorCode;
use domain::outbox::policy::{Policy, TELEGRAM};
use domain::sql::{RowError, Rows, Statement};
use domain::time::Timestamp;
use domain::turn::event::Actor;
use serde::Serialize;

use super::claim::still_authorized;
use super::ending::{self, idle};
use super::enqueue;
use crate::ledger::sweep::Round;
use crate::wrong;

/// How many rows or gateways one sweep takes on.
pub const SWEEP_LIMIT: u32 = 200;

/// The same for every channel there is: what is left of a row that was tried too often does not say who tried it.
const POLICY: Policy = TELEGRAM;

/// Why a row is ended without another try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is no longer worth sending.
    Expired,
    /// The person, their address or the gateway's leave to speak to them has changed.
    Unauthorized,
    /// Its lease ran out, and too often nobody could say whether the provider took it.
    Unconfirmed,
    /// Its lease ran out, and it has no attempts left.
    Exhausted,
    /// An operator wants it so.
    Withdrawn,
}

impl Why {
    const fn ends_as(self) -> (Status, ErrorCode) {
        match self {
            Self::Expired => (Status::Expired, ErrorCode::Expired),
            Self::Unauthorized => (Status::Cancelled, ErrorCode::AuthorizationChanged),
            Self::Unconfirmed => (Status::Failed, ErrorCode::Unconfirmed),
            Self::Exhausted => (Status::Failed, ErrorCode::AttemptsExhausted),
            Self::Withdrawn => (Status::Cancelled, ErrorCode::Withdrawn),
        }
    }
}

/// A row to be ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    pub outbox_id: OutboxId,
    pub turn_id: Option<TurnId>,
    pub why: Why,
}

/// The condition under which an idle row `m` is over, for each reason. `?2` is now, `?3` the most attempts of which
/// nobody knows.
macro_rules! expired {
    () => {
        "m.expires_at <= CAST(?2 AS INTEGER)"
    };
}
macro_rules! unconfirmed {
    () => {
        "(m.status = 'leased' AND m.ambiguous_count + 1 >= CAST(?3 AS INTEGER))"
    };
}
macro_rules! exhausted {
    () => {
        "(m.status = 'leased' AND m.attempt_count >= m.max_attempts)"
    };
}

/// Finds up to `limit` rows of each kind that are over; see [`read_over`].
pub fn over(now: Timestamp, limit: u32) -> Vec<Statement> {
    let binds = || vec![limit.into(), now.into(), crate::ledger::safe(POLICY.ambiguous_max)];
    vec![
        Statement {
            name: "expired_rows",
            sql: concat!(
                "SELECT m.outbox_id, m.turn_id FROM outbound_messages m WHERE ",
                idle!(),
                " AND ",
                expired!(),
                " ORDER BY m.expires_at LIMIT CAST(?1 AS INTEGER)"
            ),
            binds: vec![limit.into(), now.into()],
        },
        Statement {
            name: "unauthorized_rows",
            sql: concat!(
                "SELECT m.outbox_id, m.turn_id FROM outbound_messages m WHERE m.user_id IS NOT NULL AND ",
                idle!(),
                " AND NOT ",
                still_authorized!(),
                " LIMIT CAST(?1 AS INTEGER)"
            ),
            binds: vec![limit.into(), now.into()],
        },
        Statement {
            name: "overtried_rows",
            sql: concat!(
                "SELECT m.outbox_id, m.turn_id, ",
                unconfirmed!(),
                " AS unconfirmed FROM outbound_messages m
 WHERE m.lease_token IS NOT NULL AND ",
                idle!(),
                " AND (",
                unconfirmed!(),
                " OR ",
                exhausted!(),
                ") LIMIT CAST(?1 AS INTEGER)"
            ),
            binds: binds(),
        },
    ]
}

/// Reads the answer of [`over`].
pub fn read_over(rows: &[Rows]) -> Result<Vec<Over>, RowError> {
    let [expired, unauthorized, overtried] = rows else {
        return Err(wrong("", "three row sets"));
    };
    let mut found: Vec<Over> = Vec::new();
    for (rows, kind) in [
        (expired, Some(Why::Expired)),
        (unauthorized, Some(Why::Unauthorized)),
        (overtried, None),
    ] {
        for row in &rows.rows {
            let outbox_id = crate::id(row, "outbox_id", OutboxId::parse)?;
            if found.iter().any(|over| over.outbox_id == outbox_id) {
                continue;
            }
            let why = match kind {
                Some(why) => why,
                None if row.flag("unconfirmed")? => Why::Unconfirmed,
                None => Why::Exhausted,
            };
            let turn_id = match row.optional_text("turn_id")? {
                Some(text) => Some(TurnId::parse(text).map_err(|_| wrong("turn_id", "a turn's id"))?),
                None => None,
            };
            found.push(Over {
                outbox_id,
                turn_id,
                why,
            });
        }
    }
    Ok(found)
}

#[derive(Serialize)]
struct Item<'a> {
    id: &'a str,
    status: &'static str,
    code: &'static str,
}

/// Rows `m` of the list `?1` that really are over as of `?2`.
macro_rules! really_over {
    () => {
        concat!(
            idle!(),
            " AND CASE s.value ->> 'code' WHEN 'expired' THEN ",
            expired!(),
            "
     WHEN 'authorization_changed' THEN NOT ",
            still_authorized!(),
            "
     WHEN 'unconfirmed' THEN ",
            unconfirmed!(),
            " WHEN 'attempts_exhausted' THEN ",
            exhausted!(),
            "
     WHEN 'withdrawn' THEN 1 END"
        )
    };
}

/// Ends those of `rows` that still are over and that nobody holds, the rest of their replies with them, and concludes
/// their turns. The last row set says how each of them stands; see [`read_ended`].
pub fn end(rows: &[Over], actor: Actor, now: Timestamp) -> Vec<Statement> {
    let items: Vec<Item<'_>> = rows
        .iter()
        .map(|over| {
            let (status, code) = over.why.ends_as();
            Item {
                id: over.outbox_id.as_str(),
                status: status.as_str(),
                code: code.as_str(),
            }
        })
        .collect();
    // Names always serialise.
    let list = serde_json::to_string(&items).unwrap_or_else(|_| "[]".to_owned());
    let ids: Vec<&OutboxId> = rows.iter().map(|over| &over.outbox_id).collect();
    let turns: Vec<&TurnId> = rows.iter().filter_map(|over| over.turn_id.as_ref()).collect();
    let mut batch = end_rows(&list, actor, now);
    batch.extend(ending::cancel_rest_beside(&ids, actor, now));
    batch.extend(enqueue::notices_of_failed(&turns, actor, now));
    batch.extend(ending::conclude_turns_beside(&ids, actor, now));
    batch.push(Statement {
        name: "ended_rows",
        sql: "SELECT m.outbox_id, m.status FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value",
        binds: vec![ending::ids_json(&ids).into()],
    });
    batch
}

fn end_rows(list: &str, actor: Actor, now: Timestamp) -> Vec<Statement> {
    let most = || crate::ledger::safe(POLICY.ambiguous_max);
    vec![
        Statement {
            name: "end_attempts",
            sql: concat!(
                "UPDATE outbound_attempts SET finished_at = ?2, outcome = 'ambiguous', error_class = 'crash',
  error_code = 'lease_lost'
WHERE finished_at IS NULL AND outbox_id IN
  (SELECT m.outbox_id FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value ->> 'id' WHERE ",
                really_over!(),
                ")"
            ),
            binds: vec![list.into(), now.into(), most()],
        },
        Statement {
            name: "end_rows_events",
            sql: concat!(
                "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT m.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = m.turn_id)
       + row_number() OVER (PARTITION BY m.turn_id ORDER BY m.lane_no),
       'delivery_terminal_failure', ?2, ?4,
       json_object('part', m.part_no, 'send_error_class', 'policy', 'send_error_code', s.value ->> 'code')
  FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value ->> 'id'
 WHERE m.turn_id IS NOT NULL AND m.origin <> 'notice' AND ",
                really_over!()
            ),
            binds: vec![list.into(), now.into(), most(), actor.as_str().into()],
        },
        Statement {
            name: "end_rows",
            sql: concat!(
                "UPDATE outbound_messages AS m SET status = s.value ->> 'status', terminal_at = ?2, updated_at = ?2,
  ambiguous_count = m.ambiguous_count + (m.status = 'leased'),
  last_error_class = 'policy', last_error_code = s.value ->> 'code', lease_owner = NULL, lease_token = NULL,
  lease_expires_at = NULL, destination_master_version = NULL, destination_sealed = NULL
  FROM json_each(?1) s WHERE m.outbox_id = s.value ->> 'id' AND ",
                really_over!()
            ),
            binds: vec![list.into(), now.into(), most()],
        },
    ]
}

/// Reads how the rows of [`end`] stand now.
pub fn read_ended(rows: &[Rows]) -> Result<Vec<(OutboxId, Status)>, RowError> {
    let ended = rows.last().ok_or_else(|| wrong("", "what was ended"))?;
    let read = |row: &domain::sql::Row| {
        let status = Status::parse(row.text("status")?).ok_or_else(|| wrong("status", "a row's status"))?;
        Ok((crate::id(row, "outbox_id", OutboxId::parse)?, status))
    };
    ended.rows.iter().map(read).collect()
}

/// Gateways `g` that are open, that the service sends for and of which something is due that nobody holds. `?1` is now.
macro_rules! due {
    () => {
        "g.status = 'active' AND g.channel_token_sealed IS NOT NULL
   AND NOT EXISTS (SELECT 1 FROM send_pacing p WHERE p.gateway_id = g.gateway_id AND p.next_at > CAST(?1 AS INTEGER))
   AND EXISTS (SELECT 1 FROM outbound_messages m WHERE m.gateway_id = g.gateway_id AND m.terminal_at IS NULL
     AND m.next_attempt_at <= CAST(?1 AS INTEGER) AND m.expires_at > CAST(?1 AS INTEGER)
     AND (m.status IN ('pending', 'retry') OR (m.status = 'leased' AND m.lease_expires_at <= CAST(?1 AS INTEGER))))"
    };
}

/// The gateways of which something is due that nobody is at, and the epoch; see [`read_due_gateways`]. First those
/// behind the mark of [`Round::Orders`], then those before it.
pub fn due_gateways(now: Timestamp) -> Vec<Statement> {
    let binds = || vec![now.into(), SWEEP_LIMIT.into(), Round::Orders.name().into()];
    vec![
        crate::ledger::epoch(),
        Statement {
            name: "due_gateways_behind",
            sql: concat!(
                "SELECT g.gateway_id FROM gateways g WHERE ",
                due!(),
                "
   AND g.gateway_id > ifnull((SELECT l.place FROM service_leases l WHERE l.name = ?3), '')
 ORDER BY g.gateway_id LIMIT CAST(?2 AS INTEGER)"
            ),
            binds: binds(),
        },
        Statement {
            name: "due_gateways_before",
            sql: concat!(
                "SELECT g.gateway_id FROM gateways g WHERE ",
                due!(),
                "
   AND g.gateway_id <= (SELECT l.place FROM service_leases l WHERE l.name = ?3)
 ORDER BY g.gateway_id LIMIT CAST(?2 AS INTEGER)"
            ),
            binds: binds(),
        },
    ]
}

/// The gateways to be sent for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueGateways {
    pub epoch: i64,
    /// At most [`SWEEP_LIMIT`], in the order of the round.
    pub gateways: Vec<GatewayId>,
    /// Whether there are more; then the next sweep goes on behind the last one.
    pub more: bool,
}

/// Reads the answer of [`due_gateways`].
pub fn read_due_gateways(rows: &[Rows]) -> Result<DueGateways, RowError> {
    let [epoch, behind, before] = rows else {
        return Err(wrong("", "three row sets"));
    };
    let epoch = epoch.first().map_or(Ok(0), |row| row.integer("epoch"))?;
    let limit = usize::try_from(SWEEP_LIMIT).unwrap_or(usize::MAX);
    let found = behind.rows.len().saturating_add(before.rows.len());
    let gateways = behind
        .rows
        .iter()
        .chain(&before.rows)
        .take(limit)
        .map(|row| crate::id(row, "gateway_id", GatewayId::parse))
        .collect::<Result<_, _>>()?;
    let more = found >= limit;
    Ok(DueGateways { epoch, gateways, more })
}
