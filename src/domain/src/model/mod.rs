//! What is asked of a language model and what comes back, whoever provides it.

pub mod openai;
pub mod script;
pub mod sse;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::settings::Prices;
use crate::time::Millis;
/// The largest answer that is kept, in bytes of UTF-8.
pub const ANSWER_BYTES_MAX: usize = 48 * 1024;

/// Who said a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    User,
    Assistant,
}

impl Role {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of the conversation. Printing it shows its size, never its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub role: Role,
    pub text: String,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("role", &self.role)
            .field("bytes", &self.text.len())
            .finish()
    }
}

/// One named fact that the model is given beside the conversation, such as `session: session_00…`.
#[derive(Clone, PartialEq, Eq)]
pub struct ContextLine {
    pub name: &'static str,
    pub value: String,
}

impl fmt::Debug for ContextLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextLine")
            .field("name", &self.name)
            .field("bytes", &self.value.len())
            .finish()
    }
}

/// Everything a model is given for one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The instruction, the same for everyone.
    pub system: &'static str,
    pub context: Vec<ContextLine>,
    /// The session so far, oldest first, ending with the message to be answered.
    pub messages: Vec<Message>,
}

impl Prompt {
    /// The message to be answered.
    pub fn question(&self) -> Option<&Message> {
        self.messages.last()
    }

    /// How many messages of the session came before it.
    pub fn earlier(&self) -> usize {
        self.messages.len().saturating_sub(1)
    }

    /// The instruction and the context lines as one system message.
    pub fn system_text(&self) -> String {
        let mut text = self.system.to_owned();
        for line in &self.context {
            text.push('\n');
            text.push_str(line.name);
            text.push_str(": ");
            text.push_str(&line.value);
        }
        text
    }
}

/// What an answer took. Each number saturates instead of wrapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    pub input_tokens: u32,
    pub output_tokens: u32,
    /// Millionths of the currency unit that the prices are configured in.
    pub cost_microunits: u32,
}

impl Prices {
    /// The usage with its cost, rounded up so that it is never told too low.
    pub fn usage(self, input_tokens: u32, output_tokens: u32) -> Usage {
        let part = |tokens: u32, price: u32| u128::from(tokens).saturating_mul(u128::from(price));
        let sum = part(input_tokens, self.input).saturating_add(part(output_tokens, self.output));
        let cost_microunits = u32::try_from(sum.div_ceil(1_000_000)).unwrap_or(u32::MAX);
        Usage {
            input_tokens,
            output_tokens,
            cost_microunits,
        }
    }
}

/// A finished answer. Printing it shows its size, never its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Completion {
    /// At most [`ANSWER_BYTES_MAX`] bytes, not empty.
    pub text: String,
    pub usage: Usage,
    /// `scripted` or `openai`.
    pub provider: &'static str,
    /// The model as the provider names it.
    pub model: String,
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion")
            .field("bytes", &self.text.len())
            .field("usage", &self.usage)
            .field("provider", &self.provider)
            .field("model", &self.model)
            .finish()
    }
}

/// The receiver of the deltas wants no more: the run was lost to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Halt;

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelError {
    /// The deadline passed.
    Timeout,
    /// The provider wants fewer requests; `retry_after` if it said for how long.
    RateLimited { retry_after: Option<Millis> },
    /// The provider could not be reached, broke off or answered with a failure of its own.
    Unavailable,
    /// The provider refused this request; asking again would not help.
    Rejected,
    /// The provider's answer could not be understood or was empty.
    Malformed,
    /// The answer grew over [`ANSWER_BYTES_MAX`] or its stream over what such an answer can need.
    TooLong,
    /// The receiver of the deltas asked to stop.
    Halted,
}

/// The kind of a [`ModelError`], as it stands in the ledger and in metrics: constant and free of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFault {
    Timeout,
    RateLimited,
    Unavailable,
    Rejected,
    Malformed,
    TooLong,
}

impl ModelError {
    /// What the provider did wrong; nothing when the caller itself wanted no more.
    pub const fn fault(self) -> Option<ModelFault> {
        match self {
            Self::Timeout => Some(ModelFault::Timeout),
            Self::RateLimited { .. } => Some(ModelFault::RateLimited),
            Self::Unavailable => Some(ModelFault::Unavailable),
            Self::Rejected => Some(ModelFault::Rejected),
            Self::Malformed => Some(ModelFault::Malformed),
            Self::TooLong => Some(ModelFault::TooLong),
            Self::Halted => None,
        }
    }
}

impl From<Halt> for ModelError {
    fn from(Halt: Halt) -> Self {
        Self::Halted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt() -> Prompt {
        Prompt {
            system: "Be kind.",
            context: vec![ContextLine {
                name: "session",
                value: "private".to_owned(),
            }],
            messages: vec![
                Message {
                    role: Role::User,
                    text: "private".to_owned(),
                },
                Message {
                    role: Role::Assistant,
                    text: "private".to_owned(),
                },
                Message {
                    role: Role::User,
                    text: "last".to_owned(),
                },
            ],
        }
    }

    #[test]
    fn the_last_message_is_the_question() {
        assert_eq!(prompt().question().map(|message| message.text.as_str()), Some("last"));
        assert_eq!(prompt().earlier(), 2);
        assert_eq!(prompt().system_text(), "Be kind.\nsession: private");
    }

    #[test]
    fn nothing_that_was_said_is_printed() {
        let completion = Completion {
            text: "private".to_owned(),
            usage: Usage::default(),
            provider: "scripted",
            model: "m".into(),
        };
        let printed = format!("{:?} {completion:?}", prompt());
        assert!(!printed.contains("private"), "{printed}");
        assert!(printed.contains("bytes: 7"), "{printed}");
    }

    #[test]
    fn costs_round_up_and_saturate() {
        let prices = Prices {
            input: 1,
            output: u32::MAX,
        };
        assert_eq!(prices.usage(0, 0).cost_microunits, 0);
        assert_eq!(prices.usage(1, 0).cost_microunits, 1);
        assert_eq!(prices.usage(1_000_001, 0).cost_microunits, 2);
        assert_eq!(prices.usage(0, u32::MAX).cost_microunits, u32::MAX);
    }
}
