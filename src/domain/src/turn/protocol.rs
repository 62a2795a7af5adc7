//! What the edge and the `UserTurns` object say to each other. Versioned: version N reads N − 1.

use serde::{Deserialize, Serialize};

use crate::http::context::RequestContext;
use crate::ids::{ConversationId, SessionId, TurnId};
use crate::problem::Code;
use crate::turn::FailureCode;

/// A request to the object of one user.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "v")]
pub enum ObjectRequest {
    #[serde(rename = "1")]
    V1(Command),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Accept a message and answer it.
    Chat(Box<ChatCommand>),
    /// Go on with whatever of this user was left unfinished.
    Wake,
}

/// A message that passed authentication and validation.
#[derive(Clone, Serialize, Deserialize)]
pub struct ChatCommand {
    pub context: RequestContext,
    /// The conversation the client named, if any.
    pub conversation_id: Option<ConversationId>,
    pub message: String,
    /// Keyed hash of the body's canonical JSON.
    pub request_hash: String,
    /// The client wants to see the answer grow.
    pub stream: bool,
}

impl std::fmt::Debug for ChatCommand {
    /// Without the message: commands may be printed, words may not.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatCommand")
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// One line of the object's answer. Ends with `Done` or `Refused`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum Frame {
    /// The turn was accepted.
    Turn {
        turn_id: TurnId,
        conversation_id: ConversationId,
        session_id: SessionId,
    },
    /// A further piece of the answer.
    Delta { text: String },
    /// The answer, stored.
    Done {
        answer: Box<ChatAnswer>,
        replayed: bool,
        handover: Handover,
        costs: Costs,
    },
    /// There is no answer, and why.
    Refused { refusal: ChatRefusal, costs: Costs },
}

impl std::fmt::Debug for Frame {
    /// Without the words.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Turn { turn_id, .. } => f.debug_struct("Turn").field("turn_id", turn_id).finish_non_exhaustive(),
            Self::Delta { text } => f.debug_struct("Delta").field("bytes", &text.len()).finish(),
            Self::Done { answer, replayed, .. } => f
                .debug_struct("Done")
                .field("answer", answer)
                .field("replayed", replayed)
                .finish_non_exhaustive(),
            Self::Refused { refusal, .. } => f
                .debug_struct("Refused")
                .field("refusal", refusal)
                .finish_non_exhaustive(),
        }
    }
}

impl std::fmt::Debug for ChatAnswer {
    /// Without the words.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatAnswer")
            .field("turn_id", &self.turn_id)
            .field("bytes", &self.reply.len())
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}

/// Whether the edge still has to put on record that the answer was handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handover {
    Due,
    Recorded,
}

/// What `POST /chat` answers.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatAnswer {
    pub turn_id: TurnId,
    pub conversation_id: ConversationId,
    pub session_id: SessionId,
    pub reply: String,
    pub context_revision: i64,
    pub usage: AnswerUsage,
}

/// What the answer cost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnswerUsage {
    pub provider: String,
    pub model: String,
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// Millionths of the billing currency's unit.
    pub cost_microunits: i64,
}

/// Why a message was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatRefusal {
    pub code: Code,
    /// Whole seconds.
    pub retry_after: Option<i64>,
    /// The turn, when one exists.
    pub turn_id: Option<TurnId>,
    /// The stored result of an earlier request under the same key.
    pub replayed: bool,
    /// The same words need a new idempotency key to be tried again.
    pub new_key_required: bool,
}

impl ChatRefusal {
    /// A refusal of something that never became a turn.
    pub fn of(code: Code) -> Self {
        Self {
            code,
            retry_after: None,
            turn_id: None,
            replayed: false,
            new_key_required: false,
        }
    }

    /// A refusal that may pass by itself within `secs` seconds.
    pub fn for_a_while(code: Code, secs: i64) -> Self {
        Self {
            retry_after: Some(secs),
            ..Self::of(code)
        }
    }

    /// The failure that `turn_id` ended in.
    pub fn of_failure(turn_id: TurnId, code: FailureCode, replayed: bool) -> Self {
        Self {
            turn_id: Some(turn_id),
            replayed,
            new_key_required: code.new_key_required(),
            ..Self::of(problem_code(code))
        }
    }
}

/// The problem that tells a client of `failure`.
pub fn problem_code(failure: FailureCode) -> Code {
    match failure {
        FailureCode::GenerationLost => Code::GenerationLost,
        FailureCode::GenerationFailed => Code::GenerationFailed,
        FailureCode::GenerationTimeout => Code::GenerationTimeout,
        FailureCode::DeadlineExceeded => Code::DeadlineExceeded,
        FailureCode::SubjectDeleted => Code::TokenStale,
        // The answer exists and is returned instead; this is what a client without it would be told.
        FailureCode::ResponseNotCommitted
        | FailureCode::DeliveryFailed
        | FailureCode::DeliveryExpired
        | FailureCode::DeliveryCancelled => Code::Unavailable,
    }
}

/// What a request cost the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Costs {
    /// Round trips on the critical path.
    pub trips: u32,
    /// Rows written, index entries included.
    pub rows_written: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_was_said_is_printed() {
        let answer = ChatAnswer {
            turn_id: TurnId::parse("turn_00a").unwrap(),
            conversation_id: ConversationId::parse("conv_00a").unwrap(),
            session_id: SessionId::parse("session_00a").unwrap(),
            reply: "private".to_owned(),
            context_revision: 1,
            usage: AnswerUsage::default(),
        };
        let done = Frame::Done {
            answer: Box::new(answer),
            replayed: false,
            handover: Handover::Due,
            costs: Costs::default(),
        };
        let delta = Frame::Delta {
            text: "private".to_owned(),
        };
        let printed = format!("{done:?} {delta:?}");
        assert!(!printed.contains("private"), "{printed}");
        assert_eq!(printed.matches("bytes: 7").count(), 2, "{printed}");
    }
}
