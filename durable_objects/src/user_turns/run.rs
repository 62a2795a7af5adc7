//! Working through the line: one turn at a time, the oldest first, whoever left it.

use std::cell::Cell;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use domain::ids::{LeaseToken, TurnId};
use domain::keys::{DataKey, OpenError};
use domain::ports::{Clock, LocalFuture, Spawn};
use domain::time::{Millis, Timestamp};
use domain::turn::protocol::{ChatRefusal, Costs};
use domain::turn::recovery::{Recovery, recover};
use domain::turn::{FailureCode, Status};
use futures::FutureExt;
use store::keys::KeyRow;
use store::ledger::failure;
use store::ledger::read::{self, Unfinished};
use store::ledger::run::{self, Run, Started};

use crate::ports::Ports;
use crate::user_turns::accept::{in_progress, unavailable};
use crate::user_turns::deliver::notice;
use crate::user_turns::line::{Waiting, Work};
use crate::user_turns::{Listener, UserTurns};
use store::db::DbError;

/// How long to wait before looking again whether another copy's run has ended.
const LOOK_AGAIN: Millis = Millis::new(250);

/// What the ledger says of the user's unfinished turns.
struct Outlook {
    epoch: i64,
    /// `None` when the user's key was destroyed; an error when no secret of this configuration opens it.
    key: Result<Option<DataKey>, OpenError>,
    unfinished: Vec<Unfinished>,
}

impl<P: Ports> UserTurns<P> {
    /// Starts to work on the line unless a task does so already.
    pub(super) fn drive(self: &Rc<Self>) {
        let idle = !std::mem::replace(&mut self.state.borrow_mut().driving, true);
        if idle {
            let this = Rc::clone(self);
            self.ports
                .spawn()
                .spawn(Box::pin(async move { this.work_through().await }));
        }
    }

    async fn work_through(self: Rc<Self>) {
        loop {
            let next = {
                let mut state = self.state.borrow_mut();
                let next = state.line.take_next();
                state.driving = next.is_some();
                next
            };
            let Some(work) = next else { return };
            // Boxed, so that what is guarded is one call: the Wasm back end turns a whole state machine inside a landing
            // pad into code that does not validate.
            let this = Rc::clone(&self);
            let task: LocalFuture<()> = Box::pin(async move { this.work(work).await });
            // A panic ends this piece of work only; its client hears that the answer broke off, and the ledger still
            // knows the turn.
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                self.forget();
                self.leave_unfinished().await;
            }
        }
    }

    async fn work(self: &Rc<Self>, work: Work) {
        match work {
            Work::Turn(waiting) => self.serve(waiting).await,
            Work::Recover => self.recover_all().await,
        }
    }

    /// Brings a turn of this incarnation to an end, and the older ones that stand before it.
    async fn serve(self: &Rc<Self>, waiting: Waiting) {
        let Waiting {
            turn_id,
            deadline_at,
            listener,
        } = waiting;
        // Nearly always the turn can simply be started; the ledger says so if not.
        if self.ports.clock().now() < deadline_at
            && let Some((epoch, key)) = self.epoch_and_key()
        {
            match self.start(&turn_id, 1, deadline_at, epoch, &key, &listener.costs).await {
                Ok((run, started)) => return self.generate(run, started, epoch, key, Some(&listener)).await,
                Err(DbError::Refused(_)) => {}
                Err(error) => return self.give_up(&listener, error).await,
            }
        }
        loop {
            match self.serve_by_ledger(&turn_id, deadline_at, &listener).await {
                Ok(Served::Done) => return,
                Ok(Served::Wait(pause)) => self.ports.clock().sleep(pause).await,
                Err(error) => return self.give_up(&listener, error).await,
            }
        }
    }

    async fn give_up(&self, listener: &Listener, error: DbError) {
        self.leave_unfinished().await;
        listener.refuse(unavailable(error));
    }

    /// One look into the ledger and one step of whatever stands first.
    async fn serve_by_ledger(
        self: &Rc<Self>,
        turn: &TurnId,
        deadline_at: Timestamp,
        listener: &Listener,
    ) -> Result<Served, DbError> {
        let outlook = self.outlook(&listener.costs).await?;
        let now = self.ports.clock().now();
        let Some(own) = outlook.unfinished.iter().find(|one| one.turn_id == *turn) else {
            self.tell_stored(turn, listener).await?;
            return Ok(Served::Done);
        };
        if own.state.status == Status::Accepted && now >= deadline_at {
            self.end_idle(own, &outlook, FailureCode::DeadlineExceeded, &listener.costs)
                .await?;
            return Ok(Served::Wait(Millis::ZERO));
        }
        let Some(first) = outlook.unfinished.first() else {
            return Ok(Served::Wait(LOOK_AGAIN));
        };
        let listens = if first.turn_id == *turn { Some(listener) } else { None };
        match self.step(first, &outlook, listens).await? {
            Step::Moved if listens.is_some() && first.turn_id == *turn => self.after_own(turn, listener).await,
            Step::Moved => Ok(Served::Wait(Millis::ZERO)),
            Step::Wait(until) => {
                let until = if own.state.status == Status::Accepted {
                    until.min(deadline_at)
                } else {
                    until
                };
                Ok(Served::Wait(
                    LOOK_AGAIN.min(until.remaining_from(now)).max(Millis::new(10)),
                ))
            }
        }
    }

    async fn after_own(&self, turn: &TurnId, listener: &Listener) -> Result<Served, DbError> {
        if !listener.is_answered() {
            self.tell_stored(turn, listener).await?;
        }
        Ok(Served::Done)
    }

    /// Goes on with everything that no one carries, as far as it is not held by a living run.
    async fn recover_all(self: &Rc<Self>) {
        self.state.borrow_mut().may_have_unfinished = false;
        let costs: Rc<Cell<Costs>> = Rc::default();
        loop {
            let Ok(outlook) = self.outlook(&costs).await else {
                return self.leave_unfinished().await;
            };
            let Some(first) = outlook.unfinished.first() else {
                return;
            };
            match self.step(first, &outlook, None).await {
                Ok(Step::Moved) => {}
                Ok(Step::Wait(until)) => {
                    self.state.borrow_mut().may_have_unfinished = true;
                    let wait = until.remaining_from(self.ports.clock().now()).max(LOOK_AGAIN);
                    return self.ring_within(wait).await;
                }
                Err(_) => return self.leave_unfinished().await,
            }
        }
    }

    async fn step(
        self: &Rc<Self>,
        first: &Unfinished,
        outlook: &Outlook,
        listener: Option<&Listener>,
    ) -> Result<Step, DbError> {
        let costs = listener.map(|one| Rc::clone(&one.costs)).unwrap_or_default();
        let now = self.ports.clock().now();
        let key = match (&outlook.key, recover(&first.state, now)) {
            (_, Recovery::Wait(until)) => return Ok(Step::Wait(until)),
            (_, Recovery::Nothing) => return Ok(Step::Wait(now.plus(LOOK_AGAIN))),
            (_, Recovery::End(code)) => return self.end_idle(first, outlook, code, &costs).await,
            // What can be ended without the key is; the rest waits for the secret to be put back, or for its time to run out.
            (Err(_), Recovery::Call) => return Err(DbError::Defect),
            (Ok(None), Recovery::Call) => {
                return self.end_idle(first, outlook, FailureCode::SubjectDeleted, &costs).await;
            }
            (Ok(Some(key)), Recovery::Call) => key,
        };
        let attempt = first.state.model_calls.saturating_add(1);
        // A first call has the turn's deadline; a repeated one is for reading later, so it has the model's own.
        let deadline = if attempt == 1 {
            first.state.deadline_at
        } else {
            now.plus(self.config.model_deadline)
        };
        match self
            .start(&first.turn_id, attempt, deadline, outlook.epoch, key, &costs)
            .await
        {
            Ok((run, started)) => {
                self.generate(run, started, outlook.epoch, key.clone(), listener).await;
                Ok(Step::Moved)
            }
            // Someone else was faster, or the line is taken: look again.
            Err(DbError::Refused(_)) => Ok(Step::Wait(now.plus(LOOK_AGAIN))),
            Err(error) => Err(error),
        }
    }

    async fn outlook(&self, costs: &Rc<Cell<Costs>>) -> Result<Outlook, DbError> {
        let rows = self
            .db(Rc::clone(costs))
            .read(self.shard(), read::object_state(&self.user))
            .await?;
        let [epoch, key, unfinished] = rows.as_slice() else {
            return Err(DbError::Defect);
        };
        let epoch = epoch.first().ok_or(DbError::Defect)?.integer("epoch")?;
        let row = key.first().map(KeyRow::read).transpose()?;
        let key = row.map(|row| self.unwrap_key(&row)).transpose();
        match &key {
            Ok(Some(key)) => self.learn(epoch, key.clone()),
            Ok(None) | Err(_) => self.forget(),
        }
        Ok(Outlook {
            epoch,
            key,
            unfinished: read::read_unfinished(unfinished)?,
        })
    }

    async fn start(
        &self,
        turn: &TurnId,
        attempt: i64,
        deadline: Timestamp,
        epoch: i64,
        key: &DataKey,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<(Run, Started), DbError> {
        let now = self.ports.clock().now();
        let allowed = self.config.model_deadline.min(deadline.remaining_from(now));
        let run = Run {
            user_id: self.user.clone(),
            turn_id: turn.clone(),
            token: LeaseToken::mint(now, self.ports.entropy()),
            attempt,
            until: now.plus(allowed).plus(self.config.run_lease_slack),
        };
        let started = self
            .db(Rc::clone(costs))
            .write(
                self.shard(),
                run::start(&run, epoch, key.id(), now),
                Started::read,
                run::started_run(&run),
                run::read_started_run,
            )
            .await?;
        Ok((run, started))
    }

    async fn end_idle(
        &self,
        turn: &Unfinished,
        outlook: &Outlook,
        code: FailureCode,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<Step, DbError> {
        let now = self.ports.clock().now();
        let (id, epoch) = (&turn.turn_id, outlook.epoch);
        let notice = notice(turn.through.as_ref(), code);
        let batch = failure::fail_idle(&self.user, id, turn.state.status, epoch, code, notice, now);
        match self.write_end(batch, id, code, costs).await {
            Ok(()) => {
                if notice.is_some() {
                    self.order_sends(turn.through.as_ref(), epoch).await;
                }
                Ok(Step::Moved)
            }
            Err(DbError::Refused(_)) => Ok(Step::Wait(now.plus(LOOK_AGAIN))),
            Err(error) => Err(error),
        }
    }

    /// Writes a batch that ends `turn` with `code`; a lost reply is resolved by whether it has ended so.
    ///
    /// Someone else may have ended it otherwise meanwhile, and then that is what its client must be told.
    pub(super) async fn write_end(
        &self,
        batch: Vec<domain::sql::Statement>,
        turn: &TurnId,
        code: FailureCode,
        costs: &Rc<Cell<Costs>>,
    ) -> Result<(), DbError> {
        self.db(Rc::clone(costs))
            .write(
                self.shard(),
                batch,
                |_| Ok(()),
                vec![read::turn_by_id(&self.user, turn)],
                |rows| {
                    let record = rows.first().map_or(Ok(None), read::read_turn)?;
                    Ok(record.filter(|record| record.failure == Some(code)).map(|_| ()))
                },
            )
            .await
    }

    /// Ends a turn of the line whose client has waited long enough.
    pub(super) async fn give_up_at(self: Rc<Self>, turn: TurnId, deadline: Timestamp) {
        self.ports
            .clock()
            .sleep(deadline.remaining_from(self.ports.clock().now()))
            .await;
        let Some(waiting) = self.state.borrow_mut().line.leave(&turn) else {
            return;
        };
        let code = FailureCode::DeadlineExceeded;
        let now = self.ports.clock().now();
        let Some((epoch, _)) = self.epoch_and_key() else {
            return self.give_up(&waiting.listener, DbError::Unavailable).await;
        };
        // Nobody waits here for the answer to a channel's message.
        let batch = failure::fail_idle(&self.user, &turn, Status::Accepted, epoch, code, None, now);
        match self.write_end(batch, &turn, code, &waiting.listener.costs).await {
            Ok(()) => waiting.listener.refuse(ChatRefusal::of_failure(turn, code, false)),
            Err(DbError::Refused(_)) => {
                self.leave_unfinished().await;
                waiting.listener.refuse(in_progress(&turn));
            }
            Err(error) => self.give_up(&waiting.listener, error).await,
        }
    }
}

enum Step {
    /// Something was done; look again.
    Moved,
    /// Nothing to do before this time.
    Wait(Timestamp),
}

enum Served {
    Done,
    Wait(Millis),
}
