//! The way to the database and back, in simulated time: slow, lossy, and unmoved by the caller's death.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use domain::ports::Sql;
use domain::sql::{NotStarted, Outcome, Shard, Statement};
use futures::channel::oneshot;

use crate::executor::Executor;
use crate::sqlite::Database;

/// How often each thing goes wrong, out of 1,000 batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultRates {
    pub unreachable: u32,
    pub overloaded: u32,
    pub request_lost: u32,
    pub reply_lost: u32,
    /// The caller hears nothing, gives up, and the batch runs only then.
    pub late: u32,
}

/// The database and the network in front of it. Clones are the same, and sent by the same caller.
#[derive(Clone)]
pub struct SimSql {
    inner: Rc<Inner>,
    caller: u64,
}

struct Inner {
    executor: Executor,
    database: Database,
    rates: Cell<FaultRates>,
    /// The longest one-way delay, in milliseconds.
    slowest: Cell<i64>,
    /// Until then nothing gets through.
    outage_until: Cell<i64>,
    batches: Cell<u64>,
    watcher: RefCell<Option<Watcher>>,
}

/// Called after each batch ran, with what it was, how it ended and who sent it.
pub type Watcher = Box<dyn Fn(&Database, &[Statement], &Outcome, u64)>;

enum Course {
    Answered,
    NotStarted(NotStarted),
    RequestLost,
    ReplyLost,
    Late,
}

impl SimSql {
    pub fn new(executor: Executor, database: Database) -> Self {
        let inner = Inner {
            executor,
            database,
            rates: Cell::default(),
            slowest: Cell::new(20),
            outage_until: Cell::new(0),
            batches: Cell::new(0),
            watcher: RefCell::default(),
        };
        Self {
            inner: Rc::new(inner),
            caller: 0,
        }
    }

    /// The same, as `caller` uses it; the number only tells callers apart for the watcher.
    pub fn of_caller(&self, caller: u64) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
            caller,
        }
    }

    pub fn database(&self) -> &Database {
        &self.inner.database
    }

    pub fn set_rates(&self, rates: FaultRates) {
        self.inner.rates.set(rates);
    }

    pub fn set_slowest(&self, millis: i64) {
        self.inner.slowest.set(millis);
    }

    /// From now on nothing gets through for this long.
    pub fn fail_for(&self, millis: i64) {
        self.inner.outage_until.set(self.inner.executor.elapsed() + millis);
    }

    pub fn watch(&self, watcher: Watcher) {
        *self.inner.watcher.borrow_mut() = Some(watcher);
    }

    /// How many batches were sent so far.
    pub fn batches(&self) -> u64 {
        self.inner.batches.get()
    }

    fn course(&self) -> Course {
        if self.inner.executor.elapsed() < self.inner.outage_until.get() {
            return Course::NotStarted(NotStarted::Unavailable);
        }
        let rates = self.inner.rates.get();
        let mut draw = u32::try_from(self.inner.executor.rng().below(1_000)).unwrap_or(0);
        let mut hit = |rate: u32| {
            let hit = draw < rate;
            draw = draw.wrapping_sub(rate);
            hit
        };
        if hit(rates.unreachable) {
            Course::NotStarted(NotStarted::Unavailable)
        } else if hit(rates.overloaded) {
            Course::NotStarted(NotStarted::Overloaded)
        } else if hit(rates.request_lost) {
            Course::RequestLost
        } else if hit(rates.reply_lost) {
            Course::ReplyLost
        } else if hit(rates.late) {
            Course::Late
        } else {
            Course::Answered
        }
    }

    async fn delay(&self) {
        let millis = self.inner.executor.rng().between(0, self.inner.slowest.get());
        self.inner.executor.sleep(millis).await;
    }

    fn run(&self, shard: Shard, statements: &[Statement]) -> Outcome {
        let outcome = self.inner.database.run(shard, statements);
        if let Some(watcher) = &*self.inner.watcher.borrow() {
            watcher(&self.inner.database, statements, &outcome, self.caller);
        }
        outcome
    }

    async fn carry(self, shard: Shard, statements: Vec<Statement>, reply: oneshot::Sender<Outcome>) {
        self.delay().await;
        let outcome = match self.course() {
            Course::Answered => self.run(shard, &statements),
            Course::NotStarted(why) => Outcome::NotStarted(why),
            Course::RequestLost => Outcome::Unknown,
            Course::ReplyLost => {
                self.run(shard, &statements);
                Outcome::Unknown
            }
            Course::Late => {
                let _ = reply.send(Outcome::Unknown);
                let millis = self.inner.executor.rng().between(0, 3_000);
                self.inner.executor.sleep(millis).await;
                self.run(shard, &statements);
                return;
            }
        };
        self.delay().await;
        let _ = reply.send(outcome);
    }
}

impl Sql for SimSql {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        self.inner.batches.set(self.inner.batches.get() + 1);
        let (reply, answer) = oneshot::channel();
        // A task of the world: a batch on its way runs even when its sender has died.
        self.inner.executor.spawn(self.clone().carry(shard, statements, reply));
        answer.await.unwrap_or(Outcome::Unknown)
    }
}
