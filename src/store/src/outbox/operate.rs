//! What operators do to the outbox. None of it touches a row that somebody holds under a live lease; where it says
//! which rows it changed, those are not among them.

use domain::ids::{GatewayId, OutboxId};
use domain::outbox::SendChannel;
use domain::sql::{RowError, Rows, Statement};
use domain::time::Timestamp;
use domain::turn::event::Actor;

use super::ending::idle;
use super::sweep::{Over, Why, end};

/// The row `?1` and the parts of the same reply behind it.
macro_rules! from_part_on {
    () => {
        "(SELECT ?1 UNION SELECT g.outbox_id FROM outbound_messages r JOIN outbound_messages g
     ON g.turn_id = r.turn_id AND g.group_id = r.group_id AND g.part_no > r.part_no WHERE r.outbox_id = ?1)"
    };
}

/// Sets a row aside, and the parts of its reply behind it: it is not sent, and holds up nobody else. It still expires.
/// The last row set names what was set aside; see [`read_ids`].
pub fn quarantine(row: &OutboxId, now: Timestamp) -> Vec<Statement> {
    vec![
        Statement {
            name: "quarantine_attempts",
            sql: concat!(
                "UPDATE outbound_attempts SET finished_at = ?2, outcome = 'ambiguous', error_class = 'crash',
  error_code = 'lease_lost'
WHERE finished_at IS NULL AND outbox_id IN (SELECT m.outbox_id FROM outbound_messages m WHERE m.outbox_id IN ",
                from_part_on!(),
                " AND ",
                idle!(),
                ")"
            ),
            binds: vec![row.into(), now.into()],
        },
        Statement {
            name: "quarantine",
            sql: concat!(
                "UPDATE outbound_messages AS m SET status = 'quarantined', updated_at = ?2,
  ambiguous_count = m.ambiguous_count + (m.status = 'leased'),
  lease_owner = NULL, lease_token = NULL, lease_expires_at = NULL
WHERE m.outbox_id IN ",
                from_part_on!(),
                " AND ",
                idle!(),
                " RETURNING outbox_id"
            ),
            binds: vec![row.into(), now.into()],
        },
    ]
}

/// Sends a row once more that was set aside or has ended without success, and the parts of its reply behind it, with
/// all its attempts anew and until `expires_at`. A turn that has ended stays as it ended. Whoever may no longer be
/// spoken to still is not, and a reply to a chat without a person cannot be sent again once it has ended.
/// The row set names what was put back; see [`read_ids`].
pub fn requeue(row: &OutboxId, expires_at: Timestamp, now: Timestamp) -> Vec<Statement> {
    vec![Statement {
        name: "requeue",
        sql: concat!(
            "UPDATE outbound_messages AS m SET status = 'pending', attempt_count = 0, ambiguous_count = 0,
  not_before = ?2, next_attempt_at = ?2, expires_at = ?3, terminal_at = NULL, updated_at = ?2,
  last_error_class = NULL, last_error_code = NULL
WHERE m.outbox_id IN ",
            from_part_on!(),
            " AND m.status IN ('quarantined', 'failed', 'expired', 'cancelled')
  AND (m.address_id IS NOT NULL OR m.destination_sealed IS NOT NULL)
RETURNING outbox_id"
        ),
        binds: vec![row.into(), now.into(), expires_at.into()],
    }]
}

/// Reads the ids that the last row set names.
pub fn read_ids(rows: &[Rows]) -> Result<Vec<OutboxId>, RowError> {
    let rows = rows.last().map_or(&[][..], |rows| rows.rows.as_slice());
    rows.iter()
        .map(|row| crate::id(row, "outbox_id", OutboxId::parse))
        .collect()
}

/// Ends a row that has not ended, and the parts of its reply behind it, without sending them. Read by
/// [`super::sweep::read_ended`].
pub fn withdraw(row: &OutboxId, now: Timestamp) -> Vec<Statement> {
    let over = Over {
        outbox_id: row.clone(),
        turn_id: None,
        why: Why::Withdrawn,
    };
    end(&[over], Actor::Edge, now)
}

/// What a switch stops or lets go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchScope<'a> {
    Global,
    Channel(SendChannel),
    Gateway(&'a GatewayId),
}

/// Lets sends go on or stops them. What is stopped waits, with no attempt charged, and expires in its time.
pub fn set_switch(scope: SwitchScope<'_>, enabled: bool, now: Timestamp) -> Statement {
    let (scope, target) = match scope {
        SwitchScope::Global => ("global", ""),
        SwitchScope::Channel(channel) => ("channel", channel.as_str()),
        SwitchScope::Gateway(gateway) => ("gateway", gateway.as_str()),
    };
    Statement {
        name: "set_switch",
        sql: "INSERT INTO send_switches (scope, target, enabled, updated_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (scope, target) DO UPDATE SET enabled = excluded.enabled, updated_at = excluded.updated_at",
        binds: vec![scope.into(), target.into(), enabled.into(), now.into()],
    }
}
