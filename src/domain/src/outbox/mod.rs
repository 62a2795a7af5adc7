//! The outbox: every message to a provider is a row that ends acknowledged, accepted, failed, expired or cancelled.
//!
//! What is decided is decided here, from plain values; the claim and the settling themselves are batches of `store`.

pub mod outcome;
pub mod outside;
pub mod policy;
pub mod settlement;
pub mod template;
#[cfg(test)]
mod testing;

use serde::{Deserialize, Serialize};

use crate::names::named;

named! {
    /// Where a row stands.
    Status {
        /// Never tried.
        Pending = "pending",
        /// Someone holds it and may be sending it.
        Leased = "leased",
        /// Tried, and to be tried again.
        Retry = "retry",
        /// The provider took it: not the same as being on the person's phone.
        ProviderAccepted = "provider_accepted",
        Acknowledged = "acknowledged",
        Failed = "failed",
        Expired = "expired",
        Cancelled = "cancelled",
        /// Set aside until an operator decides; it holds up nobody else.
        Quarantined = "quarantined",
    }
}

impl Status {
    /// Whether nothing more is sent for it.
    pub const fn is_settled(self) -> bool {
        match self {
            Self::ProviderAccepted | Self::Acknowledged | Self::Failed | Self::Expired | Self::Cancelled => true,
            Self::Pending | Self::Leased | Self::Retry | Self::Quarantined => false,
        }
    }
}

named! {
    /// Why a row exists.
    Origin {
        /// The answer to a channel's message.
        Channel = "channel",
        Context = "context",
        Proactive = "proactive",
        Reminder = "reminder",
        Event = "event",
        Challenge = "challenge",
        /// A fixed text of the service itself.
        Notice = "notice",
    }
}

named! {
    /// Who a row is sent through.
    SendChannel {
        Telegram = "telegram",
        Imessage = "imessage",
        WebPush = "webpush",
        Expo = "expo",
    }
}
