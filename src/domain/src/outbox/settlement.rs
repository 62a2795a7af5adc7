//! What becomes of a row after an attempt.

use crate::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use crate::outbox::policy::Policy;
use crate::ports::Entropy;
use crate::time::{Millis, Timestamp};

/// What is known of a row when its attempt ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tried {
    /// This attempt counted.
    pub attempt_count: i64,
    /// Before this attempt.
    pub ambiguous_count: i64,
    pub max_attempts: i64,
    pub expires_at: Timestamp,
    /// It went as plain text already.
    pub plain: bool,
    /// Its destination moved once already.
    pub moved: bool,
}

/// What becomes of a row.
#[derive(Clone, PartialEq, Eq)]
pub enum Settlement {
    Accepted { provider_message_id: String },
    /// Tried again at `at`.
    Again {
        at: Timestamp,
        class: ErrorClass,
        code: ErrorCode,
        /// Whether nobody knows if this attempt succeeded.
        ambiguous: bool,
        /// What the provider asked for.
        retry_after: Option<Millis>,
        holds: Holds,
        change: Change,
    },
    /// Nothing was tried: it goes back as it was, with no attempt charged.
    Released,
    /// Waits, with no attempt charged, until the gateway's credential is mended.
    GatewayBroken,
    /// Ended without success. `disable_address`: nothing more is sent to this destination.
    Failed {
        class: ErrorClass,
        code: ErrorCode,
        ambiguous: bool,
        disable_address: bool,
    },
}

/// What the next attempt does differently.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    Nothing,
    /// It goes as plain text.
    Plain,
    /// It goes to this destination.
    Destination(String),
}
