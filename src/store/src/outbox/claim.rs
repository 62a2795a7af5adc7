//! Claiming what is due: the permit to send.
//!
//! Everything that can forbid a send stands in one WHERE, each condition on a line of its own that ends in its name
//! (`domain::fence`), so that a test can take out exactly one. What was claimed is held under a token that the claimant
//! minted; its attempts are on record before anybody calls the provider.

use domain::ids::{GatewayId, LeaseToken};
use domain::outbox::SendChannel;
use domain::outbox::policy::{Policy, WAVE_MAX};
use domain::sql::{Statement, Value};
use domain::time::Timestamp;

use super::claimed;
use crate::ledger::safe;

/// Who claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimant {
    /// The service itself, with the gateway's credential.
    Hermod,
    /// A sender outside, for a gateway without a credential here.
    Outside,
}

/// One wave of a gateway's rows, to be taken.
#[derive(Clone)]
pub struct Claim<'a> {
    pub gateway_id: &'a GatewayId,
    pub channel: SendChannel,
    pub claimant: Claimant,
    /// Minted by the claimant: what was claimed is found again by it.
    pub token: &'a LeaseToken,
    /// Who that is, for the record; free of names.
    pub owner: &'a str,
    /// The epoch that the order to send came from.
    pub epoch: i64,
    /// At most [`WAVE_MAX`].
    pub limit: u32,
    pub policy: &'a Policy,
    pub now: Timestamp,
}

/// Whether the person, their family, their address and the gateway's leave to speak to them are what they were when
/// the row `m` was made.
macro_rules! still_authorized {
    () => {
        "(m.user_id IS NULL OR EXISTS (SELECT 1 FROM users u JOIN families f ON f.family_id = u.family_id \
JOIN channel_addresses a ON a.address_id = m.address_id JOIN gateway_families p ON p.gateway_id = m.gateway_id \
AND p.family_id = u.family_id WHERE u.user_id = m.user_id AND u.family_id = m.family_id AND u.status = 'active' \
AND u.authorization_revision = m.authorization_revision AND f.status = 'active' AND a.user_id = m.user_id \
AND a.gateway_id = m.gateway_id AND a.channel = m.channel AND a.status = 'active'))"
    };
}
pub(super) use still_authorized;

/// The fences that stand whoever holds the row. `?1` the gateway, `?2` now, `?3` the epoch, `?4` whether the claimant
/// sends with the gateway's credential.
macro_rules! open_fences {
    () => {
        concat!(
            "
    AND NOT EXISTS (SELECT 1 FROM send_switches s WHERE s.enabled = 0 AND (s.scope, s.target) IN (VALUES ('global', ''), ('channel', m.channel), ('gateway', m.gateway_id))) -- fence: sends_enabled
    AND EXISTS (SELECT 1 FROM meta e WHERE e.id = 1 AND e.epoch = CAST(?3 AS INTEGER)) -- fence: send_epoch
    AND EXISTS (SELECT 1 FROM gateways g WHERE g.gateway_id = m.gateway_id AND g.status = 'active' AND (g.channel_token_sealed IS NOT NULL) = CAST(?4 AS INTEGER) AND EXISTS (SELECT 1 FROM json_each(g.channels) c WHERE c.value = m.channel)) -- fence: gateway_open
    AND m.expires_at > CAST(?2 AS INTEGER) -- fence: not_expired
    AND ",
            $crate::outbox::claim::still_authorized!(),
            " -- fence: still_authorized"
        )
    };
}
pub(super) use open_fences;

/// The number of the row `m`'s next attempt.
macro_rules! next_attempt {
    () => {
        "(SELECT ifnull(max(a.attempt_no), 0) FROM outbound_attempts a WHERE a.outbox_id = m.outbox_id) + 1"
    };
}

/// The rows `m` that were taken under the token `?1` and have no attempt under it yet.
macro_rules! newly_taken {
    () => {
        "m.lease_token = ?1 AND NOT EXISTS \
(SELECT 1 FROM outbound_attempts a WHERE a.outbox_id = m.outbox_id AND a.lease_token = ?1)"
    };
}

/// Takes what is due, at most `limit` rows of different lanes, and reads it; see [`claimed::read_claimed`]. Two claims
/// never take the same row. Of the service's own conditions none is a guard: what may not be sent is left where it is.
pub fn claim(claim: &Claim<'_>) -> Vec<Statement> {
    let token = claim.token;
    let mut batch = vec![
        take_due(claim),
        Statement {
            name: "close_lost_attempts",
            // What this token holds already was taken by an earlier copy of this batch, which its sender gave up for lost.
            sql: "UPDATE outbound_attempts SET finished_at = ?2, outcome = 'ambiguous', error_class = 'crash',
  error_code = 'lease_lost'
WHERE finished_at IS NULL AND lease_token <> ?1
  AND outbox_id IN (SELECT m.outbox_id FROM outbound_messages m WHERE m.lease_token = ?1)",
            binds: vec![token.into(), claim.now.into()],
        },
        Statement {
            name: "claimed_events",
            sql: concat!(
                "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, attempt_no, metadata_json)
SELECT m.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = m.turn_id)
       + row_number() OVER (PARTITION BY m.turn_id ORDER BY m.lane_no, s.key),
       s.value, ?2, 'sender', ",
                next_attempt!(),
                ", json_object('part', m.part_no)
  FROM outbound_messages m JOIN json_each('[\"send_claimed\", \"send_attempted\"]') s
 WHERE m.turn_id IS NOT NULL AND m.origin <> 'notice' AND ",
                newly_taken!()
            ),
            binds: vec![token.into(), claim.now.into()],
        },
        Statement {
            name: "open_attempts",
            sql: concat!(
                "INSERT INTO outbound_attempts (outbox_id, attempt_no, worker_id, lease_token, started_at)
SELECT m.outbox_id, ",
                next_attempt!(),
                ", ?2, m.lease_token, ?3 FROM outbound_messages m WHERE ",
                newly_taken!()
            ),
            binds: vec![token.into(), claim.owner.into(), claim.now.into()],
        },
    ];
    batch.extend(keep_pace(claim));
    batch.extend(claimed::claimed(claim.gateway_id, token, claim.now));
    batch
}

fn take_due(claim: &Claim<'_>) -> Statement {
    Statement {
        name: "take_due",
        sql: concat!(
            "UPDATE outbound_messages SET status = 'leased', lease_token = ?5, lease_owner = ?6, lease_expires_at = ?7,
  attempt_count = attempt_count + 1, ambiguous_count = ambiguous_count + (status = 'leased'),
  last_attempt_at = ?2, updated_at = ?2
WHERE outbox_id IN (SELECT m.outbox_id FROM outbound_messages m
  WHERE m.gateway_id = ?1 AND m.terminal_at IS NULL AND m.channel = ?8
    AND m.attempt_count < m.max_attempts
    AND (m.status <> 'leased' OR m.ambiguous_count + 1 < CAST(?9 AS INTEGER))",
            open_fences!(),
            "
    AND NOT EXISTS (SELECT 1 FROM send_pacing p WHERE p.gateway_id = m.gateway_id AND p.next_at > CAST(?2 AS INTEGER)) -- fence: gateway_paced
    AND m.next_attempt_at <= CAST(?2 AS INTEGER) -- fence: due
    AND (m.status IN ('pending', 'retry') OR (m.status = 'leased' AND m.lease_expires_at <= CAST(?2 AS INTEGER))) -- fence: lease_free
    AND NOT EXISTS (SELECT 1 FROM outbound_messages b WHERE b.lane = m.lane AND b.lane_no < m.lane_no AND b.terminal_at IS NULL AND b.status <> 'quarantined') -- fence: lane_clear
    AND NOT EXISTS (SELECT 1 FROM send_lanes l WHERE l.lane = m.lane AND l.next_at > CAST(?2 AS INTEGER)) -- fence: lane_paced
  ORDER BY m.priority, m.next_attempt_at LIMIT CAST(?10 AS INTEGER))
RETURNING outbox_id"
        ),
        binds: vec![
            claim.gateway_id.into(),
            claim.now.into(),
            safe(claim.epoch),
            (claim.claimant == Claimant::Hermod).into(),
            claim.token.into(),
            claim.owner.into(),
            claim.now.plus(claim.policy.lease).into(),
            claim.channel.as_str().into(),
            safe(claim.policy.ambiguous_max),
            claim.limit.min(WAVE_MAX).into(),
        ],
    }
}

/// Holds the gateway and the lanes for as long as what was claimed takes of their pace.
fn keep_pace(claim: &Claim<'_>) -> Vec<Statement> {
    let token: Value = claim.token.into();
    vec![
        Statement {
            name: "pace_gateway",
            sql: "INSERT INTO send_pacing (gateway_id, next_at)
SELECT ?2, CAST(?3 AS INTEGER) + count(*) * CAST(?4 AS INTEGER) FROM outbound_messages m WHERE m.lease_token = ?1
HAVING count(*) > 0 AND CAST(?4 AS INTEGER) > 0
ON CONFLICT (gateway_id) DO UPDATE SET next_at = max(next_at, excluded.next_at)",
            binds: vec![
                token.clone(),
                claim.gateway_id.into(),
                claim.now.into(),
                claim.policy.gateway_interval.into(),
            ],
        },
        Statement {
            name: "pace_lanes",
            sql: "UPDATE send_lanes SET next_at = ?2
WHERE lane IN (SELECT m.lane FROM outbound_messages m WHERE m.lease_token = ?1)",
            binds: vec![token, claim.now.plus(claim.policy.lane_interval).into()],
        },
    ]
}
