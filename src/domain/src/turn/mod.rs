//! A turn: one accepted message and what becomes of it.
//!
//! The life of a turn is data. [`TRANSITIONS`] lists every event that may follow in every status; whatever is not in
//! it is refused. The database holds the same rule as guards.

pub mod event;
pub mod funnel;
pub mod protocol;
pub mod recovery;

use serde::{Deserialize, Serialize};

use crate::ids::TurnId;
use crate::names::named;

named! {
    /// Where a turn stands.
    Status {
        Accepted = "accepted",
        Processing = "processing",
        /// The answer exists but is not stored yet; never seen at rest, since storing it is one batch.
        Generated = "generated",
        /// The answer is stored and not yet handed over.
        Persisted = "persisted",
        /// The answer waits in the outbox.
        DeliveryPending = "delivery_pending",
        TerminalSuccess = "terminal_success",
        TerminalFailure = "terminal_failure",
        Cancelled = "cancelled",
    }
}

impl Status {
    /// Whether nothing more can change where the turn stands.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::TerminalSuccess | Self::TerminalFailure | Self::Cancelled)
    }
}

named! {
    /// What can happen to a turn, in the ledger's words.
    EventType {
        /// A channel delivered a message.
        IngressReceived = "ingress_received",
        /// It came from the channel it claims to come from.
        IngressAuthenticated = "ingress_authenticated",
        /// Its sender is known here.
        IdentityResolved = "identity_resolved",
        EngineAccepted = "engine_accepted",
        ContextSelected = "context_selected",
        GenerationStarted = "generation_started",
        GenerationCompleted = "generation_completed",
        GenerationFailed = "generation_failed",
        DurableWriteStarted = "durable_write_started",
        DurableWriteCompleted = "durable_write_completed",
        /// What is to be sent stands in the outbox: the answer, or the notice that there will be none.
        OutboxEnqueued = "outbox_enqueued",
        ResponseCommitStarted = "response_commit_started",
        ResponseCommitted = "response_committed",
        ClientAcknowledged = "client_acknowledged",
        SendClaimed = "send_claimed",
        SendAttempted = "send_attempted",
        /// The provider took a part: not the same as being on the person's phone.
        ProviderAccepted = "provider_accepted",
        SendRetryScheduled = "send_retry_scheduled",
        /// A part will never be sent.
        DeliveryTerminalFailure = "delivery_terminal_failure",
        TurnTerminalSuccess = "turn_terminal_success",
        TurnTerminalFailure = "turn_terminal_failure",
    }
}

named! {
    /// Why a turn ended in failure.
    FailureCode {
        /// The model was interrupted and may not be asked again.
        GenerationLost = "generation_lost",
        /// The model answered with an error or not at all.
        GenerationFailed = "generation_failed",
        /// The model did not finish within its deadline.
        GenerationTimeout = "generation_timeout",
        /// The turn's deadline passed before the model was asked.
        DeadlineExceeded = "deadline_exceeded",
        /// The person's data was deleted before the answer could be stored.
        SubjectDeleted = "subject_deleted",
        /// The answer is stored, but nobody took it within ten minutes.
        ResponseNotCommitted = "response_not_committed",
        /// The answer is stored, but a part of it was not taken by the channel.
        DeliveryFailed = "delivery_failed",
        /// The answer is stored, but could not be delivered while it was worth delivering.
        DeliveryExpired = "delivery_expired",
        /// The answer is stored, but may no longer be sent to where its question came from.
        DeliveryCancelled = "delivery_cancelled",
    }
}

impl FailureCode {
    /// Whether the same words, sent again under a new key, may well succeed.
    pub const fn retryable(self) -> bool {
        match self {
            Self::GenerationLost
            | Self::GenerationFailed
            | Self::GenerationTimeout
            | Self::DeadlineExceeded
            | Self::ResponseNotCommitted
            | Self::DeliveryExpired => true,
            Self::SubjectDeleted | Self::DeliveryFailed | Self::DeliveryCancelled => false,
        }
    }

    /// Whether the same words need a new key to be tried again; otherwise the old key still gets the stored answer.
    pub const fn new_key_required(self) -> bool {
        match self {
            Self::GenerationLost
            | Self::GenerationFailed
            | Self::GenerationTimeout
            | Self::DeadlineExceeded
            | Self::SubjectDeleted => true,
            Self::ResponseNotCommitted | Self::DeliveryFailed | Self::DeliveryExpired | Self::DeliveryCancelled => {
                false
            }
        }
    }

    /// The part of the service that the failure is charged to.
    pub const fn class(self) -> &'static str {
        match self {
            Self::GenerationLost | Self::GenerationFailed | Self::GenerationTimeout => "generation",
            Self::DeadlineExceeded | Self::SubjectDeleted => "admission",
            Self::ResponseNotCommitted | Self::DeliveryFailed | Self::DeliveryExpired | Self::DeliveryCancelled => {
                "delivery"
            }
        }
    }
}

use EventType as E;
use Status as S;

/// Every step a turn may take: where it stands (`None` before it exists), what happens, where it stands then.
pub const TRANSITIONS: &[(Option<Status>, EventType, Status)] = &[
    (None, E::EngineAccepted, S::Accepted),
    // A channel's message: what became of it before the engine took it over.
    (None, E::IngressReceived, S::Accepted),
    (Some(S::Accepted), E::IngressAuthenticated, S::Accepted),
    (Some(S::Accepted), E::IdentityResolved, S::Accepted),
    (Some(S::Accepted), E::EngineAccepted, S::Accepted),
    (Some(S::Accepted), E::ContextSelected, S::Accepted),
    (Some(S::Accepted), E::GenerationStarted, S::Processing),
    // The notice that there will be no answer.
    (Some(S::Accepted), E::OutboxEnqueued, S::Accepted),
    (Some(S::Accepted), E::TurnTerminalFailure, S::TerminalFailure),
    // A second attempt, after the first was interrupted with nothing of it shown.
    (Some(S::Processing), E::ContextSelected, S::Processing),
    (Some(S::Processing), E::GenerationStarted, S::Processing),
    (Some(S::Processing), E::GenerationFailed, S::Processing),
    (Some(S::Processing), E::GenerationCompleted, S::Generated),
    (Some(S::Processing), E::OutboxEnqueued, S::Processing),
    (Some(S::Processing), E::TurnTerminalFailure, S::TerminalFailure),
    (Some(S::Generated), E::DurableWriteStarted, S::Generated),
    (Some(S::Generated), E::DurableWriteCompleted, S::Persisted),
    (Some(S::Persisted), E::ResponseCommitStarted, S::Persisted),
    (Some(S::Persisted), E::ResponseCommitted, S::Persisted),
    // A quick client acknowledges before the hand-over is on record.
    (Some(S::Persisted), E::ClientAcknowledged, S::Persisted),
    (Some(S::Persisted), E::TurnTerminalSuccess, S::TerminalSuccess),
    (Some(S::Persisted), E::TurnTerminalFailure, S::TerminalFailure),
    // An answer that goes out through a channel.
    (Some(S::Persisted), E::OutboxEnqueued, S::DeliveryPending),
    (Some(S::DeliveryPending), E::SendClaimed, S::DeliveryPending),
    (Some(S::DeliveryPending), E::SendAttempted, S::DeliveryPending),
    (Some(S::DeliveryPending), E::SendRetryScheduled, S::DeliveryPending),
    (Some(S::DeliveryPending), E::ProviderAccepted, S::DeliveryPending),
    (Some(S::DeliveryPending), E::DeliveryTerminalFailure, S::DeliveryPending),
    // The notice that the answer could not be delivered.
    (Some(S::DeliveryPending), E::OutboxEnqueued, S::DeliveryPending),
    // The person may read it elsewhere before it has arrived.
    (Some(S::DeliveryPending), E::ClientAcknowledged, S::DeliveryPending),
    (Some(S::DeliveryPending), E::TurnTerminalSuccess, S::TerminalSuccess),
    (Some(S::DeliveryPending), E::TurnTerminalFailure, S::TerminalFailure),
    (Some(S::TerminalSuccess), E::ClientAcknowledged, S::TerminalSuccess),
    // An answer that nobody took in time may still be handed over later; the ending stays as it was.
    (Some(S::TerminalFailure), E::ResponseCommitStarted, S::TerminalFailure),
    (Some(S::TerminalFailure), E::ResponseCommitted, S::TerminalFailure),
    (Some(S::TerminalFailure), E::ClientAcknowledged, S::TerminalFailure),
    // What an operator has sent once more after it had been given up.
    (Some(S::TerminalFailure), E::SendClaimed, S::TerminalFailure),
    (Some(S::TerminalFailure), E::SendAttempted, S::TerminalFailure),
    (Some(S::TerminalFailure), E::SendRetryScheduled, S::TerminalFailure),
    (Some(S::TerminalFailure), E::ProviderAccepted, S::TerminalFailure),
    (Some(S::TerminalFailure), E::DeliveryTerminalFailure, S::TerminalFailure),
];

/// The step is not in [`TRANSITIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IllegalStep {
    pub from: Option<Status>,
    pub event: EventType,
}

/// Where a turn stands after `event`.
pub fn advance(from: Option<Status>, event: EventType) -> Result<Status, IllegalStep> {
    TRANSITIONS
        .iter()
        .find(|(at, step, _)| *at == from && *step == event)
        .map(|(_, _, to)| *to)
        .ok_or(IllegalStep { from, event })
}

/// Where a turn stands after all of `events`, or the first step that was not allowed.
pub fn replay(events: impl IntoIterator<Item = EventType>) -> Result<Option<Status>, IllegalStep> {
    events
        .into_iter()
        .try_fold(None, |at, event| advance(at, event).map(Some))
}

/// The row name under which a message is sealed: an answer cannot be passed off as a question.
pub fn message_row(turn: &TurnId, from_user: bool) -> String {
    let role = if from_user { "user" } else { "assistant" };
    format!("{turn}/{role}")
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
