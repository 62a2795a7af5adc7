//! What to do with a turn that is found mid-way: after a crash, a lost reply or a lost race.

use crate::time::{Millis, Timestamp};
use crate::turn::{FailureCode, Status};

/// The model is asked at most this often for one turn: once, and once more if that was interrupted unseen.
pub const MODEL_CALLS_MAX: i64 = 2;

/// How long after a turn was accepted an interrupted model call may still be repeated.
///
/// The deadline of the request bounds the wait of a client; the answer stays worth having a while longer, because it
/// can be read later.
pub const REPEAT_WINDOW: Millis = Millis::from_mins(10);

/// What the ledger says of an unfinished turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenTurn {
    pub status: Status,
    pub model_calls: i64,
    /// A part of an answer was shown to the client.
    pub shown: bool,
    pub accepted_at: Timestamp,
    pub deadline_at: Timestamp,
    /// When the lease of this turn's run ends; `None` when no run holds the line for it.
    pub run_until: Option<Timestamp>,
}

/// The next step for an unfinished turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// Ask the model, for the first time or once more.
    Call,
    /// Someone may still be at it: look again at this time.
    Wait(Timestamp),
    /// End it in failure.
    End(FailureCode),
    /// Its answer is stored, or it has ended: nothing is to be generated.
    Nothing,
}

/// Decides the next step for `turn` at `now`.
pub fn recover(turn: &OpenTurn, now: Timestamp) -> Recovery {
    match turn.status {
        Status::Accepted if now >= turn.deadline_at => Recovery::End(FailureCode::DeadlineExceeded),
        Status::Accepted => Recovery::Call,
        Status::Processing => match turn.run_until {
            Some(until) if until > now => Recovery::Wait(until),
            Some(_) | None => interrupted(turn, now),
        },
        Status::Generated
        | Status::Persisted
        | Status::DeliveryPending
        | Status::TerminalSuccess
        | Status::TerminalFailure
        | Status::Cancelled => Recovery::Nothing,
    }
}

fn interrupted(turn: &OpenTurn, now: Timestamp) -> Recovery {
    let too_late = now >= turn.accepted_at.plus(REPEAT_WINDOW);
    if turn.shown || turn.model_calls >= MODEL_CALLS_MAX || too_late {
        Recovery::End(FailureCode::GenerationLost)
    } else {
        Recovery::Call
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn open(status: Status, model_calls: i64, shown: bool, run_until: Option<i64>) -> OpenTurn {
        OpenTurn {
            status,
            model_calls,
            shown,
            accepted_at: at(0),
            deadline_at: at(90_000),
            run_until: run_until.map(at),
        }
    }

    #[test]
    fn each_place_a_turn_can_be_found_has_its_step() {
        use Recovery::{Call, End, Nothing, Wait};
        let lost = End(FailureCode::GenerationLost);
        let late = End(FailureCode::DeadlineExceeded);
        let cases = [
            (
                "the model was not called",
                open(Status::Accepted, 0, false, None),
                89_999,
                Call,
            ),
            (
                "its deadline has come",
                open(Status::Accepted, 0, false, None),
                90_000,
                late,
            ),
            (
                "a run is alive",
                open(Status::Processing, 1, false, Some(5_000)),
                4_999,
                Wait(at(5_000)),
            ),
            (
                "called, nothing shown",
                open(Status::Processing, 1, false, Some(5_000)),
                5_000,
                Call,
            ),
            (
                "called, nothing shown, past its deadline",
                open(Status::Processing, 1, false, None),
                599_999,
                Call,
            ),
            (
                "called, nothing shown, too late",
                open(Status::Processing, 1, false, None),
                600_000,
                lost,
            ),
            ("called and shown", open(Status::Processing, 1, true, None), 5_000, lost),
            ("called twice", open(Status::Processing, 2, false, None), 5_000, lost),
            ("stored", open(Status::Persisted, 1, true, None), 5_000, Nothing),
            ("ended", open(Status::TerminalSuccess, 1, true, None), 5_000, Nothing),
        ];
        for (story, turn, now, step) in cases {
            assert_eq!(recover(&turn, at(now)), step, "{story}");
        }
    }
}
