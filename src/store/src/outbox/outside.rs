//! Outside senders: the same claims, leases and settlings, each as a command under its `Idempotency-Key`.

use domain::ids::{GatewayId, LeaseToken, OutboxId, TurnId};
use domain::outbox::SendChannel;
use domain::outbox::settlement::Tried;
use domain::sql::{RowError, Rows, Statement};
use domain::time::Timestamp;

use super::claim::{Claim, claim, open_fences};
use super::settle::{Wave, settle_wave};
use super::{claimed, items};
use crate::idempotency::store_result;
use crate::ledger::safe;
use crate::provisioning::Command;
use crate::wrong;

/// What is known of a gateway that wants to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The service has its credential and sends for it.
    pub ours: bool,
    /// The channel is in its list.
    pub allowed: bool,
    pub epoch: i64,
}

/// Whether `gateway` may send through `channel`; see [`read_standing`].
pub fn standing(gateway: &GatewayId, channel: SendChannel) -> Statement {
    Statement {
        name: "outside_standing",
        sql: "SELECT g.channel_token_sealed IS NOT NULL AS ours,
  EXISTS (SELECT 1 FROM json_each(g.channels) c WHERE c.value = ?2) AS allowed,
  (SELECT epoch FROM meta WHERE id = 1) AS epoch
  FROM gateways g WHERE g.gateway_id = ?1",
        binds: vec![gateway.into(), channel.as_str().into()],
    }
}

/// Reads the answer of [`standing`]; `None` when there is no such gateway.
pub fn read_standing(rows: &Rows) -> Result<Option<Standing>, RowError> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Standing {
        ours: row.flag("ours")?,
        allowed: row.flag("allowed")?,
        epoch: row.integer("epoch")?,
    }))
}

/// A row as its sender's lease finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// It is under the lease.
    pub held: bool,
    /// The service has the gateway's credential and sends for it.
    pub ours: bool,
    pub turn_id: Option<TurnId>,
    pub tried: Tried,
    pub gateway_seen: Timestamp,
    pub epoch: i64,
}

/// A row of `gateway` and whether it is under `token`; see [`read_held`].
pub fn held(row: &OutboxId, gateway: &GatewayId, token: &LeaseToken) -> Statement {
    Statement {
        name: "outside_held",
        sql: "SELECT m.status = 'leased' AND m.lease_token IS ?3 AS held, g.channel_token_sealed IS NOT NULL AS ours,
  m.turn_id, m.attempt_count, m.ambiguous_count, m.max_attempts, m.expires_at, m.plain, m.moved, g.updated_at,
  (SELECT epoch FROM meta WHERE id = 1) AS epoch
  FROM outbound_messages m JOIN gateways g ON g.gateway_id = m.gateway_id
 WHERE m.outbox_id = ?1 AND m.gateway_id = ?2",
        binds: vec![row.into(), gateway.into(), token.into()],
    }
}

/// Reads the answer of [`held`]; `None` when the gateway has no such row.
pub fn read_held(rows: &Rows) -> Result<Option<Held>, RowError> {
    let Some(row) = rows.first() else { return Ok(None) };
    let turn_id = match row.optional_text("turn_id")? {
        Some(text) => Some(TurnId::parse(text).map_err(|_| wrong("turn_id", "a turn's id"))?),
        None => None,
    };
    Ok(Some(Held {
        held: row.flag("held")?,
        ours: row.flag("ours")?,
        turn_id,
        tried: claimed::tried(row)?,
        gateway_seen: row.timestamp("updated_at")?,
        epoch: row.integer("epoch")?,
    }))
}

/// Claims under a command. Its stored result names the rows; their words are read afterwards, under the token.
/// Refused by `token_current` or `key_unused`.
pub fn claim_rows(command: &Command<'_>, wave: &Claim<'_>) -> Vec<Statement> {
    let mut binds = command.key.result_binds();
    binds.push(wave.token.into());
    let result = Statement {
        name: "store_claim",
        sql: store_result!(
            "200, (SELECT json_object('outbox_ids', json_group_array(m.outbox_id)) FROM outbound_messages m
    WHERE m.lease_token = ?7)",
            "WHERE true"
        ),
        binds,
    };
    command.batch(claim(wave), result)
}

/// A sender that is about to send a row which it holds.
pub struct Beginning<'a> {
    pub row: &'a OutboxId,
    pub gateway_id: &'a GatewayId,
    pub token: &'a LeaseToken,
    pub epoch: i64,
    /// How long it holds the row from now on.
    pub until: Timestamp,
    /// `until` as the answer says it.
    pub until_text: &'a str,
    pub now: Timestamp,
}

/// Looks once more whether a held row may be sent, and renews its lease; else stores `lost`, a problem, as the
/// result. Refused by `token_current` or `key_unused`.
pub fn begin(command: &Command<'_>, beginning: &Beginning<'_>, lost: &str) -> Vec<Statement> {
    // A key runs once, so whoever holds the row by this name was renewed by this very batch.
    let owner = format!("{}/{}", beginning.gateway_id, command.key.key_hash);
    let renew = Statement {
        name: "renew_lease",
        sql: concat!(
            "UPDATE outbound_messages AS m SET lease_expires_at = ?7, lease_owner = ?8, updated_at = ?2
WHERE m.outbox_id = ?5 AND m.gateway_id = ?1 AND m.lease_token = ?6 AND m.status = 'leased'
    AND m.lease_expires_at > CAST(?2 AS INTEGER)",
            open_fences!(),
            "
RETURNING outbox_id"
        ),
        binds: vec![
            beginning.gateway_id.into(),
            beginning.now.into(),
            safe(beginning.epoch),
            // The claimant sends with a credential of its own.
            false.into(),
            beginning.row.into(),
            beginning.token.into(),
            beginning.until.into(),
            owner.as_str().into(),
        ],
    };
    let mut binds = command.key.result_binds();
    binds.extend([
        beginning.row.into(),
        beginning.token.into(),
        owner.into(),
        lost.into(),
        beginning.until_text.into(),
    ]);
    let result = Statement {
        name: "store_beginning",
        sql: store_result!(
            "iif(m.outbox_id IS NULL, 409, 200),
  iif(m.outbox_id IS NULL, ?10, json_object('outbox_id', m.outbox_id, 'lease_expires_at', ?11))",
            "FROM (SELECT 1) LEFT JOIN outbound_messages m ON m.outbox_id = ?7 AND m.lease_token = ?8
    AND m.lease_owner = ?9 WHERE true"
        ),
        binds,
    };
    command.batch(vec![renew], result)
}

/// Settles a wave of one row under a command; stores `lost`, a problem, as the result when the row was no longer held.
/// Refused by `token_current` or `key_unused`.
pub fn finish(command: &Command<'_>, wave: &Wave<'_>, row: &OutboxId, lost: &str) -> Vec<Statement> {
    let mut binds = command.key.result_binds();
    let (outcome, provider_id) = wave.attempts.first().map_or((None, None), |settled| {
        let (outcome, provider_id) = items::attempt_outcome(settled.outcome);
        (Some(outcome), provider_id)
    });
    binds.extend([
        row.into(),
        wave.token.into(),
        wave.now.into(),
        lost.into(),
        outcome.into(),
        provider_id.into(),
    ]);
    let result = Statement {
        name: "store_outcome",
        sql: store_result!(
            "iif(a.outbox_id IS NULL, 409, 200),
  iif(a.outbox_id IS NULL, ?10, json_object('outbox_id', m.outbox_id, 'status', m.status))",
            "FROM (SELECT 1) LEFT JOIN outbound_attempts a ON a.outbox_id = ?7 AND a.lease_token = ?8
    AND a.finished_at = CAST(?9 AS INTEGER) AND a.error_code IS NOT 'lease_lost'
    AND a.outcome = ?11 AND a.provider_message_id IS ?12
  LEFT JOIN outbound_messages m ON m.outbox_id = a.outbox_id WHERE true"
        ),
        binds,
    };
    command.batch(settle_wave(wave), result)
}
