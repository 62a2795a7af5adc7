//! A turn: one accepted message and what becomes of it.
//!
//! The life of a turn is data. [`TRANSITIONS`] lists every event that may follow in every status; whatever is not in
//! it is refused. The database holds the same rule as guards.

pub mod event;
pub mod protocol;
pub mod recovery;

use serde::{Deserialize, Serialize};

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
        EngineAccepted = "engine_accepted",
        ContextSelected = "context_selected",
        GenerationStarted = "generation_started",
        GenerationCompleted = "generation_completed",
        GenerationFailed = "generation_failed",
        DurableWriteStarted = "durable_write_started",
        DurableWriteCompleted = "durable_write_completed",
        ResponseCommitStarted = "response_commit_started",
        ResponseCommitted = "response_committed",
        ClientAcknowledged = "client_acknowledged",
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
            | Self::ResponseNotCommitted => true,
            Self::SubjectDeleted => false,
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
            Self::ResponseNotCommitted => false,
        }
    }

    /// The part of the service that the failure is charged to.
    pub const fn class(self) -> &'static str {
        match self {
            Self::GenerationLost | Self::GenerationFailed | Self::GenerationTimeout => "generation",
            Self::DeadlineExceeded | Self::SubjectDeleted => "admission",
            Self::ResponseNotCommitted => "delivery",
        }
    }
}

use EventType as E;
use Status as S;

/// Every step a turn may take: where it stands (`None` before it exists), what happens, where it stands then.
pub const TRANSITIONS: &[(Option<Status>, EventType, Status)] = &[
    (None, E::EngineAccepted, S::Accepted),
    (Some(S::Accepted), E::ContextSelected, S::Accepted),
    (Some(S::Accepted), E::GenerationStarted, S::Processing),
    (Some(S::Accepted), E::TurnTerminalFailure, S::TerminalFailure),
    // A second attempt, after the first was interrupted with nothing of it shown.
    (Some(S::Processing), E::ContextSelected, S::Processing),
    (Some(S::Processing), E::GenerationStarted, S::Processing),
    (Some(S::Processing), E::GenerationFailed, S::Processing),
    (Some(S::Processing), E::GenerationCompleted, S::Generated),
    (Some(S::Processing), E::TurnTerminalFailure, S::TerminalFailure),
    (Some(S::Generated), E::DurableWriteStarted, S::Generated),
    (Some(S::Generated), E::DurableWriteCompleted, S::Persisted),
    (Some(S::Persisted), E::ResponseCommitStarted, S::Persisted),
    (Some(S::Persisted), E::ResponseCommitted, S::Persisted),
    // A quick client acknowledges before the hand-over is on record.
    (Some(S::Persisted), E::ClientAcknowledged, S::Persisted),
    (Some(S::Persisted), E::TurnTerminalSuccess, S::TerminalSuccess),
    (Some(S::Persisted), E::TurnTerminalFailure, S::TerminalFailure),
    (Some(S::TerminalSuccess), E::ClientAcknowledged, S::TerminalSuccess),
    // An answer that nobody took in time may still be handed over later; the ending stays as it was.
    (Some(S::TerminalFailure), E::ResponseCommitStarted, S::TerminalFailure),
    (Some(S::TerminalFailure), E::ResponseCommitted, S::TerminalFailure),
    (Some(S::TerminalFailure), E::ClientAcknowledged, S::TerminalFailure),
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

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERED: [EventType; 9] = [
        E::EngineAccepted,
        E::ContextSelected,
        E::GenerationStarted,
        E::GenerationCompleted,
        E::DurableWriteStarted,
        E::DurableWriteCompleted,
        E::ResponseCommitStarted,
        E::ResponseCommitted,
        E::TurnTerminalSuccess,
    ];

    #[test]
    fn a_direct_turn_goes_from_accepted_to_terminal_success() {
        assert_eq!(replay(ANSWERED), Ok(Some(S::TerminalSuccess)));
    }

    #[test]
    fn no_step_stands_twice_in_the_table() {
        for (at, (from, event, _)) in TRANSITIONS.iter().enumerate() {
            let again = TRANSITIONS[at + 1..]
                .iter()
                .find(|(other, step, _)| other == from && step == event);
            assert_eq!(again, None);
        }
    }

    #[test]
    fn a_terminal_status_is_never_left() {
        for (from, _, to) in TRANSITIONS {
            if let Some(from) = from
                && from.is_terminal()
            {
                assert_eq!(from, to);
            }
        }
    }

    #[test]
    fn an_answer_is_never_handed_over_before_it_is_stored() {
        let early = [
            E::EngineAccepted,
            E::GenerationStarted,
            E::GenerationCompleted,
            E::ResponseCommitted,
        ];
        assert_eq!(
            replay(early),
            Err(IllegalStep {
                from: Some(S::Generated),
                event: E::ResponseCommitted
            })
        );
    }

    #[test]
    fn only_an_answer_that_nobody_took_is_had_again_under_its_old_key() {
        let again: Vec<_> = FailureCode::ALL
            .iter()
            .filter(|code| !code.new_key_required())
            .collect();
        assert_eq!(again, [&FailureCode::ResponseNotCommitted]);
    }

    #[test]
    fn success_cannot_follow_failure() {
        let lost = [E::EngineAccepted, E::TurnTerminalFailure, E::TurnTerminalSuccess];
        assert_eq!(
            replay(lost),
            Err(IllegalStep {
                from: Some(S::TerminalFailure),
                event: E::TurnTerminalSuccess
            })
        );
    }
}
