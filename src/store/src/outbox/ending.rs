//! What follows when rows have ended: the rest of a reply, what is no longer allowed, and the turns they belong to.
//!
//! Each statement looks at how the rows of the named rows' people stand now and brings everything else in line with
//! it. Doing so again changes nothing.

use domain::ids::OutboxId;
use domain::sql::Statement;
use domain::time::Timestamp;
use domain::turn::FailureCode;
use domain::turn::event::Actor;

use super::claim::still_authorized;

/// Rows `m` that are open and held by nobody. `?2` is now.
macro_rules! idle {
    () => {
        "m.terminal_at IS NULL AND (m.status <> 'leased' OR m.lease_expires_at <= CAST(?2 AS INTEGER))"
    };
}
pub(super) use idle;

/// The people of the rows named in `?1`.
macro_rules! people {
    () => {
        "(SELECT n.user_id FROM json_each(?1) s JOIN outbound_messages n ON n.outbox_id = s.value)"
    };
}

/// The open rows `m` of those people behind a part that ended without success.
macro_rules! behind_failed_part {
    () => {
        concat!(
            "m.user_id IN ",
            people!(),
            " AND m.part_no > 1 AND ",
            idle!(),
            "
   AND EXISTS (SELECT 1 FROM outbound_messages e WHERE e.turn_id = m.turn_id AND e.group_id = m.group_id
     AND e.part_no < m.part_no AND e.status IN ('failed', 'expired', 'cancelled'))"
        )
    };
}

/// The open rows `m` of those people that may not be sent any more.
macro_rules! unauthorized {
    () => {
        concat!(
            "m.user_id IN ",
            people!(),
            " AND ",
            idle!(),
            " AND NOT ",
            still_authorized!()
        )
    };
}

/// Three statements that cancel the rows of a condition, given as text: their open attempts, their turns' events, and
/// the rows. `?1` the named rows, `?2` now, `?3` the class and `?4` the code, `?5` who does it.
macro_rules! cancel {
    ($names:expr, $condition:expr, $rows:expr, $code:literal, $actor:expr, $now:expr) => {{
        let [attempts, events, rows] = $names;
        let ids = ids_json($rows);
        vec![
            Statement {
                name: attempts,
                sql: concat!(
                    "UPDATE outbound_attempts SET finished_at = ?2, outcome = 'ambiguous', error_class = 'crash',
  error_code = 'lease_lost'
WHERE finished_at IS NULL AND outbox_id IN (SELECT m.outbox_id FROM outbound_messages m WHERE ",
                    $condition,
                    ")"
                ),
                binds: vec![ids.as_str().into(), $now.into()],
            },
            Statement {
                name: events,
                sql: concat!(
                    "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT m.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = m.turn_id)
       + row_number() OVER (PARTITION BY m.turn_id ORDER BY m.lane_no),
       'delivery_terminal_failure', ?2, ?3,
       json_object('part', m.part_no, 'send_error_class', 'policy', 'send_error_code', '",
                    $code,
                    "')
  FROM outbound_messages m WHERE m.turn_id IS NOT NULL AND m.origin <> 'notice' AND ",
                    $condition
                ),
                binds: vec![ids.as_str().into(), $now.into(), $actor.as_str().into()],
            },
            Statement {
                name: rows,
                sql: concat!(
                    "UPDATE outbound_messages AS m SET status = 'cancelled', terminal_at = ?2, updated_at = ?2,
  last_error_class = 'policy', last_error_code = '",
                    $code,
                    "', lease_owner = NULL, lease_token = NULL,
  lease_expires_at = NULL, destination_master_version = NULL, destination_sealed = NULL
WHERE ",
                    $condition
                ),
                binds: vec![ids.into(), $now.into()],
            },
        ]
    }};
}

pub(super) fn ids_json(rows: &[&OutboxId]) -> String {
    let ids: Vec<&str> = rows.iter().map(|id| id.as_str()).collect();
    // Ids always serialise.
    serde_json::to_string(&ids).unwrap_or_else(|_| "[]".to_owned())
}

/// Cancels what is left of replies of which a part ended without success, for the people of `rows`.
pub(super) fn cancel_rest_beside(rows: &[&OutboxId], actor: Actor, now: Timestamp) -> Vec<Statement> {
    cancel!(
        ["cancel_rest_attempts", "cancel_rest_events", "cancel_rest"],
        behind_failed_part!(),
        rows,
        "earlier_part_failed",
        actor,
        now
    )
}

/// Cancels what may no longer be sent to the people of `rows`.
pub(super) fn cancel_unauthorized_beside(rows: &[&OutboxId], actor: Actor, now: Timestamp) -> Vec<Statement> {
    cancel!(
        [
            "cancel_unauthorized_attempts",
            "cancel_unauthorized_events",
            "cancel_unauthorized"
        ],
        unauthorized!(),
        rows,
        "authorization_changed",
        actor,
        now
    )
}

/// The turns `t` of the named rows' people that waited for deliveries which have all ended.
macro_rules! concluded {
    () => {
        concat!(
            "t.user_id IN ",
            people!(),
            " AND t.delivery_status = 'pending' AND t.status = 'delivery_pending'
   AND NOT EXISTS (SELECT 1 FROM outbound_messages o WHERE o.turn_id = t.turn_id AND o.origin <> 'notice'
     AND o.terminal_at IS NULL)"
        )
    };
}

/// How a turn `t` ended whose deliveries have: NULL when everything was taken.
macro_rules! verdict {
    () => {
        "(SELECT CASE WHEN count(*) = 0 OR max(o.status = 'failed') THEN 'delivery_failed'
       WHEN max(o.status = 'expired') THEN 'delivery_expired'
       WHEN max(o.status = 'cancelled') THEN 'delivery_cancelled' END
     FROM outbound_messages o WHERE o.turn_id = t.turn_id AND o.origin <> 'notice')"
    };
}

/// Ends the turns of the people of `rows` whose deliveries have all ended.
pub(super) fn conclude_turns_beside(rows: &[&OutboxId], actor: Actor, now: Timestamp) -> Vec<Statement> {
    let ids = ids_json(rows);
    vec![
        Statement {
            name: "conclude_turns_events",
            sql: concat!(
                "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT c.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = c.turn_id) + 1,
       iif(c.code IS NULL, 'turn_terminal_success', 'turn_terminal_failure'), ?2, ?3,
       iif(c.code IS NULL, '{}', json_object('error_code', c.code))
  FROM (SELECT t.turn_id, ",
                verdict!(),
                " AS code
  FROM turns t WHERE ",
                concluded!(),
                ") c"
            ),
            binds: vec![ids.as_str().into(), now.into(), actor.as_str().into()],
        },
        Statement {
            name: "conclude_turns",
            sql: concat!(
                "UPDATE turns AS t SET terminal_at = ?2, updated_at = ?2,
  status = iif(c.code IS NULL, 'terminal_success', 'terminal_failure'),
  delivery_status = iif(c.code IS NULL, 'accepted', 'failed'),
  error_class = iif(c.code IS NULL, NULL, ?3), error_code = c.code,
  retryable = iif(c.code IS NULL, NULL, ?4 ->> ('$.' || c.code))
  FROM (SELECT t.turn_id, ",
                verdict!(),
                " AS code
  FROM turns t WHERE ",
                concluded!(),
                ") c
 WHERE t.turn_id = c.turn_id"
            ),
            binds: vec![
                ids.into(),
                now.into(),
                FailureCode::DeliveryFailed.class().into(),
                retryable().into(),
            ],
        },
    ]
}

/// Whether each way in which a delivery fails is worth another message, as a JSON object of 0 and 1.
fn retryable() -> String {
    let codes = [
        FailureCode::DeliveryFailed,
        FailureCode::DeliveryExpired,
        FailureCode::DeliveryCancelled,
    ];
    let pairs: Vec<String> = codes
        .iter()
        .map(|code| format!("\"{}\":{}", code.as_str(), u8::from(code.retryable())))
        .collect();
    format!("{{{}}}", pairs.join(","))
}
