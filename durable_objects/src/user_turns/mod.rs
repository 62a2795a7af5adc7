//! One user's turns: accepted in the order they arrive, answered one at a time.
//!
//! Everything here may be lost at any await, and two copies may live at once. The ledger's guards keep it correct; this
//! object only makes it fast and gives waiting clients their answers. Whatever is unfinished is found again in the
//! ledger, by the alarm, by the sweep or by the next message.

mod accept;
mod deliver;
mod generate;
mod line;
mod prompt;
mod run;

use std::cell::{Cell, RefCell};
use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use domain::ids::{ConversationId, UserId};
use domain::keys::{DataKey, KeySubject, MasterSecrets, MasterVersion, OpenError, WrappedKey};
use domain::ports::{Alarm, Clock, LocalFuture, Spawn};
use domain::sql::Shard;
use domain::time::{Millis, Timestamp};
use domain::turn::protocol::{ChatCommand, Costs, Frame};
use futures::FutureExt;
use futures::channel::mpsc::UnboundedSender;
use store::keys::KeyRow;
use store::ledger::accept::ConversationSeen;

use crate::ports::Ports;
use crate::turnstile::Turnstile;
use store::db::Db;

pub(crate) use domain::turn::message_row;
pub use line::Line;
pub(crate) use prompt::open_text;

/// The limits an object works under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnConfig {
    /// How long one call of the model may take.
    pub model_deadline: Millis,
    /// How much longer than the model's deadline a run holds the line, for storing the answer.
    pub run_lease_slack: Millis,
    /// How many turns of one user may wait.
    pub line_max: usize,
    /// How soon after an acceptance the object looks for unfinished work, should it have been restarted.
    pub recovery_interval: Millis,
}

impl Default for TurnConfig {
    fn default() -> Self {
        Self {
            model_deadline: Millis::from_secs(60),
            run_lease_slack: Millis::from_secs(5),
            line_max: 32,
            recovery_interval: Millis::from_secs(15),
        }
    }
}

/// A client that waits for the answer of a turn.
pub struct Listener {
    frames: UnboundedSender<Frame>,
    /// Wants to see the answer grow.
    stream: bool,
    costs: Rc<Cell<Costs>>,
    /// Was told how it ended.
    answered: Cell<bool>,
}

impl Listener {
    pub fn new(frames: UnboundedSender<Frame>, stream: bool) -> Self {
        Self {
            frames,
            stream,
            costs: Rc::default(),
            answered: Cell::new(false),
        }
    }

    fn wants_deltas(&self) -> bool {
        self.stream && !self.frames.is_closed()
    }

    fn is_answered(&self) -> bool {
        self.answered.get()
    }

    fn costs(&self) -> Costs {
        self.costs.get()
    }

    /// A client that has left is no reason to stop.
    fn send(&self, frame: Frame) {
        let _ = self.frames.unbounded_send(frame);
    }
}

/// What the object knows from the ledger; forgotten as soon as a guard says otherwise.
struct Known {
    epoch: i64,
    key: DataKey,
    /// The conversations seen last, at most [`CONVERSATIONS_KNOWN`].
    conversations: Vec<KnownConversation>,
}

/// The channel and gateway that a conversation belongs to.
type Origin = (&'static str, Option<String>);

struct KnownConversation {
    origin: Origin,
    seen: ConversationSeen,
}

const CONVERSATIONS_KNOWN: usize = 8;

#[derive(Default)]
struct State {
    known: Option<Known>,
    line: Line,
    /// A task is working on the line.
    driving: bool,
    /// When the alarm rings, as far as this incarnation has set it.
    alarm_at: Option<Timestamp>,
    /// Unfinished turns may stand in the ledger that are not in the line: always so after a restart.
    may_have_unfinished: bool,
}

/// The object of one user.
pub struct UserTurns<P: Ports> {
    ports: P,
    user: UserId,
    secrets: Rc<MasterSecrets>,
    config: TurnConfig,
    state: RefCell<State>,
    accepting: Turnstile,
}

impl<P: Ports> UserTurns<P> {
    pub fn new(ports: P, user: UserId, secrets: Rc<MasterSecrets>, config: TurnConfig) -> Rc<Self> {
        let state = State {
            may_have_unfinished: true,
            ..State::default()
        };
        Rc::new(Self {
            ports,
            user,
            secrets,
            config,
            state: RefCell::new(state),
            accepting: Turnstile::default(),
        })
    }

    /// Takes a message in, in a task of its own: whoever sent it only listens.
    pub fn receive(self: &Rc<Self>, command: ChatCommand, listener: Listener) {
        let this = Rc::clone(self);
        let task: LocalFuture<()> = Box::pin(Rc::clone(self).chat(command, listener));
        self.ports.spawn().spawn(Box::pin(async move {
            // A panic may have left a turn in the ledger that is in no one's line.
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                this.forget();
                this.leave_unfinished().await;
            }
        }));
    }

    /// Goes on with whatever of this user was left unfinished.
    pub fn wake(self: &Rc<Self>) {
        self.state.borrow_mut().line.push_recovery();
        self.drive();
    }

    /// The alarm rang. Nothing to do unless work may have been left behind.
    pub async fn alarm(self: &Rc<Self>) {
        let (busy, unfinished) = {
            let mut state = self.state.borrow_mut();
            state.alarm_at = None;
            // A message that is being taken in counts on the alarm as well.
            let busy = state.driving || self.accepting.is_taken();
            (busy, state.may_have_unfinished)
        };
        if busy || unfinished {
            self.ring_within(self.config.recovery_interval).await;
        }
        if unfinished {
            self.wake();
        }
    }

    /// Makes sure that the alarm rings no later than `delay` from now.
    async fn ring_within(&self, delay: Millis) {
        let now = self.ports.clock().now();
        let at = now.plus(delay);
        let due = {
            let mut state = self.state.borrow_mut();
            // One that should have rung by now may never have been set.
            let late = state.alarm_at.is_none_or(|set| set > at || set <= now);
            if late {
                state.alarm_at = Some(at);
            }
            late
        };
        if due {
            self.ports.alarm().set(at).await;
        }
    }

    /// Work stays in the ledger that this incarnation does not carry in its line.
    async fn leave_unfinished(&self) {
        self.state.borrow_mut().may_have_unfinished = true;
        self.ring_within(self.config.recovery_interval).await;
    }

    fn shard(&self) -> Shard {
        self.user.shard()
    }

    fn db(&self, costs: Rc<Cell<Costs>>) -> Db<'_, P::Sql, P::Clock> {
        Db::new(self.ports.sql(), self.ports.clock(), costs)
    }

    fn unwrap_key(&self, row: &KeyRow) -> Result<DataKey, OpenError> {
        let wrapped = WrappedKey {
            master_version: MasterVersion::new(u32::try_from(row.master_version).map_err(|_| OpenError::Form)?),
            wrapped: row.wrapped.clone(),
        };
        self.secrets
            .unwrap_key(&row.key_id, &KeySubject::User(self.user.clone()), &wrapped)
    }

    /// The epoch and the key, if the object knows them.
    fn epoch_and_key(&self) -> Option<(i64, DataKey)> {
        let state = self.state.borrow();
        state.known.as_ref().map(|known| (known.epoch, known.key.clone()))
    }

    /// Takes over what a read found, and says whether the epoch moved.
    fn learn(&self, epoch: i64, key: DataKey) {
        let mut state = self.state.borrow_mut();
        match &mut state.known {
            Some(known) if known.epoch == epoch => known.key = key,
            Some(_) | None => {
                state.known = Some(Known {
                    epoch,
                    key,
                    conversations: Vec::new(),
                });
            }
        }
    }

    fn forget(&self) {
        self.state.borrow_mut().known = None;
    }

    fn remember_conversation(&self, origin: Origin, seen: ConversationSeen) {
        if let Some(known) = &mut self.state.borrow_mut().known {
            known
                .conversations
                .retain(|other| other.seen.conversation_id != seen.conversation_id);
            if known.conversations.len() >= CONVERSATIONS_KNOWN {
                known.conversations.remove(0);
            }
            known.conversations.push(KnownConversation { origin, seen });
        }
    }

    fn known_conversation(&self, origin: &Origin, named: Option<&ConversationId>) -> Option<ConversationSeen> {
        let state = self.state.borrow();
        let is_it = |one: &&KnownConversation| {
            one.origin == *origin
                && match named {
                    Some(id) => one.seen.conversation_id == *id,
                    None => one.seen.is_default,
                }
        };
        let known = state.known.as_ref()?;
        known.conversations.iter().find(is_it).map(|one| one.seen.clone())
    }
}
