//! One-time codes, and the bonds between chats and people that they make.

use domain::guard::Guard;
use domain::ids::{AddressId, DataKeyId, UserId};
use domain::sql::{RowError, Rows, Statement};
use domain::time::Timestamp;

use crate::channels::sender::Chat;
use crate::idempotency::store_result;
use crate::keys::{self, KeyRow};
use crate::provisioning::Command;

/// A code that a person may use on a gateway: it has not run out, and the gateway may speak for them on the channel.
/// `?1` to `?4` are the code's hash, the gateway, the channel and now.
macro_rules! code_rows {
    () => {
        "
FROM link_codes l
JOIN users u ON u.user_id = l.user_id AND u.status = 'active'
JOIN families f ON f.family_id = u.family_id AND f.status = 'active'
JOIN gateways g ON g.gateway_id = ?2 AND g.status IN ('active', 'broken')
JOIN gateway_families p ON p.gateway_id = g.gateway_id AND p.family_id = u.family_id
WHERE l.code_hash = ?1 AND l.channel = ?3 AND l.expires_at > CAST(?4 AS INTEGER)
  AND EXISTS (SELECT 1 FROM json_each(g.channels) c WHERE c.value = ?3)"
    };
}

/// A command of a person about their own chats on a channel.
pub struct Linking<'a> {
    pub user_id: &'a UserId,
    pub channel: &'a str,
}

impl Linking<'_> {
    /// Gives out a code. The stored result says until when it can be used, and not the code itself.
    ///
    /// Refused by `token_current` or `key_unused`.
    pub fn issue(&self, command: &Command<'_>, code_hash: &str, expires_at: Timestamp, result: &str) -> Vec<Statement> {
        let insert = Statement {
            name: "insert_link_code",
            // The same key gives the same code again, also when its first result has long been forgotten.
            sql: "INSERT INTO link_codes (code_hash, user_id, channel, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (code_hash) DO UPDATE SET created_at = excluded.created_at, expires_at = excluded.expires_at,
  used_at = NULL",
            binds: vec![
                code_hash.into(),
                self.user_id.into(),
                self.channel.into(),
                command.key.now.into(),
                expires_at.into(),
            ],
        };
        command.batch(vec![insert], command.key.store(200, result))
    }

    /// Ends every bond of the person's chats on the channel. Refused by `token_current` or `key_unused`.
    pub fn unlink(&self, command: &Command<'_>) -> Vec<Statement> {
        let disable = Statement {
            name: "unlink_addresses",
            sql: "UPDATE channel_addresses SET status = 'disabled', updated_at = ?3
WHERE user_id = ?1 AND channel = ?2 AND status = 'active'",
            binds: vec![self.user_id.into(), self.channel.into(), command.key.now.into()],
        };
        let result = store_result!("200, json_object('channel', ?7, 'linked', json('false'))", "WHERE true");
        command.batch(vec![disable], command.result(result, self.channel))
    }
}

/// A code as it may be used; see [`read_code`].
pub struct CodeFacts {
    pub user_id: UserId,
    pub used: bool,
    /// `None` once the person's key was destroyed.
    pub key: Option<KeyRow>,
}

/// The code of this hash and the key of the person it was made for; see [`read_code`].
pub fn code(chat: Chat<'_>, code_hash: &str, now: Timestamp) -> Vec<Statement> {
    let key = Statement {
        name: "key_of_link_code",
        sql: "SELECT k.key_id, k.master_version, k.wrapped FROM link_codes l
JOIN data_keys k ON k.subject_kind = 'user' AND k.subject_id = l.user_id AND k.destroyed_at IS NULL
WHERE l.code_hash = ?1",
        binds: vec![code_hash.into()],
    };
    let code = Statement {
        name: "link_code",
        sql: concat!("SELECT l.user_id, l.used_at IS NOT NULL AS used", code_rows!()),
        binds: vec![
            code_hash.into(),
            chat.gateway_id.into(),
            chat.channel.into(),
            now.into(),
        ],
    };
    vec![code, key]
}

/// Reads the rows of [`code`]; `None` for a code that nobody may use here.
pub fn read_code(rows: &[Rows]) -> Result<Option<CodeFacts>, RowError> {
    let [code, key] = rows else {
        return Err(crate::wrong("", "two row sets"));
    };
    let Some(row) = code.first() else { return Ok(None) };
    Ok(Some(CodeFacts {
        user_id: crate::id(row, "user_id", UserId::parse)?,
        used: row.flag("used")?,
        key: key.first().map(KeyRow::read).transpose()?,
    }))
}

/// A chat about to be bound to the person who holds a code.
pub struct Bond<'a> {
    pub chat: Chat<'a>,
    pub code_hash: &'a str,
    pub user_id: &'a UserId,
    pub address_id: &'a AddressId,
    /// The person's data key, which seals the external id.
    pub key: &'a DataKeyId,
    pub external_sealed: Vec<u8>,
    pub now: Timestamp,
}

/// The part of a batch that binds the chat: whoever had it before loses it, and a bond that is there already stays.
/// `address_id` is a new one, or the chat's own where this person has it.
///
/// Refused by `link_code_live` or `key_live`.
pub fn bind(bond: &Bond<'_>) -> Vec<Statement> {
    let chat = bond.chat;
    vec![
        link_code_live(bond),
        keys::key_live(bond.key),
        Statement {
            name: "use_link_code",
            sql: "UPDATE link_codes SET used_at = ?2 WHERE code_hash = ?1",
            binds: vec![bond.code_hash.into(), bond.now.into()],
        },
        Statement {
            name: "take_chat_over",
            sql: "UPDATE channel_addresses SET status = 'disabled', updated_at = ?5
WHERE gateway_id = ?1 AND channel = ?2 AND external_hash = ?3 AND status = 'active' AND user_id <> ?4",
            binds: vec![
                chat.gateway_id.into(),
                chat.channel.into(),
                chat.external_hash.into(),
                bond.user_id.into(),
                bond.now.into(),
            ],
        },
        Statement {
            name: "bind_address",
            sql: "INSERT INTO channel_addresses (address_id, gateway_id, channel, user_id, external_hash,
  external_key_id, external_sealed, status, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'active', ?8, ?8)
ON CONFLICT (gateway_id, channel, external_hash) WHERE status = 'active' DO NOTHING
ON CONFLICT (address_id) DO UPDATE SET status = 'active', updated_at = excluded.updated_at",
            binds: vec![
                bond.address_id.into(),
                chat.gateway_id.into(),
                chat.channel.into(),
                bond.user_id.into(),
                chat.external_hash.into(),
                bond.key.into(),
                bond.external_sealed.clone().into(),
                bond.now.into(),
            ],
        },
    ]
}

fn link_code_live(bond: &Bond<'_>) -> Statement {
    Statement {
        name: Guard::LinkCodeLive.label(),
        sql: concat!(
            "INSERT INTO must(label, ok)
SELECT 'link_code_live', EXISTS (SELECT 1",
            code_rows!(),
            "
  AND l.user_id = ?5 AND l.used_at IS NULL)"
        ),
        binds: vec![
            bond.code_hash.into(),
            bond.chat.gateway_id.into(),
            bond.chat.channel.into(),
            bond.now.into(),
            bond.user_id.into(),
        ],
    }
}

/// Ends the chat's bond, whoever has it.
pub fn stop(chat: Chat<'_>, now: Timestamp) -> Statement {
    Statement {
        name: "stop_address",
        sql: "UPDATE channel_addresses SET status = 'disabled', updated_at = ?4
WHERE gateway_id = ?1 AND channel = ?2 AND external_hash = ?3 AND status = 'active'",
        binds: vec![
            chat.gateway_id.into(),
            chat.channel.into(),
            chat.external_hash.into(),
            now.into(),
        ],
    }
}
