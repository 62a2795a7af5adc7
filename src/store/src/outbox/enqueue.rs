//! Putting messages into the outbox, inside the batch of whatever gives rise to them.

use std::collections::BTreeSet;

use domain::ids::{AddressId, GatewayId, OutboxId, TurnId};
use domain::keys::OwnSealed;
use domain::outbox::template::Template;
use domain::outbox::{Origin, SendChannel, policy};
use domain::sql::{Statement, Value};
use domain::time::{Millis, Timestamp};
use domain::turn::event::Actor;
use serde::Serialize;

/// How long a lane is remembered after the day on which something was last put into it: as long as its rows.
const LANE_KEPT: Millis = super::purge::MESSAGES_KEPT;
const DAY: i64 = 24 * 60 * 60 * 1_000;

/// Attempts in all, for every row that is made here.
const ATTEMPTS_MAX: i64 = policy::TELEGRAM.attempts_max;

/// One message of a reply.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    pub outbox_id: OutboxId,
    /// The bytes of the answer that it holds: from here
    pub from: usize,
    /// to before here.
    pub to: usize,
    /// Under the key that seals the answer.
    pub content_hash: String,
}

/// The answer of a channel's turn, cut into messages.
pub struct Reply<'a> {
    pub turn_id: &'a TurnId,
    /// In order.
    pub parts: &'a [Part],
    pub now: Timestamp,
}

/// When a lane in which something waits now may be forgotten: in whole days, so that its index rarely changes.
fn idle_at(now: Timestamp) -> Timestamp {
    let day = now.as_millis().div_euclid(DAY).saturating_mul(DAY);
    Timestamp::from_millis(day).plus(LANE_KEPT).plus(Millis::new(DAY))
}

/// Puts an answer into the outbox, one row for each part, to where its question came from. Nothing is put there when
/// that address is no longer this person's or is disabled. Stands behind the statement that stores the answer.
///
/// The rows carry the authorization revision that the question was accepted with.
pub fn reply_of_turn(reply: &Reply<'_>) -> Vec<Statement> {
    // Ids and numbers always serialise; an empty list would leave the answer unsent, and that is seen.
    let parts = serde_json::to_string(reply.parts).unwrap_or_else(|_| "[]".to_owned());
    let now = reply.now;
    vec![
        Statement {
            name: "enter_lane_of_turn",
            sql: "INSERT INTO send_lanes (lane, gateway_id, last_no, idle_at)
SELECT a.channel || '/' || a.gateway_id || '/' || a.external_hash, a.gateway_id, json_array_length(?2), ?3
  FROM turns t JOIN channel_addresses a ON a.address_id = t.address_id
 WHERE t.turn_id = ?1 AND a.user_id = t.user_id AND a.status = 'active'
ON CONFLICT (lane) DO UPDATE SET last_no = last_no + excluded.last_no",
            binds: vec![reply.turn_id.into(), parts.as_str().into(), idle_at(now).into()],
        },
        Statement {
            name: "enqueue_reply",
            sql: "INSERT INTO outbound_messages (outbox_id, origin, turn_id, parent_turn_id, trace_id, family_id, user_id,
  channel, gateway_id, address_id, lane, lane_no, group_id, part_no, part_count, content_kind, content_ref,
  content_from, content_to, content_hash, visibility_scope, subject_user_id, created_by_user_id,
  authorization_revision, idempotency_key, status, priority, not_before, expires_at, max_attempts, next_attempt_at,
  created_at, updated_at)
SELECT p.value ->> 'outbox_id', 'channel', t.turn_id, t.parent_turn_id, t.trace_id, t.family_id, t.user_id,
  a.channel, a.gateway_id, a.address_id, l.lane, l.last_no - json_array_length(?2) + p.key + 1,
  ?2 ->> '$[0].outbox_id', p.key + 1, json_array_length(?2), 'message', t.turn_id,
  p.value ->> 'from', p.value ->> 'to', p.value ->> 'content_hash', t.visibility_scope, t.subject_user_id,
  t.created_by_user_id, t.authorization_revision, 'reply:' || t.turn_id || ':' || (p.key + 1), 'pending',
  ?4, ?3, ?5, ?6, ?3, ?3, ?3
  FROM turns t JOIN channel_addresses a ON a.address_id = t.address_id
  JOIN send_lanes l ON l.lane = a.channel || '/' || a.gateway_id || '/' || a.external_hash
  JOIN json_each(?2) p
 WHERE t.turn_id = ?1 AND a.user_id = t.user_id AND a.status = 'active'",
            binds: vec![
                reply.turn_id.into(),
                parts.into(),
                now.into(),
                policy::priority(Origin::Channel).into(),
                policy::expiry(Origin::Channel, now).into(),
                crate::ledger::safe(ATTEMPTS_MAX),
            ],
        },
        keep_lane_of_turn(reply.turn_id, now),
    ]
}

fn keep_lane_of_turn(turn: &TurnId, now: Timestamp) -> Statement {
    Statement {
        name: "keep_lane_of_turn",
        // Apart from the counting, because naming the column costs its index entry each time.
        sql: "UPDATE send_lanes SET idle_at = ?2 WHERE idle_at < CAST(?2 AS INTEGER) AND lane =
  (SELECT a.channel || '/' || a.gateway_id || '/' || a.external_hash
     FROM turns t JOIN channel_addresses a ON a.address_id = t.address_id WHERE t.turn_id = ?1)",
        binds: vec![turn.into(), idle_at(now).into()],
    }
}

/// Tells the sender of a channel's turn, by a fixed text, that something went wrong with it; once for a turn. Nothing
/// is put into the outbox for other turns, for ended ones, or when the address is no longer this person's or is
/// disabled.
///
/// The event that says so belongs before the one that ends the turn, so these stand before the statements that do.
pub fn notice_of_turn(turn: &TurnId, template: Template, actor: Actor, now: Timestamp) -> Vec<Statement> {
    notices(&[turn], template, false, actor, now)
}

/// [`notice_of_turn`] for those of `turns` of which a part failed or expired, or may no longer be sent. The fixed text
/// says nothing of the answer, so it goes to whom the person is today.
pub(super) fn notices_of_failed(turns: &[&TurnId], actor: Actor, now: Timestamp) -> Vec<Statement> {
    notices(turns, Template::TurnFailed, true, actor, now)
}

fn notices(turns: &[&TurnId], template: Template, failed: bool, actor: Actor, now: Timestamp) -> Vec<Statement> {
    // Several parts of one reply may have ended at once.
    let turns: BTreeSet<&str> = turns.iter().map(|turn| turn.as_str()).collect();
    let turns = serde_json::to_string(&turns).unwrap_or_else(|_| "[]".to_owned());
    vec![
        Statement {
            name: "enter_lane_of_notice",
            sql: "INSERT INTO send_lanes (lane, gateway_id, last_no, idle_at)
SELECT a.channel || '/' || a.gateway_id || '/' || a.external_hash, a.gateway_id, 1, ?2
  FROM json_each(?1) s JOIN turns t ON t.turn_id = s.value JOIN channel_addresses a ON a.address_id = t.address_id
  JOIN users u ON u.user_id = t.user_id
 WHERE t.origin = 'channel' AND t.terminal_at IS NULL AND a.user_id = t.user_id AND a.status = 'active'
   AND (NOT CAST(?3 AS INTEGER) OR EXISTS (SELECT 1 FROM outbound_messages f
     WHERE f.turn_id = t.turn_id AND f.origin <> 'notice'
       AND (f.status IN ('failed', 'expired') OR f.last_error_code = 'authorization_changed')))
ON CONFLICT (lane) DO UPDATE SET last_no = last_no + 1",
            binds: vec![turns.as_str().into(), idle_at(now).into(), failed.into()],
        },
        Statement {
            name: "enqueue_notice_of_turn",
            // The row's id is the turn's with another prefix: there is one notice of a turn.
            sql: "INSERT INTO outbound_messages (outbox_id, origin, turn_id, parent_turn_id, trace_id, family_id, user_id,
  channel, gateway_id, address_id, lane, lane_no, group_id, part_no, part_count, content_kind, content_ref,
  visibility_scope, subject_user_id, created_by_user_id, authorization_revision, idempotency_key, status, priority,
  not_before, expires_at, max_attempts, next_attempt_at, created_at, updated_at)
SELECT 'out' || substr(t.turn_id, 5), 'notice', t.turn_id, t.parent_turn_id, t.trace_id, u.family_id, t.user_id,
  a.channel, a.gateway_id, a.address_id, l.lane, l.last_no + 1 - row_number() OVER (PARTITION BY l.lane),
  'out' || substr(t.turn_id, 5), 1, 1, 'template', ?2,
  t.visibility_scope, t.subject_user_id, t.created_by_user_id, u.authorization_revision, 'notice:' || t.turn_id,
  'pending', ?4, ?3, ?5, ?6, ?3, ?3, ?3
  FROM json_each(?1) s JOIN turns t ON t.turn_id = s.value JOIN channel_addresses a ON a.address_id = t.address_id
  JOIN users u ON u.user_id = t.user_id
  JOIN send_lanes l ON l.lane = a.channel || '/' || a.gateway_id || '/' || a.external_hash
 WHERE t.origin = 'channel' AND t.terminal_at IS NULL AND a.user_id = t.user_id AND a.status = 'active'
   AND (NOT CAST(?7 AS INTEGER) OR EXISTS (SELECT 1 FROM outbound_messages f
     WHERE f.turn_id = t.turn_id AND f.origin <> 'notice'
       AND (f.status IN ('failed', 'expired') OR f.last_error_code = 'authorization_changed')))
ON CONFLICT DO NOTHING",
            binds: vec![
                turns.as_str().into(),
                template.as_str().into(),
                now.into(),
                policy::priority(Origin::Notice).into(),
                policy::expiry(Origin::Notice, now).into(),
                crate::ledger::safe(ATTEMPTS_MAX),
                failed.into(),
            ],
        },
        Statement {
            name: "notice_enqueued_events",
            sql: "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, metadata_json)
SELECT m.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = m.turn_id) + 1,
       'outbox_enqueued', ?2, ?3, '{\"notice\":true}'
  FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = 'out' || substr(s.value, 5)
 WHERE m.created_at = CAST(?2 AS INTEGER) AND m.origin = 'notice'
   AND NOT EXISTS (SELECT 1 FROM turn_events e WHERE e.turn_id = m.turn_id AND e.event_type = 'outbox_enqueued'
     AND e.metadata_json ->> 'notice')",
            binds: vec![turns.into(), now.into(), actor.as_str().into()],
        },
    ]
}

/// Where a fixed text goes.
pub enum NoticeTo<'a> {
    /// To a person.
    Address(&'a AddressId),
    /// To a chat of which nobody knows whose it is.
    Sealed {
        /// The provider's id of the chat.
        sealed: &'a OwnSealed,
        /// Keyed hash of (gateway, channel, the provider's id of the chat).
        external_hash: &'a str,
    },
}

/// A fixed text that answers no turn.
pub struct Notice<'a> {
    pub outbox_id: &'a OutboxId,
    pub gateway_id: &'a GatewayId,
    pub channel: SendChannel,
    pub template: Template,
    /// A second notice under the same key is not made.
    pub idempotency_key: &'a str,
    pub to: NoticeTo<'a>,
    pub trace_id: &'a str,
    pub now: Timestamp,
}

/// Puts a fixed text into the outbox, once for its idempotency key. To an address nothing goes when it is not of this
/// gateway and channel or is disabled.
pub fn notice(notice: &Notice<'_>) -> Vec<Statement> {
    match &notice.to {
        NoticeTo::Address(address) => to_address(notice, address),
        NoticeTo::Sealed { sealed, external_hash } => to_chat(notice, sealed, external_hash),
    }
}

fn to_address(notice: &Notice<'_>, address: &AddressId) -> Vec<Statement> {
    let binds = || -> Vec<Value> {
        let place: [Value; 3] = [address.into(), notice.gateway_id.into(), notice.channel.as_str().into()];
        place.into()
    };
    let mut lane = binds();
    lane.push(idle_at(notice.now).into());
    let mut row = binds();
    row.extend(common(notice));
    vec![
        Statement {
            name: "enter_lane_of_address",
            sql: "INSERT INTO send_lanes (lane, gateway_id, last_no, idle_at)
SELECT a.channel || '/' || a.gateway_id || '/' || a.external_hash, a.gateway_id, 1, ?4
  FROM channel_addresses a
 WHERE a.address_id = ?1 AND a.gateway_id = ?2 AND a.channel = ?3 AND a.status = 'active'
ON CONFLICT (lane) DO UPDATE SET last_no = last_no + 1, idle_at = max(idle_at, excluded.idle_at)",
            binds: lane,
        },
        Statement {
            name: "enqueue_notice_to_address",
            sql: "INSERT INTO outbound_messages (outbox_id, origin, trace_id, family_id, user_id, channel, gateway_id,
  address_id, lane, lane_no, group_id, part_no, part_count, content_kind, content_ref, visibility_scope,
  subject_user_id, created_by_user_id, authorization_revision, idempotency_key, status, priority, not_before,
  expires_at, max_attempts, next_attempt_at, created_at, updated_at)
SELECT ?4, 'notice', ?5, u.family_id, u.user_id, a.channel, a.gateway_id, a.address_id, l.lane, l.last_no, ?4, 1, 1,
  'template', ?6, 'user_private', u.user_id, u.user_id, u.authorization_revision, ?7, 'pending', ?9, ?8, ?10, ?11, ?8,
  ?8, ?8
  FROM channel_addresses a JOIN users u ON u.user_id = a.user_id
  JOIN send_lanes l ON l.lane = a.channel || '/' || a.gateway_id || '/' || a.external_hash
 WHERE a.address_id = ?1 AND a.gateway_id = ?2 AND a.channel = ?3 AND a.status = 'active'
ON CONFLICT (idempotency_key) DO NOTHING",
            binds: row,
        },
    ]
}

fn to_chat(notice: &Notice<'_>, to: &OwnSealed, external_hash: &str) -> Vec<Statement> {
    let channel = notice.channel.as_str();
    let lane = format!("{channel}/{}/{external_hash}", notice.gateway_id);
    let mut row: Vec<Value> = vec![lane.as_str().into(), notice.gateway_id.into(), channel.into()];
    row.extend(common(notice));
    row.extend([to.master_version.into(), to.sealed.clone().into()]);
    vec![
        Statement {
            name: "enter_lane_of_chat",
            sql: "INSERT INTO send_lanes (lane, gateway_id, last_no, idle_at) VALUES (?1, ?2, 1, ?3)
ON CONFLICT (lane) DO UPDATE SET last_no = last_no + 1, idle_at = max(idle_at, excluded.idle_at)",
            binds: vec![lane.into(), notice.gateway_id.into(), idle_at(notice.now).into()],
        },
        Statement {
            name: "enqueue_notice_to_chat",
            sql: "INSERT INTO outbound_messages (outbox_id, origin, trace_id, channel, gateway_id,
  destination_master_version, destination_sealed, lane, lane_no, group_id, part_no, part_count, content_kind,
  content_ref, idempotency_key, status, priority, not_before, expires_at, max_attempts, next_attempt_at, created_at,
  updated_at)
SELECT ?4, 'notice', ?5, ?3, ?2, ?12, ?13, l.lane, l.last_no, ?4, 1, 1, 'template', ?6, ?7, 'pending', ?9, ?8, ?10,
  ?11, ?8, ?8, ?8
  FROM send_lanes l WHERE l.lane = ?1
ON CONFLICT (idempotency_key) DO NOTHING",
            binds: row,
        },
    ]
}

/// `?4` to `?11` of both forms of a notice.
fn common(notice: &Notice<'_>) -> [Value; 8] {
    [
        notice.outbox_id.into(),
        notice.trace_id.into(),
        notice.template.as_str().into(),
        notice.idempotency_key.into(),
        notice.now.into(),
        policy::priority(Origin::Notice).into(),
        policy::expiry(Origin::Notice, notice.now).into(),
        crate::ledger::safe(ATTEMPTS_MAX),
    ]
}
