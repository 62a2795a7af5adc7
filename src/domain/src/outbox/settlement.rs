//! What becomes of a row after an attempt.

use crate::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use crate::outbox::policy::{self, Policy};
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
    Accepted {
        provider_message_id: String,
    },
    /// Tried again at `at`.
    Again {
        at: Timestamp,
        class: ErrorClass,
        code: ErrorCode,
        /// Whether it counts as one of the few attempts of which nobody may know if they succeeded.
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

/// What becomes of a row that was `tried` with this `outcome`, as of `now`.
///
/// A row whose next attempt would come after its expiry still gets it; expiry ends it.
pub fn settle(tried: &Tried, outcome: &Outcome, policy: &Policy, now: Timestamp, entropy: &impl Entropy) -> Settlement {
    match outcome {
        Outcome::Accepted { provider_message_id } => Settlement::Accepted {
            provider_message_id: provider_message_id.clone(),
        },
        Outcome::NotStarted => Settlement::Released,
        Outcome::Unauthorized => Settlement::GatewayBroken,
        Outcome::Gone { code } => Settlement::Failed {
            class: ErrorClass::Destination,
            code: *code,
            ambiguous: false,
            disable_address: true,
        },
        Outcome::Rejected { class, code } => ended(*class, *code),
        Outcome::Unformatted if tried.plain => ended(ErrorClass::Content, ErrorCode::BadFormatting),
        Outcome::Moved { .. } if tried.moved => ended(ErrorClass::Destination, ErrorCode::Moved),
        Outcome::Unformatted => {
            let again = Again::because(ErrorClass::Content, ErrorCode::BadFormatting);
            again.changed(Change::Plain, tried, policy, now)
        }
        Outcome::Moved { to } => {
            let again = Again::because(ErrorClass::Destination, ErrorCode::Moved);
            again.changed(Change::Destination(to.clone()), tried, policy, now)
        }
        Outcome::Retry {
            class,
            code,
            after,
            holds,
        } => {
            let mut again = Again::because(*class, *code);
            again.after = *after;
            again.holds = *holds;
            again.scheduled(tried, policy, now, entropy)
        }
        Outcome::Ambiguous { class, code } => {
            let mut again = Again::because(*class, *code);
            // A connection that broke cannot be told from one that never stood: it says little, and costs only time.
            again.ambiguous = *class != ErrorClass::Transport;
            again.scheduled(tried, policy, now, entropy)
        }
    }
}

const fn ended(class: ErrorClass, code: ErrorCode) -> Settlement {
    Settlement::Failed {
        class,
        code,
        ambiguous: false,
        disable_address: false,
    }
}

/// A row that is to be tried again, if its attempts allow it.
struct Again {
    class: ErrorClass,
    code: ErrorCode,
    ambiguous: bool,
    after: Option<Millis>,
    holds: Holds,
}

impl Again {
    const fn because(class: ErrorClass, code: ErrorCode) -> Self {
        Self {
            class,
            code,
            ambiguous: false,
            after: None,
            holds: Holds::Row,
        }
    }

    /// By the schedule.
    fn scheduled(self, tried: &Tried, policy: &Policy, now: Timestamp, entropy: &impl Entropy) -> Settlement {
        let at = policy::retry_at(tried.attempt_count, now, self.after, entropy);
        self.at(at, Change::Nothing, tried, policy)
    }

    /// At once, since the next attempt is another one.
    fn changed(self, change: Change, tried: &Tried, policy: &Policy, now: Timestamp) -> Settlement {
        self.at(now, change, tried, policy)
    }

    fn at(self, at: Timestamp, change: Change, tried: &Tried, policy: &Policy) -> Settlement {
        let given_up = if self.ambiguous && tried.ambiguous_count.saturating_add(1) >= policy.ambiguous_max {
            Some(ErrorCode::Unconfirmed)
        } else if tried.attempt_count >= tried.max_attempts {
            Some(ErrorCode::AttemptsExhausted)
        } else {
            None
        };
        match given_up {
            Some(code) => Settlement::Failed {
                class: ErrorClass::Policy,
                code,
                ambiguous: self.ambiguous,
                disable_address: false,
            },
            None => Settlement::Again {
                at,
                class: self.class,
                code: self.code,
                ambiguous: self.ambiguous,
                retry_after: self.after,
                holds: self.holds,
                change,
            },
        }
    }
}

#[cfg(test)]
#[path = "settlement_tests.rs"]
mod tests;
