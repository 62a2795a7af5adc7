//! Ending a turn in failure: by the run that holds it, or when no run does.

use domain::guard::Guard;
use domain::ids::{TurnId, UserId};
use domain::model::ModelFault;
use domain::outbox::template::Template;
use domain::sql::Statement;
use domain::time::Timestamp;
use domain::turn::event::{Actor, Event, Metadata};
use domain::turn::{EventType, FailureCode, Status};

use crate::ledger::run::{Run, line_free, run_held};
use crate::ledger::{append_events, epoch_current};
use crate::outbox::enqueue;

/// Ends the run's turn in failure and frees the line. Refused by `epoch_current` or `run_held`.
///
/// `notice`: the text by which the person hears of it, for a turn that came through a channel.
pub fn fail_run(
    run: &Run,
    epoch: i64,
    code: FailureCode,
    model_fault: Option<ModelFault>,
    notice: Option<Template>,
    now: Timestamp,
) -> Vec<Statement> {
    let failed = Metadata {
        error_code: Some(code),
        model_fault,
        ..Metadata::default()
    };
    let generation = Event::new(EventType::GenerationFailed, now, Actor::UserTurns)
        .attempt(run.attempt)
        .with(failed);
    let ended = Event::failure(code, now, Actor::UserTurns);
    let mut batch = vec![epoch_current(epoch), run_held(run)];
    match notice {
        None => batch.push(append_events(&run.turn_id, &[generation, ended])),
        Some(template) => {
            batch.push(append_events(&run.turn_id, &[generation]));
            batch.extend(enqueue::notice_of_turn(&run.turn_id, template, Actor::UserTurns, now));
            batch.push(append_events(&run.turn_id, &[ended]));
        }
    }
    batch.push(end_in_failure(&run.turn_id, code, now));
    batch.push(free_line(&run.user_id, &run.turn_id));
    batch
}

/// Ends a turn that no run holds and that still stands at `status`. Refused by `epoch_current`, `turn_open` or
/// `line_free`. `notice` as for [`fail_run`].
pub fn fail_idle(
    user: &UserId,
    turn: &TurnId,
    status: Status,
    epoch: i64,
    code: FailureCode,
    notice: Option<Template>,
    now: Timestamp,
) -> Vec<Statement> {
    let mut batch = vec![
        epoch_current(epoch),
        Statement {
            name: Guard::TurnOpen.label(),
            sql: "INSERT INTO must(label, ok)
SELECT 'turn_open', EXISTS (SELECT 1 FROM turns WHERE turn_id = ?1 AND user_id = ?2 AND status = ?3)",
            binds: vec![turn.into(), user.into(), status.as_str().into()],
        },
    ];
    if status != Status::Accepted {
        batch.push(line_free(user, now));
    }
    if let Some(template) = notice {
        batch.extend(enqueue::notice_of_turn(turn, template, Actor::UserTurns, now));
    }
    batch.push(append_events(turn, &[Event::failure(code, now, Actor::UserTurns)]));
    batch.push(end_in_failure(turn, code, now));
    batch.push(free_line(user, turn));
    batch
}

fn end_in_failure(turn: &TurnId, code: FailureCode, now: Timestamp) -> Statement {
    Statement {
        name: "end_in_failure",
        sql: "UPDATE turns SET status = 'terminal_failure', error_class = ?2, error_code = ?3, retryable = ?4,
  generation_status = CASE generation_status WHEN 'started' THEN 'failed' ELSE generation_status END,
  terminal_at = ?5, updated_at = ?5
WHERE turn_id = ?1",
        binds: vec![
            turn.into(),
            code.class().into(),
            code.as_str().into(),
            code.retryable().into(),
            now.into(),
        ],
    }
}

fn free_line(user: &UserId, turn: &TurnId) -> Statement {
    Statement {
        name: "free_line",
        sql: "UPDATE user_heads SET running_turn = NULL, run_token = NULL, run_until = NULL
WHERE user_id = ?1 AND running_turn = ?2",
        binds: vec![user.into(), turn.into()],
    }
}
