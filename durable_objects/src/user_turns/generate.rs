//! One call of the model: prompt, deltas, storing the answer, telling the client.

use std::cell::Cell;
use std::rc::Rc;

use domain::guard::Guard;
use domain::ids::TurnId;
use domain::keys::DataKey;
use domain::model::{Completion, Halt, ModelError, ModelFault, Prompt};
use domain::ports::{Checkpoint, Clock};
use domain::time::Millis;
use domain::turn::protocol::{AnswerUsage, ChatAnswer, ChatRefusal, Costs, Frame, Handover};
use domain::turn::{FailureCode, Status};
use futures::future::{Either, select};
use store::ledger::failure;
use store::ledger::read::{self, TurnRecord};
use store::ledger::run::{self, Run, Started};

use crate::model::Model;
use crate::ports::Ports;
use crate::user_turns::accept::{in_progress, unavailable};
use crate::user_turns::deliver::{notice, sendable};
use crate::user_turns::prompt::{open_text, prompt};
use crate::user_turns::{Listener, UserTurns};
use store::db::DbError;

/// An answer ready to be told, from the ledger or fresh.
pub(super) struct Done {
    answer: ChatAnswer,
    replayed: bool,
    handover: Handover,
}

impl Listener {
    pub(super) fn refuse(&self, refusal: ChatRefusal) {
        self.answered.set(true);
        self.send(Frame::Refused {
            refusal,
            costs: self.costs(),
        });
    }

    pub(super) fn done(&self, done: Done) {
        self.answered.set(true);
        self.send(Frame::Done {
            answer: Box::new(done.answer),
            replayed: done.replayed,
            handover: done.handover,
            costs: self.costs(),
        });
    }
}

/// Why a generation ended without an answer of its own.
enum Ended {
    /// This run is over; the ledger says what became of the turn.
    Lost,
    /// The turn was ended with this code.
    Failed(FailureCode),
    /// The database did not take it; someone must look again.
    Db(DbError),
}

/// A started turn and everything that answering it takes.
pub(super) struct Generation {
    pub run: Run,
    pub started: Started,
    pub epoch: i64,
    pub key: DataKey,
    pub costs: Rc<Cell<Costs>>,
}

impl<P: Ports> UserTurns<P> {
    /// Runs a started turn to its end and tells the client, if one still waits.
    pub(super) async fn generate(
        self: &Rc<Self>,
        run: Run,
        started: Started,
        epoch: i64,
        key: DataKey,
        listener: Option<&Listener>,
    ) {
        let work = Generation {
            run,
            started,
            epoch,
            key,
            costs: listener.map(|one| Rc::clone(&one.costs)).unwrap_or_default(),
        };
        let outcome = self.answer(&work, listener).await;
        let run = work.run;
        match outcome {
            Ok(answer) => {
                if let Some(listener) = listener {
                    listener.done(Done {
                        answer,
                        replayed: false,
                        handover: Handover::Due,
                    });
                }
            }
            Err(Ended::Failed(code)) => {
                if let Some(listener) = listener {
                    listener.refuse(ChatRefusal::of_failure(run.turn_id, code, false));
                }
            }
            Err(Ended::Lost) => {
                self.leave_unfinished().await;
                if let Some(listener) = listener
                    && let Err(error) = self.tell_stored(&run.turn_id, listener).await
                {
                    listener.refuse(unavailable(error));
                }
            }
            Err(Ended::Db(error)) => {
                self.leave_unfinished().await;
                if let Some(listener) = listener {
                    listener.refuse(unavailable(error));
                }
            }
        }
    }

    async fn answer(&self, work: &Generation, listener: Option<&Listener>) -> Result<ChatAnswer, Ended> {
        self.ports.checkpoint().reach("model_call_started").await;
        let Some(prompt) = prompt(&work.started, &work.key) else {
            return self.fail(work, FailureCode::SubjectDeleted, None).await;
        };
        let replied = self.call_model(work, &prompt, listener).await;
        match replied.and_then(|completion| sendable(work.started.through.as_ref(), completion)) {
            Ok(completion) => {
                let generated_at = self.ports.clock().now();
                self.ports.checkpoint().reach("model_replied").await;
                let stored = self.persist(work, &prompt, &completion, generated_at).await;
                // One batch does both, so there is no place between them.
                self.ports.checkpoint().reach("assistant_stored").await;
                self.ports.checkpoint().reach("context_written").await;
                let context_revision = match stored {
                    Ok(revision) => revision,
                    Err(DbError::Refused(Guard::KeyLive)) => {
                        return self.fail(work, FailureCode::SubjectDeleted, None).await;
                    }
                    Err(DbError::Refused(_)) => return Err(self.lost()),
                    Err(error) => return Err(Ended::Db(error)),
                };
                self.order_sends(work.started.through.as_ref(), work.epoch).await;
                Ok(ChatAnswer {
                    turn_id: work.run.turn_id.clone(),
                    conversation_id: work.started.conversation_id.clone(),
                    session_id: work.started.session_id.clone(),
                    context_revision,
                    usage: AnswerUsage {
                        provider: completion.provider.to_owned(),
                        model: completion.model,
                        input_tokens: completion.usage.input_tokens.into(),
                        output_tokens: completion.usage.output_tokens.into(),
                        cost_microunits: completion.usage.cost_microunits.into(),
                    },
                    reply: completion.text,
                })
            }
            Err(error) => {
                let code = match error {
                    ModelError::Halted => return Err(self.lost()),
                    ModelError::Timeout => FailureCode::GenerationTimeout,
                    ModelError::RateLimited { .. }
                    | ModelError::Unavailable
                    | ModelError::Rejected
                    | ModelError::Malformed
                    | ModelError::TooLong => FailureCode::GenerationFailed,
                };
                self.fail(work, code, error.fault()).await
            }
        }
    }

    fn lost(&self) -> Ended {
        self.forget();
        Ended::Lost
    }

    async fn fail(
        &self,
        work: &Generation,
        code: FailureCode,
        model_fault: Option<ModelFault>,
    ) -> Result<ChatAnswer, Ended> {
        let (now, through) = (self.ports.clock().now(), work.started.through.as_ref());
        let notice = notice(through, code);
        let batch = failure::fail_run(&work.run, work.epoch, code, model_fault, notice, now);
        match self.write_end(batch, &work.run.turn_id, code, &work.costs).await {
            Ok(()) => {
                if notice.is_some() {
                    self.order_sends(through, work.epoch).await;
                }
                Err(Ended::Failed(code))
            }
            Err(DbError::Refused(_)) => Err(self.lost()),
            Err(error) => Err(Ended::Db(error)),
        }
    }

    async fn call_model(
        &self,
        work: &Generation,
        prompt: &Prompt,
        listener: Option<&Listener>,
    ) -> Result<Completion, ModelError> {
        let timeout = self.time_for_model(&work.run);
        // Once it could not be put on record, nothing is shown before the end.
        let mut shown = None;
        let mut on_delta = async |text: &str| -> Result<(), Halt> {
            let Some(listener) = listener.filter(|one| one.wants_deltas()) else {
                return Ok(());
            };
            if shown.is_none() {
                shown = Some(self.mark_shown(work).await?);
            }
            if shown == Some(true) {
                listener.send(Frame::Delta { text: text.to_owned() });
            }
            Ok(())
        };
        let call = std::pin::pin!(self.ports.model().generate(prompt, timeout, &mut on_delta));
        let limit = std::pin::pin!(self.ports.clock().sleep(timeout));
        match select(call, limit).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right(((), _)) => Err(ModelError::Timeout),
        }
    }

    fn time_for_model(&self, run: &Run) -> Millis {
        run.until
            .minus(self.config.run_lease_slack)
            .remaining_from(self.ports.clock().now())
    }

    /// Nothing is shown before it is on record that something may have been. `false`: the database does not take it now,
    /// so the client gets the answer whole.
    async fn mark_shown(&self, work: &Generation) -> Result<bool, Halt> {
        let batch = run::mark_shown(&work.run, work.epoch, self.ports.clock().now());
        // Repeating it changes nothing, so a lost reply needs no reading back: the batch is simply sent again.
        let written = self
            .db(Rc::clone(&work.costs))
            .write(self.shard(), batch, |_| Ok(()), vec![], |_| Ok(None))
            .await;
        match written {
            Ok(()) => Ok(true),
            Err(DbError::Unavailable | DbError::Overloaded) => Ok(false),
            Err(DbError::Refused(_) | DbError::Conflict | DbError::Defect) => Err(Halt),
        }
    }

    /// Tells the client what the ledger holds for `turn`.
    pub(super) async fn tell_stored(&self, turn: &TurnId, listener: &Listener) -> Result<(), DbError> {
        let batch = read::object_state(&self.user)
            .into_iter()
            .chain([read::turn_by_id(&self.user, turn)])
            .collect();
        let rows = self.db(Rc::clone(&listener.costs)).read(self.shard(), batch).await?;
        let [_, key, _, record] = rows.as_slice() else {
            return Err(DbError::Defect);
        };
        let key = key.first().map(store::keys::KeyRow::read).transpose()?;
        let key = key.map(|row| self.unwrap_key(&row)).transpose();
        let record = read::read_turn(record)?;
        match (record, key) {
            (Some(record), Ok(Some(key))) => match self.stored_result(&record, &key, false) {
                Some(Ok(done)) => listener.done(done),
                Some(Err(refusal)) => listener.refuse(refusal),
                None => listener.refuse(in_progress(turn)),
            },
            // A failure can be told without the key.
            (Some(record), Err(_)) => match record.failure.filter(|_| record.answer.is_none()) {
                Some(code) => listener.refuse(ChatRefusal::of_failure(turn.clone(), code, false)),
                None => return Err(DbError::Defect),
            },
            (Some(_), Ok(None)) => {
                listener.refuse(ChatRefusal::of_failure(
                    turn.clone(),
                    FailureCode::SubjectDeleted,
                    false,
                ));
            }
            // Only a restore can make a turn vanish.
            (None, _) => listener.refuse(unavailable(DbError::Unavailable)),
        }
        Ok(())
    }

    /// The result that stands in the ledger; `None` while the turn is not finished.
    pub(super) fn stored_result(
        &self,
        record: &TurnRecord,
        key: &DataKey,
        replayed: bool,
    ) -> Option<Result<Done, ChatRefusal>> {
        if let (Some(sealed), Some(context_revision)) = (&record.answer, record.context_revision_write) {
            let Some(reply) = open_text(sealed, key) else {
                return Some(Err(ChatRefusal::of_failure(
                    record.turn_id.clone(),
                    FailureCode::SubjectDeleted,
                    replayed,
                )));
            };
            let answer = ChatAnswer {
                turn_id: record.turn_id.clone(),
                conversation_id: record.conversation_id.clone(),
                session_id: record.session_id.clone(),
                reply,
                context_revision,
                usage: AnswerUsage {
                    provider: record.provider.clone().unwrap_or_default(),
                    model: record.model.clone().unwrap_or_default(),
                    input_tokens: record.input_tokens.unwrap_or(0),
                    output_tokens: record.output_tokens.unwrap_or(0),
                    cost_microunits: record.cost_microunits.unwrap_or(0),
                },
            };
            let handover = if record.response_committed_at.is_some() {
                Handover::Recorded
            } else {
                Handover::Due
            };
            return Some(Ok(Done {
                answer,
                replayed,
                handover,
            }));
        }
        match (record.status, record.failure) {
            (Status::TerminalFailure, Some(code)) => {
                Some(Err(ChatRefusal::of_failure(record.turn_id.clone(), code, replayed)))
            }
            _ => None,
        }
    }
}
