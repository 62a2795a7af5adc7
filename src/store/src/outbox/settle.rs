//! Settling a wave: what came of its attempts, in one batch.
//!
//! Every change is made only to rows that are still held under the wave's token; a lease that was lost settles nothing.
//! What follows from the rows (the rest of a reply, the turn) is decided from how they stand after that, so repeating
//! it changes nothing.

use domain::ids::{AddressId, DataKeyId, GatewayId, LeaseToken, OutboxId, TurnId};
use domain::keys::OwnSealed;
use domain::outbox::outcome::{ErrorCode, Outcome};
use domain::outbox::settlement::Settlement;
use domain::sql::{RowError, Rows, Statement};
use domain::time::Timestamp;
use domain::turn::event::Actor;
use serde::Serialize;

use super::items::Item;
use super::{claimed, ending, enqueue};
use crate::wrong;

/// A destination that is known by another id from now on, sealed for where the old one stood.
#[derive(Clone)]
pub enum Moved {
    /// In `channel_addresses.external_sealed`, under the key that sealed the old one.
    Address {
        address_id: AddressId,
        key_id: DataKeyId,
        external_hash: String,
        sealed: Vec<u8>,
    },
    /// In `outbound_messages.destination_sealed`.
    Chat(OwnSealed),
}

/// What came of one attempt.
pub struct Settled<'a> {
    pub outbox_id: &'a OutboxId,
    pub turn_id: Option<&'a TurnId>,
    pub outcome: &'a Outcome,
    pub settlement: &'a Settlement,
    /// The status of the provider's answer, if there was one.
    pub http_status: Option<u16>,
    /// Given with `Change::Destination`.
    pub moved: Option<&'a Moved>,
}

/// A wave whose attempts have ended.
pub struct Wave<'a> {
    pub gateway_id: &'a GatewayId,
    /// `updated_at` of the gateway as the claim read it: a credential that was replaced since is not marked broken.
    pub gateway_seen: Timestamp,
    pub token: &'a LeaseToken,
    pub attempts: &'a [Settled<'a>],
    pub now: Timestamp,
}

fn json(items: &impl Serialize) -> String {
    // Names and numbers always serialise; an empty list would leave the rows to the end of their lease.
    serde_json::to_string(items).unwrap_or_else(|_| "[]".to_owned())
}

/// Settles `wave`; see [`read_settled`]. Nothing in it is a guard: what is no longer held is left as it is.
pub fn settle_wave(wave: &Wave<'_>) -> Vec<Statement> {
    let now = wave.now;
    let items: Vec<Item<'_>> = wave
        .attempts
        .iter()
        .map(|settled| {
            Item::new(
                settled.outbox_id,
                settled.http_status,
                settled.outcome,
                settled.settlement,
                now,
            )
        })
        .collect();
    let list = json(&items);
    let mut batch = vec![settled_events(&list, wave), close_attempts(&list, wave)];
    if items.iter().any(|item| item.gateway_until.is_some()) {
        batch.push(hold_gateway(&list, wave));
    }
    if items.iter().any(|item| item.lane_until.is_some()) {
        batch.push(hold_lanes(&list, wave));
    }
    if items.iter().any(|item| item.broken == 1) {
        batch.push(break_gateway(&list, wave));
    }
    let disables = items.iter().any(|item| item.disable == 1);
    if disables {
        batch.push(disable_addresses(&list, wave));
    }
    for settled in wave.attempts {
        batch.extend(settled.moved.map(|to| move_destination(settled.outbox_id, to, wave)));
    }
    batch.push(settle_rows(&list, wave));
    let rows: Vec<&OutboxId> = wave.attempts.iter().map(|settled| settled.outbox_id).collect();
    if disables {
        batch.extend(ending::cancel_unauthorized_beside(&rows, Actor::Sender, now));
    }
    let failed: Vec<&Settled<'_>> = wave
        .attempts
        .iter()
        .filter(|settled| matches!(settled.settlement, Settlement::Failed { .. }))
        .collect();
    if !failed.is_empty() {
        batch.extend(ending::cancel_rest_beside(&rows, Actor::Sender, now));
        let turns: Vec<&TurnId> = failed.iter().filter_map(|settled| settled.turn_id).collect();
        batch.extend(enqueue::notices_of_failed(&turns, Actor::Sender, now));
    }
    if items.iter().any(|item| item.status != "retry") {
        batch.extend(ending::conclude_turns_beside(&rows, Actor::Sender, now));
    }
    batch.extend(settled_under(wave.gateway_id, wave.token, &rows, now));
    batch
}

fn settled_events(list: &str, wave: &Wave<'_>) -> Statement {
    Statement {
        name: "settled_events",
        sql: "INSERT INTO turn_events (turn_id, sequence_no, event_type, event_at, actor, attempt_no, metadata_json)
SELECT m.turn_id, (SELECT max(e.sequence_no) FROM turn_events e WHERE e.turn_id = m.turn_id)
       + row_number() OVER (PARTITION BY m.turn_id ORDER BY m.lane_no),
       s.value ->> 'event', ?3, 'sender',
       (SELECT max(a.attempt_no) FROM outbound_attempts a WHERE a.outbox_id = m.outbox_id),
       json_patch('{}', json_object('part', m.part_no, 'send_error_class', s.value ->> 'class',
         'send_error_code', s.value ->> 'code', 'retry_at', s.value ->> 'at'))
  FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value ->> 'id'
 WHERE m.lease_token = ?2 AND m.status = 'leased' AND m.turn_id IS NOT NULL AND m.origin <> 'notice'",
        binds: vec![list.into(), wave.token.into(), wave.now.into()],
    }
}

fn close_attempts(list: &str, wave: &Wave<'_>) -> Statement {
    Statement {
        name: "close_attempts",
        sql: "UPDATE outbound_attempts AS a SET finished_at = ?3, outcome = s.value ->> 'outcome',
  provider_http_status = s.value ->> 'http', provider_message_id = s.value ->> 'provider_id',
  retry_after_ms = s.value ->> 'retry_after', error_class = s.value ->> 'attempt_class',
  error_code = s.value ->> 'attempt_code'
  FROM json_each(?1) s
 WHERE a.outbox_id = s.value ->> 'id' AND a.lease_token = ?2 AND a.finished_at IS NULL
   AND EXISTS (SELECT 1 FROM outbound_messages m
     WHERE m.outbox_id = a.outbox_id AND m.lease_token = ?2 AND m.status = 'leased')",
        binds: vec![list.into(), wave.token.into(), wave.now.into()],
    }
}

fn hold_gateway(list: &str, wave: &Wave<'_>) -> Statement {
    Statement {
        name: "hold_gateway",
        sql: "INSERT INTO send_pacing (gateway_id, next_at)
SELECT m.gateway_id, max(s.value ->> 'gateway_until')
  FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value ->> 'id'
 WHERE m.lease_token = ?2 AND m.status = 'leased' AND s.value ->> 'gateway_until' IS NOT NULL
 GROUP BY m.gateway_id
ON CONFLICT (gateway_id) DO UPDATE SET next_at = max(next_at, excluded.next_at)",
        binds: vec![list.into(), wave.token.into()],
    }
}

fn hold_lanes(list: &str, wave: &Wave<'_>) -> Statement {
    Statement {
        name: "hold_lanes",
        sql: "UPDATE send_lanes AS l SET next_at = max(l.next_at, s.value ->> 'lane_until')
  FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value ->> 'id'
 WHERE l.lane = m.lane AND m.lease_token = ?2 AND m.status = 'leased' AND s.value ->> 'lane_until' IS NOT NULL",
        binds: vec![list.into(), wave.token.into()],
    }
}

fn break_gateway(list: &str, wave: &Wave<'_>) -> Statement {
    Statement {
        name: "break_gateway",
        sql: "UPDATE gateways SET status = 'broken', updated_at = ?3
WHERE gateway_id = ?4 AND status = 'active' AND updated_at = CAST(?5 AS INTEGER)
  AND EXISTS (SELECT 1 FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value ->> 'id'
    WHERE m.lease_token = ?2 AND m.status = 'leased' AND s.value ->> 'broken')
RETURNING gateway_id",
        binds: vec![
            list.into(),
            wave.token.into(),
            wave.now.into(),
            wave.gateway_id.into(),
            wave.gateway_seen.into(),
        ],
    }
}

fn disable_addresses(list: &str, wave: &Wave<'_>) -> Statement {
    Statement {
        name: "disable_addresses",
        sql: "UPDATE channel_addresses SET status = 'disabled', updated_at = ?3
WHERE status = 'active' AND address_id IN
  (SELECT m.address_id FROM json_each(?1) s JOIN outbound_messages m ON m.outbox_id = s.value ->> 'id'
    WHERE m.lease_token = ?2 AND m.status = 'leased' AND s.value ->> 'disable')",
        binds: vec![list.into(), wave.token.into(), wave.now.into()],
    }
}

fn move_destination(row: &OutboxId, to: &Moved, wave: &Wave<'_>) -> Statement {
    match to {
        Moved::Address {
            address_id,
            key_id,
            external_hash,
            sealed,
        } => Statement {
            name: "move_address",
            // Not where the key is gone, and not onto another address that is known by that id already.
            sql: "UPDATE channel_addresses AS a SET external_hash = ?4, external_sealed = ?5, updated_at = ?6
WHERE a.address_id = ?1 AND a.external_key_id = ?7 AND a.status = 'active'
  AND EXISTS (SELECT 1 FROM data_keys k WHERE k.key_id = ?7 AND k.destroyed_at IS NULL)
  AND EXISTS (SELECT 1 FROM outbound_messages m WHERE m.outbox_id = ?2 AND m.address_id = ?1 AND m.lease_token = ?3
    AND m.status = 'leased')
  AND NOT EXISTS (SELECT 1 FROM channel_addresses o WHERE o.gateway_id = a.gateway_id AND o.channel = a.channel
    AND o.external_hash = ?4 AND o.status = 'active')",
            binds: vec![
                address_id.into(),
                row.into(),
                wave.token.into(),
                external_hash.as_str().into(),
                sealed.clone().into(),
                wave.now.into(),
                key_id.into(),
            ],
        },
        Moved::Chat(to) => Statement {
            name: "move_chat",
            sql: "UPDATE outbound_messages SET destination_master_version = ?3, destination_sealed = ?4
WHERE outbox_id = ?1 AND lease_token = ?2 AND status = 'leased' AND destination_sealed IS NOT NULL",
            binds: vec![
                row.into(),
                wave.token.into(),
                to.master_version.into(),
                to.sealed.clone().into(),
            ],
        },
    }
}

fn settle_rows(list: &str, wave: &Wave<'_>) -> Statement {
    Statement {
        name: "settle_rows",
        sql: "UPDATE outbound_messages AS m SET
  status = iif(s.uncharged AND m.attempt_count <= 1, 'pending', s.status),
  attempt_count = m.attempt_count - s.uncharged, ambiguous_count = m.ambiguous_count + s.ambiguous,
  plain = max(m.plain, s.plain), moved = max(m.moved, s.moved),
  next_attempt_at = ifnull(s.at, m.next_attempt_at),
  provider_message_id = s.provider_id,
  provider_accepted_at = iif(s.status = 'provider_accepted', CAST(?3 AS INTEGER), NULL),
  last_error_class = ifnull(s.class, m.last_error_class), last_error_code = ifnull(s.code, m.last_error_code),
  lease_owner = NULL, lease_token = NULL, lease_expires_at = NULL, updated_at = ?3,
  terminal_at = iif(s.status = 'retry', NULL, CAST(?3 AS INTEGER)),
  destination_master_version = iif(s.status = 'retry', m.destination_master_version, NULL),
  destination_sealed = iif(s.status = 'retry', m.destination_sealed, NULL)
  FROM (SELECT value ->> 'id' AS id, value ->> 'status' AS status, value ->> 'at' AS at,
          value ->> 'class' AS class, value ->> 'code' AS code, value ->> 'provider_id' AS provider_id,
          value ->> 'uncharged' AS uncharged, value ->> 'ambiguous' AS ambiguous, value ->> 'plain' AS plain,
          value ->> 'moved' AS moved FROM json_each(?1)) s
 WHERE m.outbox_id = s.id AND m.lease_token = ?2 AND m.status = 'leased'",
        binds: vec![list.into(), wave.token.into(), wave.now.into()],
    }
}

/// How a settled wave stands.
#[derive(Debug, Clone, Default)]
pub struct Outcomes {
    /// Those of its rows whose attempt was closed as its sender said.
    pub settled: Vec<OutboxId>,
    /// Those that its lease was lost of before: somebody else holds or ended them.
    pub lost: Vec<OutboxId>,
    /// Those that still are held under the token: the batch did not run.
    pub open: Vec<OutboxId>,
    /// When something of the gateway can be claimed next; never earlier than now. `None` also when it is shut.
    pub next_due: Option<Timestamp>,
}

/// Asks what became of the attempts under `token`: what a settling is looked up by whose reply was lost.
pub fn settled_under(gateway: &GatewayId, token: &LeaseToken, rows: &[&OutboxId], now: Timestamp) -> Vec<Statement> {
    let ids: Vec<&str> = rows.iter().map(|id| id.as_str()).collect();
    vec![
        Statement {
            name: "settled_under",
            sql: "SELECT a.outbox_id, a.finished_at, a.error_code
  FROM json_each(?1) s JOIN outbound_attempts a ON a.outbox_id = s.value AND a.lease_token = ?2",
            binds: vec![json(&ids).into(), token.into()],
        },
        claimed::next_due(gateway, now),
    ]
}

/// Reads the rows of a committed [`settle_wave`] or of [`settled_under`].
pub fn read_settled(rows: &[Rows]) -> Result<Outcomes, RowError> {
    let [.., attempts, next_due] = rows else {
        return Err(wrong("", "what was settled"));
    };
    let mut outcomes = Outcomes {
        next_due: claimed::read_next_due(next_due)?,
        ..Outcomes::default()
    };
    for row in &attempts.rows {
        let id = crate::id(row, "outbox_id", OutboxId::parse)?;
        let lost = row.optional_text("error_code")? == Some(ErrorCode::LeaseLost.as_str());
        match row.optional_timestamp("finished_at")? {
            None => outcomes.open.push(id),
            Some(_) if lost => outcomes.lost.push(id),
            Some(_) => outcomes.settled.push(id),
        }
    }
    Ok(outcomes)
}

/// [`read_settled`] for a settling whose reply was lost: `None` when it did not run.
pub fn read_back(rows: &[Rows]) -> Result<Option<Outcomes>, RowError> {
    read_settled(rows).map(|outcomes| Some(outcomes).filter(|outcomes| outcomes.open.is_empty()))
}
