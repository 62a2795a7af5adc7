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
fn only_a_stored_answer_is_had_again_under_its_old_key() {
    let again: Vec<_> = FailureCode::ALL
        .iter()
        .filter(|code| !code.new_key_required())
        .collect();
    let stored = [
        &FailureCode::ResponseNotCommitted,
        &FailureCode::DeliveryFailed,
        &FailureCode::DeliveryExpired,
        &FailureCode::DeliveryCancelled,
    ];
    assert_eq!(again, stored);
    assert!(again.iter().all(|code| code.class() == "delivery"));
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

const CHANNEL_ANSWERED: [EventType; 10] = [
    E::IngressReceived,
    E::IngressAuthenticated,
    E::IdentityResolved,
    E::EngineAccepted,
    E::ContextSelected,
    E::GenerationStarted,
    E::GenerationCompleted,
    E::DurableWriteStarted,
    E::DurableWriteCompleted,
    E::OutboxEnqueued,
];

fn channel_turn(then: &[EventType]) -> Result<Option<Status>, IllegalStep> {
    replay(CHANNEL_ANSWERED.into_iter().chain(then.iter().copied()))
}

#[test]
fn a_channel_turn_waits_for_its_delivery_through_every_send() {
    assert_eq!(channel_turn(&[]), Ok(Some(S::DeliveryPending)));
    let sends = [
        E::SendClaimed,
        E::SendAttempted,
        E::SendRetryScheduled,
        E::SendClaimed,
        E::SendAttempted,
        E::ProviderAccepted,
    ];
    assert_eq!(channel_turn(&sends), Ok(Some(S::DeliveryPending)));
    let delivered: Vec<_> = sends.into_iter().chain([E::TurnTerminalSuccess]).collect();
    assert_eq!(channel_turn(&delivered), Ok(Some(S::TerminalSuccess)));
    let failed = [E::DeliveryTerminalFailure, E::OutboxEnqueued, E::TurnTerminalFailure];
    assert_eq!(channel_turn(&failed), Ok(Some(S::TerminalFailure)));
}

#[test]
fn a_channel_turn_without_an_answer_ends_with_a_notice() {
    for at in [4, 6] {
        let events = CHANNEL_ANSWERED[..at]
            .iter()
            .copied()
            .chain([E::OutboxEnqueued, E::TurnTerminalFailure]);
        assert_eq!(replay(events), Ok(Some(S::TerminalFailure)), "after {at} events");
    }
}

#[test]
fn nothing_is_sent_before_it_is_in_the_outbox() {
    for event in [E::SendClaimed, E::SendAttempted, E::ProviderAccepted] {
        for from in [S::Accepted, S::Processing, S::Generated, S::Persisted] {
            let refused = IllegalStep {
                from: Some(from),
                event,
            };
            assert_eq!(advance(Some(from), event), Err(refused));
        }
    }
}

#[test]
fn a_delivery_is_no_response_to_a_client() {
    for event in [E::ResponseCommitStarted, E::ResponseCommitted] {
        assert!(advance(Some(S::DeliveryPending), event).is_err());
    }
}
