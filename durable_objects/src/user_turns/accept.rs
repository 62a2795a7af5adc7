//! Accepting a message, or answering for the turn that already stands under its key.

use std::rc::Rc;

use domain::guard::Guard;
use domain::ids::TurnId;
use domain::keys::{Aad, DataKey};
use domain::ports::{Checkpoint, Clock, Spawn};
use domain::problem::Code;
use domain::time::Timestamp;
use domain::turn::protocol::{ChatCommand, ChatRefusal, Frame};
use store::ledger::accept::{self, Acceptance, ConversationSeen, Entry, Facts, Place};
use store::ledger::read::TurnRecord;

use crate::ports::Ports;
use crate::user_turns::line::Waiting;
use crate::user_turns::{Listener, UserTurns, message_row};
use store::db::DbError;

/// How often an acceptance is tried when another copy of this object keeps changing what it was based on.
const TRIES: u32 = 4;

/// What a client that finds its own request still running, or the service unavailable, is told to wait.
const RETRY_SECS: i64 = 1;

/// What came of a message.
enum Accepted {
    /// It is a turn now.
    Turn(Place),
    /// The key was used before; this is the turn under it.
    Prior(Box<TurnRecord>, DataKey),
}

/// Why a message did not become a turn.
enum NotAccepted {
    Refused(ChatRefusal),
    Db(DbError),
}

impl From<DbError> for NotAccepted {
    fn from(error: DbError) -> Self {
        Self::Db(error)
    }
}

impl From<Code> for NotAccepted {
    fn from(code: Code) -> Self {
        Self::Refused(ChatRefusal::of(code))
    }
}

impl<P: Ports> UserTurns<P> {
    /// Takes a message in. Whatever becomes of it goes to `listener`; the answer may come long after this returns.
    pub async fn chat(self: Rc<Self>, command: ChatCommand, listener: Listener) {
        if command.context.user_id != self.user {
            listener.refuse(ChatRefusal::of(Code::Internal));
            return;
        }
        // Before a message is in the line it waits to be taken in, and that is bounded too.
        if self.accepting.waiting() >= self.config.line_max {
            listener.refuse(ChatRefusal::for_a_while(Code::LineFull, RETRY_SECS));
            return;
        }
        let accepted = {
            let _turn = self.accepting.enter().await;
            self.accept(&command, &listener).await
        };
        match accepted {
            Ok(Accepted::Turn(place)) => self.enqueue(&command, &place, listener).await,
            Ok(Accepted::Prior(record, key)) => self.answer_prior(&record, &key, &listener),
            Err(NotAccepted::Refused(refusal)) => listener.refuse(refusal),
            Err(NotAccepted::Db(error)) => {
                // A batch in doubt may have committed after all.
                self.leave_unfinished().await;
                listener.refuse(unavailable(error));
            }
        }
    }

    async fn accept(self: &Rc<Self>, command: &ChatCommand, listener: &Listener) -> Result<Accepted, NotAccepted> {
        let full = self.state.borrow().line.waiting() >= self.config.line_max;
        let mut disowned = false;
        for attempt in 0..TRIES {
            // With a full line the ledger is asked first: the message may be one that is answered already.
            let known = if attempt == 0 && !full {
                self.plan_from_memory(command)
            } else {
                None
            };
            let (epoch, key, seen) = match known {
                Some(plan) => plan,
                None => match self.plan_from_ledger(command, listener).await? {
                    Plan::New { .. } if full => {
                        return Err(NotAccepted::Refused(ChatRefusal::for_a_while(
                            Code::LineFull,
                            RETRY_SECS,
                        )));
                    }
                    Plan::New { epoch, key, seen } => (epoch, key, seen),
                    Plan::Prior(record, key) => return Ok(Accepted::Prior(record, key)),
                },
            };
            // Who has stopped waiting would only get a turn that ends in failure.
            if self.ports.clock().now() >= command.context.deadline_at {
                let refusal = ChatRefusal::for_a_while(Code::DeadlineExceeded, RETRY_SECS);
                return Err(NotAccepted::Refused(refusal));
            }
            // The alarm stands before the turn does, so that a crash right after finds its way back.
            self.ring_within(self.config.recovery_interval).await;
            // One instant decides both: which session the message belongs to and when it was accepted.
            let now = self.ports.clock().now();
            let place = Place::of(seen, now, self.ports.entropy());
            match self.write_acceptance(command, listener, epoch, &key, &place, now).await {
                Ok(()) => {
                    self.remember_place(command, &place, now);
                    self.ports.checkpoint().reach("ingress_committed").await;
                    return Ok(Accepted::Turn(place));
                }
                // The token was read as current and refused again: what no longer counts is the person it speaks for.
                Err(DbError::Refused(Guard::TokenCurrent)) if disowned => {
                    let own = command.context.principal.user().is_some();
                    return Err(if own { Code::TokenStale } else { Code::Forbidden }.into());
                }
                Err(DbError::Refused(Guard::TokenCurrent)) => {
                    disowned = true;
                    self.forget();
                }
                Err(DbError::Refused(
                    Guard::KeyLive | Guard::EpochCurrent | Guard::KeyUnused | Guard::SessionCurrent,
                )) => self.forget(),
                Err(error) => return Err(error.into()),
            }
        }
        Err(NotAccepted::Refused(ChatRefusal::for_a_while(
            Code::Unavailable,
            RETRY_SECS,
        )))
    }

    async fn write_acceptance(
        &self,
        command: &ChatCommand,
        listener: &Listener,
        epoch: i64,
        key: &DataKey,
        place: &Place,
        now: Timestamp,
    ) -> Result<(), DbError> {
        let row = message_row(&command.context.turn_id, true);
        let aad = Aad {
            table: "messages",
            row: &row,
            column: "content_sealed",
        };
        let sealed = key
            .seal(&aad, command.message.as_bytes(), self.ports.entropy())
            .map_err(|_| DbError::Defect)?;
        let batch = accept::accept(&Acceptance {
            entry: Entry::Direct,
            context: &command.context,
            request_hash: &command.request_hash,
            place,
            epoch,
            content_key: key.id(),
            content_sealed: sealed,
            now,
        });
        self.db(Rc::clone(&listener.costs))
            .write(
                self.shard(),
                batch,
                |rows| accept::arrival_no(rows).map(|_| ()),
                vec![accept::accepted_turn(&command.context)],
                |rows| Ok(rows.first().and_then(|rows| rows.first()).map(|_| ())),
            )
            .await
    }

    fn plan_from_memory(&self, command: &ChatCommand) -> Option<(i64, DataKey, Option<ConversationSeen>)> {
        let seen = self.known_conversation(&origin_of(command), command.conversation_id.as_ref())?;
        let (epoch, key) = self.epoch_and_key()?;
        Some((epoch, key, Some(seen)))
    }

    async fn plan_from_ledger(&self, command: &ChatCommand, listener: &Listener) -> Result<Plan, NotAccepted> {
        let named = command.conversation_id.as_ref();
        let batch = accept::read_facts(&command.context, named);
        let rows = self.db(Rc::clone(&listener.costs)).read(self.shard(), batch).await?;
        let facts = Facts::read(&rows).map_err(DbError::from)?;
        // A token that is out of date and a person whose key is gone are told the same.
        let (true, Some(row)) = (facts.fresh, facts.key) else {
            return Err(Code::TokenStale.into());
        };
        let key = self.unwrap_key(&row).map_err(|_| DbError::Defect)?;
        self.learn(facts.epoch, key.clone());
        if let Some(prior) = facts.prior {
            if prior.request_hash != command.request_hash {
                return Err(Code::IdempotencyKeyReused.into());
            }
            return Ok(Plan::Prior(Box::new(prior), key));
        }
        if named.is_some() && facts.conversation.is_none() {
            return Err(Code::NotFound.into());
        }
        Ok(Plan::New {
            epoch: facts.epoch,
            key,
            seen: facts.conversation,
        })
    }

    fn remember_place(&self, command: &ChatCommand, place: &Place, now: Timestamp) {
        let (before, is_default) = match place {
            Place::Opens { .. } => (now, true),
            Place::Continues(seen) | Place::Resumes { seen, .. } => (seen.last_message_at, seen.is_default),
        };
        let seen = ConversationSeen {
            conversation_id: place.conversation_id().clone(),
            session_id: place.session_id().clone(),
            last_message_at: before.max(now),
            is_default,
        };
        self.remember_conversation(origin_of(command), seen);
    }

    async fn enqueue(self: &Rc<Self>, command: &ChatCommand, place: &Place, listener: Listener) {
        let context = &command.context;
        if listener.stream {
            listener.send(Frame::Turn {
                turn_id: context.turn_id.clone(),
                conversation_id: place.conversation_id().clone(),
                session_id: place.session_id().clone(),
            });
        }
        let must_wait = {
            let mut state = self.state.borrow_mut();
            let must_wait = state.driving;
            state.line.push(Waiting {
                turn_id: context.turn_id.clone(),
                deadline_at: context.deadline_at,
                listener,
            });
            must_wait
        };
        if must_wait {
            let this = Rc::clone(self);
            let (turn, deadline) = (context.turn_id.clone(), context.deadline_at);
            self.ports
                .spawn()
                .spawn(Box::pin(async move { this.give_up_at(turn, deadline).await }));
        }
        self.drive();
    }

    fn answer_prior(self: &Rc<Self>, record: &TurnRecord, key: &DataKey, listener: &Listener) {
        match self.stored_result(record, key, true) {
            Some(Ok(done)) => listener.done(done),
            Some(Err(refusal)) => listener.refuse(refusal),
            None => {
                // Asking again is a reason to see whether anyone is still at it.
                let running_here = self.state.borrow().driving;
                if !running_here {
                    self.wake();
                }
                listener.refuse(in_progress(&record.turn_id));
            }
        }
    }
}

/// Where a message would go, or the turn that stands under its key.
enum Plan {
    New {
        epoch: i64,
        key: DataKey,
        /// The conversation it goes to, if there is one already.
        seen: Option<ConversationSeen>,
    },
    Prior(Box<TurnRecord>, DataKey),
}

fn origin_of(command: &ChatCommand) -> (&'static str, Option<String>) {
    let gateway = command.context.gateway_id.as_ref().map(ToString::to_string);
    (command.context.channel.as_str(), gateway)
}

/// The turn goes on; its answer can be asked for again in a moment.
pub(super) fn in_progress(turn: &TurnId) -> ChatRefusal {
    ChatRefusal {
        turn_id: Some(turn.clone()),
        ..ChatRefusal::for_a_while(Code::TurnInProgress, RETRY_SECS)
    }
}

pub(super) fn unavailable(error: DbError) -> ChatRefusal {
    match error {
        DbError::Overloaded => ChatRefusal::for_a_while(Code::Overloaded, RETRY_SECS),
        DbError::Unavailable | DbError::Refused(_) => ChatRefusal::for_a_while(Code::Unavailable, RETRY_SECS),
        DbError::Conflict | DbError::Defect => ChatRefusal::of(Code::Internal),
    }
}
