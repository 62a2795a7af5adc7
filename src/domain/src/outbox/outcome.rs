//! What came of one attempt, as a closed type that every provider's answer maps to.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::time::Millis;

named! {
    /// What kind of thing went wrong: the label of metrics and alerts.
    ErrorClass {
        /// No connection, or it broke.
        Transport = "transport",
        /// No answer in time.
        Timeout = "timeout",
        /// The provider had a fault of its own.
        Provider = "provider",
        /// The provider wants fewer messages.
        RateLimit = "rate_limit",
        /// The provider does not know our credential.
        Credential = "credential",
        /// The destination is gone or wants nothing from us.
        Destination = "destination",
        /// The provider does not take this content.
        Content = "content",
        /// The sender broke off before it could say what came of it.
        Crash = "crash",
        /// Rules of our own ended it: expiry, authorization, attempts.
        Policy = "policy",
    }
}

named! {
    /// Exactly what went wrong. Free of content and of identifiers.
    ErrorCode {
        Unreachable = "unreachable",
        Stalled = "stalled",
        BrokeOff = "broke_off",
        ServerError = "server_error",
        NotUnderstood = "not_understood",
        TooManyRequests = "too_many_requests",
        Unauthorized = "unauthorized",
        Blocked = "blocked",
        ChatNotFound = "chat_not_found",
        UserDeactivated = "user_deactivated",
        Moved = "moved",
        MessageTooLong = "message_too_long",
        MessageEmpty = "message_empty",
        BadFormatting = "bad_formatting",
        BadRequest = "bad_request",
        Forbidden = "forbidden",
        /// The words cannot be read any more: the person's key is gone.
        ContentUnreadable = "content_unreadable",
        LeaseLost = "lease_lost",
        /// Nobody can say whether the provider took it, and it was tried often enough.
        Unconfirmed = "unconfirmed",
        AttemptsExhausted = "attempts_exhausted",
        Expired = "expired",
        /// The person, their address or the gateway's leave has changed since.
        AuthorizationChanged = "authorization_changed",
        /// An earlier part of the same reply failed.
        EarlierPartFailed = "earlier_part_failed",
        /// An operator ended it.
        Withdrawn = "withdrawn",
        /// What an outside sender reports without a code of this list.
        Other = "other",
    }
}

impl ErrorClass {
    /// Whether only the service itself gives it: no provider's answer leads to it, and no sender outside may report it.
    pub const fn is_own(self) -> bool {
        match self {
            Self::Crash | Self::Policy => true,
            Self::Transport
            | Self::Timeout
            | Self::Provider
            | Self::RateLimit
            | Self::Credential
            | Self::Destination
            | Self::Content => false,
        }
    }
}

impl ErrorCode {
    /// Whether only the service itself gives it: no provider's answer leads to it, and no sender outside may report it.
    pub const fn is_own(self) -> bool {
        match self {
            Self::ContentUnreadable
            | Self::LeaseLost
            | Self::Unconfirmed
            | Self::AttemptsExhausted
            | Self::Expired
            | Self::AuthorizationChanged
            | Self::EarlierPartFailed
            | Self::Withdrawn => true,
            Self::Unreachable
            | Self::Stalled
            | Self::BrokeOff
            | Self::ServerError
            | Self::NotUnderstood
            | Self::TooManyRequests
            | Self::Unauthorized
            | Self::Blocked
            | Self::ChatNotFound
            | Self::UserDeactivated
            | Self::Moved
            | Self::MessageTooLong
            | Self::MessageEmpty
            | Self::BadFormatting
            | Self::BadRequest
            | Self::Forbidden
            | Self::Other => false,
        }
    }
}

/// How far a provider's wish to be left alone for a while reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// Only this row.
    Row,
    /// Everything to this destination.
    Lane,
    /// Everything of this gateway.
    Gateway,
}

/// What came of one attempt.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The provider took it, and calls it by this id.
    Accepted { provider_message_id: String },
    /// Certainly not taken; may be later, and not before `after` where the provider said so.
    Retry {
        class: ErrorClass,
        code: ErrorCode,
        after: Option<Millis>,
        holds: Holds,
    },
    /// Certainly not taken: the formatting was not understood. The same words may go as plain text.
    Unformatted,
    /// Certainly not taken: the destination has another id now.
    Moved { to: String },
    /// Certainly not taken: our credential is not known. The gateway is broken until an operator mends it.
    Unauthorized,
    /// The destination is gone or has shut us out.
    Gone { code: ErrorCode },
    /// Never to be taken.
    Rejected { class: ErrorClass, code: ErrorCode },
    /// Nobody knows whether it was taken.
    Ambiguous { class: ErrorClass, code: ErrorCode },
    /// The send was not begun: there was not enough time left of the lease, or it had expired meanwhile.
    NotStarted,
}

impl fmt::Debug for Outcome {
    /// Without ids of people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted { .. } => f.write_str("Accepted"),
            Self::Retry {
                class,
                code,
                after,
                holds,
            } => f
                .debug_struct("Retry")
                .field("class", class)
                .field("code", code)
                .field("after", after)
                .field("holds", holds)
                .finish(),
            Self::Unformatted => f.write_str("Unformatted"),
            Self::Moved { .. } => f.write_str("Moved"),
            Self::Unauthorized => f.write_str("Unauthorized"),
            Self::Gone { code } => write!(f, "Gone({code:?})"),
            Self::Rejected { class, code } => write!(f, "Rejected({class:?}, {code:?})"),
            Self::Ambiguous { class, code } => write!(f, "Ambiguous({class:?}, {code:?})"),
            Self::NotStarted => f.write_str("NotStarted"),
        }
    }
}
