//! One line of a turn's history. Never content: what may stand in it is this type.

use serde::{Deserialize, Serialize};

use crate::model::ModelFault;
use crate::outbox::outcome::{ErrorClass, ErrorCode};
use crate::time::Timestamp;
use crate::turn::{EventType, FailureCode};

/// The part of the service that saw an event happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Actor {
    Edge,
    UserTurns,
    Sweep,
    Client,
    /// The webhook of a channel.
    Ingress,
    /// Whoever sends what stands in the outbox.
    Sender,
}

impl Actor {
    pub const ALL: &'static [Self] = &[
        Self::Edge,
        Self::UserTurns,
        Self::Sweep,
        Self::Client,
        Self::Ingress,
        Self::Sender,
    ];

    /// The name as it is stored and shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::UserTurns => "user_turns",
            Self::Sweep => "sweep",
            Self::Client => "client",
            Self::Ingress => "ingress",
            Self::Sender => "sender",
        }
    }

    /// Reads a stored name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|actor| actor.as_str() == text)
    }
}

/// How far a client says it got with an answer. "Rendered" is not "read", and neither is more than its word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AckType {
    Rendered,
    Read,
}

impl AckType {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rendered => "rendered",
            Self::Read => "read",
        }
    }
}

/// The facts an event may carry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new_session: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error_code: Option<FailureCode>,
    /// What the model's provider did wrong, where that was the cause.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub model_fault: Option<ModelFault>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub input_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output_tokens: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ack_type: Option<AckType>,
    /// The client's own clock, milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client_timestamp: Option<Timestamp>,
    /// Which part of the answer a send was of, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub part: Option<i64>,
    /// How many parts went into the outbox.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub parts: Option<i64>,
    /// What went into the outbox is the notice that there is no answer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub notice: Option<bool>,
    /// What kind of thing went wrong with a send.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub send_error_class: Option<ErrorClass>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub send_error_code: Option<ErrorCode>,
    /// When it is tried again, milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_at: Option<Timestamp>,
}

/// One thing that happened to a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    #[serde(rename = "type")]
    pub event_type: EventType,
    pub at: Timestamp,
    pub actor: Actor,
    /// Which call of the model or which attempt to send this belongs to, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub attempt: Option<i64>,
    #[serde(default)]
    pub metadata: Metadata,
}

impl Event {
    pub fn new(event_type: EventType, at: Timestamp, actor: Actor) -> Self {
        Self {
            event_type,
            at,
            actor,
            attempt: None,
            metadata: Metadata::default(),
        }
    }

    /// The same event, charged to a call of the model or an attempt to send.
    pub fn attempt(mut self, number: i64) -> Self {
        self.attempt = Some(number);
        self
    }

    /// The same event with facts.
    pub fn with(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// The end of a turn in failure, and with which code.
    pub fn failure(code: FailureCode, at: Timestamp, actor: Actor) -> Self {
        let metadata = Metadata {
            error_code: Some(code),
            ..Metadata::default()
        };
        Self::new(EventType::TurnTerminalFailure, at, actor).with(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_stored_as_its_facts_and_nothing_else() {
        let event = Event::failure(FailureCode::GenerationLost, Timestamp::from_millis(5), Actor::Sweep);
        let json =
            r#"{"type":"turn_terminal_failure","at":5,"actor":"sweep","metadata":{"error_code":"generation_lost"}}"#;
        assert_eq!(serde_json::to_string(&event).unwrap(), json);
    }

    #[test]
    fn every_actor_is_stored_under_its_own_name() {
        for actor in Actor::ALL {
            assert_eq!(Actor::parse(actor.as_str()), Some(*actor));
            assert_eq!(serde_json::to_string(actor).unwrap(), format!("\"{}\"", actor.as_str()));
        }
        assert_eq!(Actor::parse("nobody"), None);
    }

    #[test]
    fn a_send_is_told_by_its_part_and_what_went_wrong() {
        let event = Event::new(EventType::SendRetryScheduled, Timestamp::from_millis(5), Actor::Sender)
            .attempt(2)
            .with(Metadata {
                part: Some(1),
                send_error_class: Some(ErrorClass::RateLimit),
                send_error_code: Some(ErrorCode::TooManyRequests),
                retry_at: Some(Timestamp::from_millis(7_005)),
                ..Metadata::default()
            });
        let stored =
            r#"{"part":1,"send_error_class":"rate_limit","send_error_code":"too_many_requests","retry_at":7005}"#;
        assert_eq!(serde_json::to_string(&event.metadata).unwrap(), stored);
    }
}
