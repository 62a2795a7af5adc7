//! An update with everything it is looked up by.

use domain::auth::link_code::LinkCode;
use domain::idempotency::canonical_json;
use domain::ids::GatewayId;
use domain::keys::{HashLabel, MasterSecrets};
use domain::telegram::update::{self, Content, NotAnUpdate, Update};
use store::channels::sender::Chat;

use super::{Delivery, TELEGRAM};

/// An update and its keyed hashes. Not `Debug`: it holds what a person wrote.
pub struct Incoming {
    pub update: Update,
    /// Of Telegram's id of the update.
    pub ingress_hash: String,
    /// Of the whole update.
    pub payload_hash: String,
    /// The chat, where a person wrote in one of their own.
    pub chat: Option<ChatId>,
    /// Of the code behind `/start`, if that may be one.
    pub code_hash: Option<String>,
}

/// A chat's id and the keyed hash that it is found by.
pub struct ChatId {
    pub external_id: String,
    pub external_hash: String,
}

impl Incoming {
    /// Reads the body.
    pub fn read(delivery: &Delivery<'_>, secrets: &MasterSecrets) -> Result<Self, NotAnUpdate> {
        let update = update::parse(delivery.body)?;
        let canonical = canonical_json(delivery.body).map_err(|_| NotAnUpdate::Malformed)?;
        let gateway = delivery.gateway_id.as_str().as_bytes();
        let hash = |label, text: &str| secrets.keyed_hash_of(label, &[gateway, TELEGRAM.as_bytes(), text.as_bytes()]);
        let message = update.message.as_ref().filter(|message| message.is_from_a_person());
        let code = message.and_then(|message| match &message.content {
            Content::Start(code) => LinkCode::parse(code.as_deref()?),
            Content::Words(_) | Content::Stop | Content::Help | Content::Wordless | Content::Service => None,
        });
        let chat = message.map(|message| {
            let external_id = message.chat_id.to_string();
            ChatId {
                external_hash: hash(HashLabel::ExternalAddress, &external_id),
                external_id,
            }
        });
        Ok(Self {
            ingress_hash: hash(HashLabel::IngressId, &update.id.to_string()),
            payload_hash: hash(HashLabel::RequestBody, &canonical),
            chat,
            code_hash: code.map(|code| code.hash(secrets)),
            update,
        })
    }

    /// Where the message came from; `None` where it is no person's.
    pub fn chat<'a>(&'a self, gateway_id: &'a GatewayId) -> Option<Chat<'a>> {
        self.chat.as_ref().map(|chat| Chat {
            gateway_id,
            channel: TELEGRAM,
            external_hash: &chat.external_hash,
        })
    }

    /// What the person sent; `None` where it is no person's.
    pub fn content(&self) -> Option<&Content> {
        let message = self.update.message.as_ref()?;
        self.chat.as_ref().map(|_| &message.content)
    }
}
