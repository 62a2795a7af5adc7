//! One call of the model: prompt, deltas, storing the answer, telling the client.

use std::cell::Cell;
use std::rc::Rc;

use domain::guard::Guard;
use domain::ids::TurnId;
use domain::keys::{Aad, DataKey};
use domain::model::{Completion, Halt, ModelError, ModelFault, Prompt};
use domain::ports::{Checkpoint, Clock};
use domain::time::{Millis, Timestamp};
use domain::turn::protocol::{AnswerUsage, ChatAnswer, ChatRefusal, Costs, Frame, Handover};
use domain::turn::{FailureCode, Status};
use futures::future::{Either, select};
use store::ledger::failure;
use store::ledger::read::{self, TurnRecord};
use store::ledger::run::{self, Answer, Run, Started};

use crate::model::Model;
use crate::ports::Ports;
use crate::user_turns::accept::{in_progress, unavailable};
use crate::user_turns::prompt::{open_text, prompt, prompt_text};
use crate::user_turns::{Listener, UserTurns, message_row};
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
        let costs = listener.map(|one| Rc::clone(&one.costs)).unwrap_or_default();
        let outcome = self.answer(&run, &started, epoch, &key, listener, &costs).await;
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

    async fn answer(
        &self,
        run: &Run,
        started: &Started,
        epoch: i64,
        key: &DataKey,
        listener: Option<&Listener>,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<ChatAnswer, Ended> {
        self.ports.checkpoint().reach("model_call_started").await;
        let Some(prompt) = prompt(started, key) else {
            return self.fail(run, epoch, FailureCode::SubjectDeleted, None, costs).await;
        };
        match self.call_model(run, epoch, &prompt, listener, costs).await {
            Ok(completion) => {
                let generated_at = self.ports.clock().now();
                self.ports.checkpoint().reach("model_replied").await;
                let stored = self
                    .persist(run, epoch, key, &prompt, &completion, generated_at, costs)
                    .await;
                self.ports.checkpoint().reach("assistant_stored").await;
                let context_revision = match stored {
                    Ok(revision) => revision,
                    Err(DbError::Refused(Guard::KeyLive)) => {
                        return self.fail(run, epoch, FailureCode::SubjectDeleted, None, costs).await;
                    }
                    Err(DbError::Refused(_)) => return Err(self.lost()),
                    Err(error) => return Err(Ended::Db(error)),
                };
                Ok(ChatAnswer {
                    turn_id: run.turn_id.clone(),
                    conversation_id: started.conversation_id.clone(),
                    session_id: started.session_id.clone(),
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
                self.fail(run, epoch, code, error.fault(), costs).await
            }
        }
    }

    fn lost(&self) -> Ended {
        self.forget();
        Ended::Lost
    }

    async fn fail(
        &self,
        run: &Run,
        epoch: i64,
        code: FailureCode,
        model_fault: Option<ModelFault>,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<ChatAnswer, Ended> {
        let batch = failure::fail_run(run, epoch, code, model_fault, self.ports.clock().now());
        match self.write_end(batch, &run.turn_id, code, costs).await {
            Ok(()) => Err(Ended::Failed(code)),
            Err(DbError::Refused(_)) => Err(self.lost()),
            Err(error) => Err(Ended::Db(error)),
        }
    }

    async fn call_model(
        &self,
        run: &Run,
        epoch: i64,
        prompt: &Prompt,
        listener: Option<&Listener>,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<Completion, ModelError> {
        let timeout = self.time_for_model(run);
        // Once it could not be put on record, nothing is shown before the end.
        let mut shown = None;
        let mut on_delta = async |text: &str| -> Result<(), Halt> {
            let Some(listener) = listener.filter(|one| one.wants_deltas()) else {
                return Ok(());
            };
            if shown.is_none() {
                shown = Some(self.mark_shown(run, epoch, costs).await?);
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
    async fn mark_shown(&self, run: &Run, epoch: i64, costs: &Rc<Cell<Costs>>) -> Result<bool, Halt> {
        let batch = run::mark_shown(run, epoch, self.ports.clock().now());
        // Repeating it changes nothing, so a lost reply needs no reading back: the batch is simply sent again.
        let written = self
            .db(Rc::clone(costs))
            .write(self.shard(), batch, |_| Ok(()), vec![], |_| Ok(None))
            .await;
        match written {
            Ok(()) => Ok(true),
            Err(DbError::Unavailable | DbError::Overloaded) => Ok(false),
            Err(DbError::Refused(_) | DbError::Conflict | DbError::Defect) => Err(Halt),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one batch writes all of it")]
    async fn persist(
        &self,
        run: &Run,
        epoch: i64,
        key: &DataKey,
        prompt: &Prompt,
        completion: &Completion,
        generated_at: Timestamp,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<i64, DbError> {
        let row = message_row(&run.turn_id, false);
        let aad = Aad {
            table: "messages",
            row: &row,
            column: "content_sealed",
        };
        let text = completion.text.as_bytes();
        let answer = Answer {
            content_key: key.id(),
            content_sealed: key
                .seal(&aad, text, self.ports.entropy())
                .map_err(|_| DbError::Defect)?,
            prompt_hash: key.content_hash(prompt_text(prompt).as_bytes()),
            response_hash: key.content_hash(text),
            provider: completion.provider,
            model: &completion.model,
            usage: &completion.usage,
            generated_at,
        };
        let resolve = |rows: &[domain::sql::Rows]| {
            rows.first()
                .and_then(|rows| rows.first())
                .map(|row| row.integer("context_revision_write"))
                .transpose()
        };
        loop {
            let now = self.ports.clock().now();
            let batch = run::persist(run, epoch, &answer, now);
            let read_back = vec![run::stored_by_run(run)];
            let db = self.db(Rc::clone(costs));
            match db
                .write(self.shard(), batch, run::revision_written, read_back, resolve)
                .await
            {
                // The answer exists only here: keep trying for as long as the line is ours.
                Err(DbError::Unavailable | DbError::Overloaded) if now < run.until => {
                    self.ports.clock().sleep(Millis::new(500)).await;
                }
                outcome => return outcome,
            }
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
