//! The fixed texts that the service itself sends.

use serde::{Deserialize, Serialize};

use crate::names::named;

named! {
    /// A fixed text.
    Template {
        /// A channel turn ended without an answer.
        TurnFailed = "turn_failed",
        /// The sender is not known here.
        LinkFirst = "link_first",
        /// The chat is bound now.
        Linked = "linked",
        /// The code of a `/start` was not taken.
        LinkRefused = "link_refused",
        /// The chat is no longer bound.
        Stopped = "stopped",
        Help = "help",
        /// A message without words that could be read.
        TextOnly = "text_only",
        /// A message too long to be taken.
        TooLong = "too_long",
        /// As many messages wait for an answer as one person may have waiting.
        TooMany = "too_many",
    }
}

impl Template {
    /// The words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::TurnFailed => {
                "Sorry, I could not answer your last message. Nothing of it was lost; please send it again."
            }
            Self::LinkFirst => {
                "I do not know you yet. Ask for a link code in the app, then send it here as: /start CODE"
            }
            Self::Linked => "This chat is now linked to you. Just write to me.",
            Self::LinkRefused => "This code cannot be used. Ask for a new one in the app, then send: /start CODE",
            Self::Stopped => "This chat is no longer linked. Nothing more will be sent here.",
            Self::Help => {
                "Write to me as you would to a person.\n/start CODE links this chat to you.\n/stop unlinks it.\n/help shows this."
            }
            Self::TextOnly => "I can only read text so far. Please write it to me.",
            Self::TooLong => "That message is too long for me. Please send it in shorter pieces.",
            Self::TooMany => {
                "You write faster than I can answer, so I did not take your last message. Please wait for my answers, then send it again."
            }
        }
    }
}
