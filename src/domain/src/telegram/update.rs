//! What Telegram delivers to a webhook: one update at a time (Bot API, "Update").
//!
//! Everything that is not understood is left alone: new kinds of updates and new members must never stop the bot. Only
//! what is no update at all is refused.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::http::bodies::is_locale;
use crate::http::json;
use crate::names::named;

named! {
    /// Telegram's kinds of updates. An update has one of these members besides its id.
    UpdateKind {
        Message = "message",
        EditedMessage = "edited_message",
        ChannelPost = "channel_post",
        EditedChannelPost = "edited_channel_post",
        BusinessConnection = "business_connection",
        BusinessMessage = "business_message",
        EditedBusinessMessage = "edited_business_message",
        DeletedBusinessMessages = "deleted_business_messages",
        MessageReaction = "message_reaction",
        MessageReactionCount = "message_reaction_count",
        InlineQuery = "inline_query",
        ChosenInlineResult = "chosen_inline_result",
        CallbackQuery = "callback_query",
        ShippingQuery = "shipping_query",
        PreCheckoutQuery = "pre_checkout_query",
        PurchasedPaidMedia = "purchased_paid_media",
        Poll = "poll",
        PollAnswer = "poll_answer",
        MyChatMember = "my_chat_member",
        ChatMember = "chat_member",
        ChatJoinRequest = "chat_join_request",
        ChatBoost = "chat_boost",
        RemovedChatBoost = "removed_chat_boost",
        /// None of these, or none at all.
        Unknown = "unknown",
    }
}

/// The members by which a message shows that a person sent something other than words. What has neither words nor one
/// of these is a notice of Telegram itself, such as a pinned message.
const MEDIA: &[&str] = &[
    "animation",
    "audio",
    "checklist",
    "contact",
    "dice",
    "document",
    "game",
    "location",
    "paid_media",
    "photo",
    "poll",
    "sticker",
    "story",
    "venue",
    "video",
    "video_note",
    "voice",
];

/// One update. Not `Debug`: it holds what a person wrote, and who they are.
#[derive(Clone, PartialEq, Eq)]
pub struct Update {
    /// Telegram's own number for it; a redelivery has the same.
    pub id: i64,
    pub kind: UpdateKind,
    /// The message, where the kind is [`UpdateKind::Message`] and it has a chat.
    pub message: Option<Message>,
}

/// A message as far as it matters here.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub chat_id: i64,
    /// The chat is one with a single person: no group and no channel.
    pub private: bool,
    /// `None` where nobody in particular sent it.
    pub sender_id: Option<i64>,
    pub from_bot: bool,
    /// The language of the sender's app, as a language tag.
    pub language: Option<String>,
    pub content: Content,
}

/// What a message says.
#[derive(Clone, PartialEq, Eq)]
pub enum Content {
    /// Its text or caption, as it was sent; perhaps only white space.
    Words(String),
    /// `/start`, with the first word behind it.
    Start(Option<String>),
    Stop,
    Help,
    /// Something without words: a sticker, a voice message, a photo without a caption.
    Wordless,
    /// A notice of Telegram itself.
    Service,
}

/// The body is not an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotAnUpdate {
    /// Not one well-formed JSON value.
    Malformed,
    /// Not an object with a whole number as its `update_id`.
    NoId,
}

impl Message {
    /// Whether it is what a person wrote to the bot in a chat of their own: the only kind that is answered.
    pub fn is_from_a_person(&self) -> bool {
        // In a private chat Telegram gives the chat and the sender the same id.
        self.private && !self.from_bot && self.sender_id == Some(self.chat_id)
    }
}

/// Reads an update.
pub fn parse(body: &str) -> Result<Update, NotAnUpdate> {
    let value = json::parse(body).map_err(|json::MalformedJson| NotAnUpdate::Malformed)?;
    let id = value
        .get("update_id")
        .and_then(Value::as_i64)
        .ok_or(NotAnUpdate::NoId)?;
    let members = value.as_object().ok_or(NotAnUpdate::NoId)?;
    let there = |kind: &&UpdateKind| members.get(kind.as_str()).is_some_and(|member| !member.is_null());
    let kind = UpdateKind::ALL
        .iter()
        .find(there)
        .copied()
        .unwrap_or(UpdateKind::Unknown);
    let message = members.get("message").filter(|_| kind == UpdateKind::Message);
    let message = message.and_then(Value::as_object).and_then(read_message);
    Ok(Update { id, kind, message })
}

fn read_message(members: &Map<String, Value>) -> Option<Message> {
    let chat = members.get("chat")?;
    let from = members.get("from");
    let language = from.and_then(|from| from.get("language_code")).and_then(Value::as_str);
    Some(Message {
        chat_id: chat.get("id")?.as_i64()?,
        private: chat.get("type").and_then(Value::as_str) == Some("private"),
        sender_id: from.and_then(|from| from.get("id")).and_then(Value::as_i64),
        // Who does not say whether it is a bot is treated as one.
        from_bot: from.and_then(|from| from.get("is_bot")).and_then(Value::as_bool) != Some(false),
        language: language.filter(|tag| is_locale(tag)).map(str::to_owned),
        content: content(members),
    })
}

fn content(members: &Map<String, Value>) -> Content {
    if let Some(text) = members.get("text").and_then(Value::as_str) {
        return command(text).unwrap_or_else(|| Content::Words(text.to_owned()));
    }
    if let Some(caption) = members.get("caption").and_then(Value::as_str) {
        return Content::Words(caption.to_owned());
    }
    let there = |name: &&str| members.get(*name).is_some_and(|member| !member.is_null());
    if MEDIA.iter().any(there) {
        Content::Wordless
    } else {
        Content::Service
    }
}

/// One of our commands: `/name` or `/name@bot` at the very beginning. Others are ordinary words.
fn command(text: &str) -> Option<Content> {
    let (head, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let name = head.strip_prefix('/')?;
    let name = name.split_once('@').map_or(name, |(name, _)| name);
    match name.to_ascii_lowercase().as_str() {
        "start" => Some(Content::Start(rest.split_whitespace().next().map(str::to_owned))),
        "stop" => Some(Content::Stop),
        "help" => Some(Content::Help),
        _ => None,
    }
}

#[cfg(test)]
#[path = "update_tests.rs"]
mod tests;
