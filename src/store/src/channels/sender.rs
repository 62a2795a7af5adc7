//! The gateway that a webhook belongs to, and the person behind a channel's sender.

use domain::guard::Guard;
use domain::ids::GatewayId;
use domain::sql::{RowError, Rows, Statement};

use crate::directory::{self, Sender, sender_rows};
use crate::keys::KeyRow;
use crate::ledger::place::ConversationSeen;
use crate::ledger::safe;

/// A gateway as its webhook sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookGateway {
    /// Keyed hash of the webhook's secret; `None` closes the webhook.
    pub secret_hash: Option<String>,
    /// It is not suspended, and has leave for the channel.
    pub open: bool,
    pub revision: i64,
    /// The service's epoch.
    pub epoch: i64,
}

/// The gateway; see [`read_gateway`].
pub fn gateway(gateway: &GatewayId, channel: &str) -> Statement {
    Statement {
        name: "webhook_gateway",
        sql: "SELECT g.webhook_secret_hash, g.authorization_revision, m.epoch, g.status IN ('active', 'broken')
  AND EXISTS (SELECT 1 FROM json_each(g.channels) c WHERE c.value = ?2) AS open
FROM gateways g, meta m WHERE g.gateway_id = ?1 AND m.id = 1",
        binds: vec![gateway.into(), channel.into()],
    }
}

/// Reads the answer of [`gateway`].
pub fn read_gateway(rows: &Rows) -> Result<Option<WebhookGateway>, RowError> {
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(WebhookGateway {
        secret_hash: row.optional_text("webhook_secret_hash")?.map(ToOwned::to_owned),
        open: row.flag("open")?,
        revision: row.integer("authorization_revision")?,
        epoch: row.integer("epoch")?,
    }))
}

/// Where a message came from: a destination of a gateway's channel.
#[derive(Clone, Copy)]
pub struct Chat<'a> {
    pub gateway_id: &'a GatewayId,
    pub channel: &'a str,
    /// Keyed hash of the external id.
    pub external_hash: &'a str,
}

/// A known sender in their chat.
pub struct SenderSeen<'a> {
    pub chat: Chat<'a>,
    pub sender: &'a Sender,
}

/// Everything about the person behind a chat that accepting a message needs; see [`SenderFacts::read`].
///
/// Only the chat is known before, so each of them finds the person by it. Of the turns that wait in the person's line
/// `line_max` are counted at most.
pub fn sender_facts(chat: Chat<'_>, line_max: usize) -> Vec<Statement> {
    let binds = || vec![chat.gateway_id.into(), chat.channel.into(), chat.external_hash.into()];
    let mut counting = binds();
    counting.push(u32::try_from(line_max).unwrap_or(u32::MAX).into());
    vec![
        directory::user_of_sender(chat.gateway_id, chat.channel, chat.external_hash),
        Statement {
            name: "key_of_sender",
            sql: "SELECT k.key_id, k.master_version, k.wrapped FROM channel_addresses a
JOIN data_keys k ON k.subject_kind = 'user' AND k.subject_id = a.user_id AND k.destroyed_at IS NULL
WHERE a.gateway_id = ?1 AND a.channel = ?2 AND a.external_hash = ?3 AND a.status = 'active'",
            binds: binds(),
        },
        Statement {
            name: "conversation_of_sender",
            sql: "SELECT c.conversation_id, c.session_id, c.last_message_at, c.is_default FROM channel_addresses a
JOIN conversations c ON c.user_id = a.user_id AND c.channel = ?2 AND ifnull(c.gateway_id, '') = ?1
  AND c.is_default = 1
WHERE a.gateway_id = ?1 AND a.channel = ?2 AND a.external_hash = ?3 AND a.status = 'active'",
            binds: binds(),
        },
        Statement {
            name: "line_of_sender",
            // The same turns as `unfinished_turns` finds, whichever channel they came through.
            sql: "SELECT count(*) AS waiting FROM (SELECT 1 FROM channel_addresses a
JOIN turns t ON t.user_id = a.user_id AND t.terminal_at IS NULL AND t.delivery_status <> 'pending'
  AND t.status IN ('accepted', 'processing') AND t.origin IN ('direct', 'channel')
WHERE a.gateway_id = ?1 AND a.channel = ?2 AND a.external_hash = ?3 AND a.status = 'active'
LIMIT CAST(?4 AS INTEGER))",
            binds: counting,
        },
    ]
}

/// What [`sender_facts`] found.
pub struct SenderFacts {
    pub sender: Sender,
    /// `None` once the person's key was destroyed.
    pub key: Option<KeyRow>,
    pub conversation: Option<ConversationSeen>,
    /// How many of the person's turns wait for an answer or are being answered; not counted beyond `line_max`.
    pub waiting: i64,
}

impl SenderFacts {
    /// Reads the rows of [`sender_facts`]; `None` where no person stands behind the chat.
    pub fn read(rows: &[Rows]) -> Result<Option<Self>, RowError> {
        let [sender, key, conversation, line] = rows else {
            return Err(crate::wrong("", "four row sets"));
        };
        let Some(sender) = directory::read_sender(sender)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            sender,
            key: key.first().map(KeyRow::read).transpose()?,
            conversation: conversation.first().map(ConversationSeen::read).transpose()?,
            waiting: line.first().map_or(Ok(0), |row| row.integer("waiting"))?,
        }))
    }
}

/// The guard that the sender still is who they were, and may still be spoken for.
pub fn sender_current(seen: &SenderSeen<'_>) -> Statement {
    Statement {
        name: Guard::SenderCurrent.label(),
        sql: concat!(
            "INSERT INTO must(label, ok)
SELECT 'sender_current', EXISTS (SELECT 1",
            sender_rows!(),
            "
  AND a.address_id = ?4 AND u.user_id = ?5 AND u.authorization_revision = CAST(?6 AS INTEGER))"
        ),
        binds: vec![
            seen.chat.gateway_id.into(),
            seen.chat.channel.into(),
            seen.chat.external_hash.into(),
            (&seen.sender.address_id).into(),
            (&seen.sender.user_id).into(),
            safe(seen.sender.revision),
        ],
    }
}
