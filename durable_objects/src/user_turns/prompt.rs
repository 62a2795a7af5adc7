//! What the model is given: the session so far, opened, and a few facts about it.

use domain::keys::{Aad, DataKey};
use domain::model::{ContextLine, Message, Prompt, Role};
use store::ledger::run::{SealedMessage, Started};

use crate::user_turns::message_row;

/// The instruction that every prompt begins with.
const SYSTEM: &str = "You are a family's assistant. Be kind, brief and honest; say so when you do not know.";

/// Opens a stored message; `None` when its key is gone or it is not what it claims to be.
pub(crate) fn open_text(message: &SealedMessage, key: &DataKey) -> Option<String> {
    if message.key_id != *key.id() {
        return None;
    }
    let row = message_row(&message.turn_id, message.from_user);
    let aad = Aad {
        table: "messages",
        row: &row,
        column: "content_sealed",
    };
    String::from_utf8(key.open(&aad, &message.sealed).ok()?).ok()
}

/// The session so far and what is known beside it; `None` when a message does not open.
pub(super) fn prompt(started: &Started, key: &DataKey) -> Option<Prompt> {
    let messages = started
        .history
        .iter()
        .map(|message| {
            let role = if message.from_user { Role::User } else { Role::Assistant };
            open_text(message, key).map(|text| Message { role, text })
        })
        .collect::<Option<Vec<_>>>()?;
    let mut context = vec![
        ContextLine {
            name: "session",
            value: started.session_id.to_string(),
        },
        ContextLine {
            name: "context_revision",
            value: started.context_revision.to_string(),
        },
    ];
    let optional = [("locale", &started.locale), ("timezone", &started.timezone)];
    for (name, value) in optional {
        if let Some(value) = value {
            context.push(ContextLine {
                name,
                value: value.clone(),
            });
        }
    }
    Some(Prompt {
        system: SYSTEM,
        context,
        messages,
    })
}

/// Everything the model is given, as one text to be hashed.
pub(super) fn prompt_text(prompt: &Prompt) -> String {
    let mut text = prompt.system_text();
    for message in &prompt.messages {
        text.push('\n');
        text.push_str(message.role.as_str());
        text.push('\n');
        text.push_str(&message.text);
    }
    text
}
