use super::*;
use crate::outbox::policy::{OUTSIDE, TELEGRAM, WAVE_MAX};
use crate::outbox::testing::{Draws, Same};

const NOW: i64 = 1_783_728_000_000;

fn now() -> Timestamp {
    Timestamp::from_millis(NOW)
}

fn tried(attempt_count: i64) -> Tried {
    Tried {
        attempt_count,
        ambiguous_count: 0,
        max_attempts: 12,
        expires_at: now().plus(Millis::from_mins(24 * 60)),
        plain: false,
        moved: false,
    }
}

/// No jitter.
const EVEN: Same = Same(200_000);

fn settled(tried: &Tried, outcome: &Outcome) -> String {
    shown(&settle(tried, outcome, &TELEGRAM, now(), &EVEN))
}

/// In short, for tables.
fn shown(settlement: &Settlement) -> String {
    match settlement {
        Settlement::Accepted { provider_message_id } => format!("accepted {provider_message_id}"),
        Settlement::Released => "released".to_owned(),
        Settlement::GatewayBroken => "gateway broken".to_owned(),
        Settlement::Failed {
            class,
            code,
            ambiguous,
            disable_address,
        } => {
            let more = [(*ambiguous, " ambiguous"), (*disable_address, " disable")];
            let more: String = more.iter().filter(|(said, _)| *said).map(|(_, text)| *text).collect();
            format!("failed {} {}{more}", class.as_str(), code.as_str())
        }
        Settlement::Again {
            at,
            class,
            code,
            ambiguous,
            retry_after,
            holds,
            change,
        } => {
            let wait = at.since(now()).get();
            let unsure = if *ambiguous { " ambiguous" } else { "" };
            let asked = retry_after.map_or_else(String::new, |after| format!(" asked {}", after.get()));
            let holds = match holds {
                Holds::Row => "",
                Holds::Lane => " holds lane",
                Holds::Gateway => " holds gateway",
            };
            let change = match change {
                Change::Nothing => String::new(),
                Change::Plain => " plain".to_owned(),
                Change::Destination(to) => format!(" to {to}"),
            };
            format!(
                "again {wait} {} {}{unsure}{asked}{holds}{change}",
                class.as_str(),
                code.as_str()
            )
        }
    }
}

fn retry(code: ErrorCode, after: Option<Millis>, holds: Holds) -> Outcome {
    let class = ErrorClass::Provider;
    Outcome::Retry {
        class,
        code,
        after,
        holds,
    }
}

const STALLED: Outcome = Outcome::Ambiguous {
    class: ErrorClass::Timeout,
    code: ErrorCode::Stalled,
};
const BROKE_OFF: Outcome = Outcome::Ambiguous {
    class: ErrorClass::Transport,
    code: ErrorCode::BrokeOff,
};

#[test]
fn every_outcome_settles_a_first_attempt_in_one_way() {
    let seven = Some(Millis::from_secs(7));
    let day = Some(Millis::from_mins(1_440));
    let to = "-100555".to_owned();
    let blocked = ErrorCode::Blocked;
    let too_long = Outcome::Rejected {
        class: ErrorClass::Content,
        code: ErrorCode::MessageTooLong,
    };
    let accepted = Outcome::Accepted {
        provider_message_id: "4321".to_owned(),
    };
    let table = [
        (accepted, "accepted 4321"),
        (
            retry(ErrorCode::ServerError, None, Holds::Row),
            "again 5000 provider server_error",
        ),
        (
            retry(ErrorCode::TooManyRequests, seven, Holds::Gateway),
            "again 7000 provider too_many_requests asked 7000 holds gateway",
        ),
        (
            retry(ErrorCode::TooManyRequests, Some(Millis::from_secs(1)), Holds::Lane),
            "again 5000 provider too_many_requests asked 1000 holds lane",
        ),
        (
            retry(ErrorCode::ServerError, day, Holds::Row),
            "again 86400000 provider server_error asked 86400000",
        ),
        (Outcome::Unformatted, "again 0 content bad_formatting plain"),
        (Outcome::Moved { to }, "again 0 destination moved to -100555"),
        (Outcome::Unauthorized, "gateway broken"),
        (Outcome::Gone { code: blocked }, "failed destination blocked disable"),
        (too_long, "failed content message_too_long"),
        (STALLED, "again 5000 timeout stalled ambiguous"),
        (BROKE_OFF, "again 5000 transport broke_off"),
        (Outcome::NotStarted, "released"),
    ];
    for (outcome, expected) in table {
        assert_eq!(settled(&tried(1), &outcome), expected, "{outcome:?}");
    }
}

#[test]
fn plain_text_and_another_destination_are_tried_once() {
    let plain = Tried {
        plain: true,
        ..tried(2)
    };
    assert_eq!(settled(&plain, &Outcome::Unformatted), "failed content bad_formatting");
    let moved = Tried {
        moved: true,
        ..tried(2)
    };
    let to = "-100555".to_owned();
    assert_eq!(settled(&moved, &Outcome::Moved { to }), "failed destination moved");
}

#[test]
fn the_twelfth_attempt_is_the_last() {
    let fault = retry(ErrorCode::ServerError, None, Holds::Row);
    assert_eq!(settled(&tried(11), &fault), "again 7200000 provider server_error");
    for outcome in [&fault, &BROKE_OFF, &Outcome::Unformatted] {
        assert_eq!(settled(&tried(12), outcome), "failed policy attempts_exhausted");
    }
    assert_eq!(
        settled(&tried(12), &STALLED),
        "failed policy attempts_exhausted ambiguous"
    );
    assert_eq!(settled(&tried(12), &Outcome::NotStarted), "released");
    assert_eq!(settled(&tried(12), &Outcome::Unauthorized), "gateway broken");
}

#[test]
fn the_fourth_attempt_that_nobody_knows_of_is_the_last() {
    let unsure = |ambiguous_count| Tried {
        ambiguous_count,
        ..tried(4)
    };
    assert_eq!(settled(&unsure(2), &STALLED), "again 60000 timeout stalled ambiguous");
    assert_eq!(settled(&unsure(3), &STALLED), "failed policy unconfirmed ambiguous");
    assert_eq!(settled(&unsure(3), &BROKE_OFF), "again 60000 transport broke_off");
}

/// An outcome that does not end a row by itself.
fn any_fault(draws: &Draws) -> Outcome {
    let after = (draws.below(2) == 0).then(|| Millis::new(draws.below(100_000_000)));
    match draws.below(5) {
        0 => Outcome::Unformatted,
        1 => Outcome::Moved { to: "1".to_owned() },
        2 => STALLED,
        3 => BROKE_OFF,
        _ => retry(ErrorCode::ServerError, after, Holds::Row),
    }
}

#[test]
fn whatever_goes_wrong_a_row_ends_within_its_attempts() {
    for seed in 0..5_000_u64 {
        let draws = Draws::new(seed);
        let policy = if draws.below(2) == 0 { TELEGRAM } else { OUTSIDE };
        let mut row = tried(0);
        let mut at = now();
        loop {
            row.attempt_count += 1;
            assert!(row.attempt_count <= row.max_attempts, "seed {seed}");
            let outcome = any_fault(&draws);
            match settle(&row, &outcome, &policy, at, &draws) {
                Settlement::Again {
                    at: next,
                    ambiguous,
                    change,
                    ..
                } => {
                    assert!(next >= at, "seed {seed}: back in time");
                    at = next;
                    row.ambiguous_count += i64::from(ambiguous);
                    assert!(row.ambiguous_count < policy.ambiguous_max, "seed {seed}");
                    row.plain |= matches!(change, Change::Plain);
                    row.moved |= matches!(change, Change::Destination(_));
                }
                Settlement::Failed { .. } => break,
                other @ (Settlement::Accepted { .. } | Settlement::Released | Settlement::GatewayBroken) => {
                    panic!("seed {seed}: {}", shown(&other))
                }
            }
        }
        assert!(row.attempt_count >= 2, "seed {seed}: one fault is never the end");
    }
    assert_eq!(WAVE_MAX, 6);
}
