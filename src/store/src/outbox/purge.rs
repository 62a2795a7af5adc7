//! Deletes what its time has passed for.

use domain::ids::OutboxId;
use domain::sql::Statement;
use domain::time::{Millis, Timestamp};

/// How long an outbox row is kept after it was made; by then its expiry has long ended it.
pub const MESSAGES_KEPT: Millis = Millis::from_mins(31 * 24 * 60);

/// How long an update of a channel is remembered; providers stop repeating one after a day.
pub const INGRESS_KEPT: Millis = Millis::from_mins(7 * 24 * 60);

/// Deletes up to `limit` rows of each kind: outbox rows with their attempts, remembered updates, link codes, and lanes
/// that nothing waits in.
pub fn purge(now: Timestamp, limit: u32) -> Vec<Statement> {
    let made_before = now.minus(MESSAGES_KEPT);
    // Ids sort by their making, so the oldest rows are the first ones; what is found there is then judged by its time.
    let ids_before = OutboxId::first_of(made_before);
    vec![
        Statement {
            name: "purge_outbound_attempts",
            sql: "DELETE FROM outbound_attempts WHERE outbox_id IN
  (SELECT m.outbox_id FROM outbound_messages m
   WHERE m.outbox_id < ?1 AND m.created_at < CAST(?2 AS INTEGER) AND m.terminal_at IS NOT NULL
   ORDER BY m.outbox_id LIMIT CAST(?3 AS INTEGER))",
            binds: vec![(&ids_before).into(), made_before.into(), limit.into()],
        },
        Statement {
            name: "purge_outbound_messages",
            sql: "DELETE FROM outbound_messages WHERE outbox_id IN
  (SELECT m.outbox_id FROM outbound_messages m
   WHERE m.outbox_id < ?1 AND m.created_at < CAST(?2 AS INTEGER) AND m.terminal_at IS NOT NULL
   ORDER BY m.outbox_id LIMIT CAST(?3 AS INTEGER))",
            binds: vec![(&ids_before).into(), made_before.into(), limit.into()],
        },
        Statement {
            name: "purge_inbound_dedup",
            sql: "DELETE FROM inbound_dedup WHERE (gateway_id, ingress_hash) IN
  (SELECT d.gateway_id, d.ingress_hash FROM inbound_dedup d
   WHERE d.first_seen_at < CAST(?1 AS INTEGER) ORDER BY d.first_seen_at LIMIT CAST(?2 AS INTEGER))",
            binds: vec![now.minus(INGRESS_KEPT).into(), limit.into()],
        },
        Statement {
            name: "purge_link_codes",
            sql: "DELETE FROM link_codes WHERE code_hash IN
  (SELECT c.code_hash FROM link_codes c
   WHERE c.expires_at < CAST(?1 AS INTEGER) ORDER BY c.expires_at LIMIT CAST(?2 AS INTEGER))",
            binds: vec![now.into(), limit.into()],
        },
        Statement {
            name: "purge_send_lanes",
            sql: "DELETE FROM send_lanes WHERE lane IN
  (SELECT l.lane FROM send_lanes l
   WHERE l.idle_at < CAST(?1 AS INTEGER)
     AND NOT EXISTS (SELECT 1 FROM outbound_messages m WHERE m.lane = l.lane AND m.terminal_at IS NULL)
   ORDER BY l.idle_at LIMIT CAST(?2 AS INTEGER))",
            binds: vec![now.into(), limit.into()],
        },
    ]
}
