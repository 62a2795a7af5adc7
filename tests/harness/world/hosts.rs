//! Where the users' objects live: copies come and go, alarms and the ledger stay.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use domain::ids::UserId;
use domain::ports::{Checkpoint, LocalFuture};
use objects::ports::Ports;
use objects::user_turns::{TurnConfig, UserTurns};
use queues::jobs::{NotReached, Objects};

use crate::alarm::{Alarms, ObjectAlarm};
use crate::executor::{Executor, Process, SimClock, unwind};
use crate::network::SimSql;
use crate::queue::SimQueue;
use crate::rng::Rng;
use crate::world::model::{Calls, SimModel};
use crate::world::people::People;

/// The ports of one copy of an object.
pub struct SimPorts {
    sql: SimSql,
    clock: SimClock,
    entropy: Rng,
    process: Process,
    alarm: ObjectAlarm,
    checkpoint: Pause,
    model: SimModel,
    sends: SimQueue,
}

/// A checkpoint lets everything else run, and so makes one more place to die or to panic at.
pub struct Pause(Executor, Rc<Cell<u32>>);

impl Checkpoint for Pause {
    async fn reach(&self, _name: &'static str) {
        self.0.pause().await;
        if self.0.rng().chance(self.1.get()) {
            unwind();
        }
    }
}

impl Ports for SimPorts {
    type Sql = SimSql;
    type Clock = SimClock;
    type Entropy = Rng;
    type Spawn = Process;
    type Alarm = ObjectAlarm;
    type Checkpoint = Pause;
    type Model = SimModel;
    type Queue = SimQueue;

    fn sql(&self) -> &SimSql {
        &self.sql
    }
    fn clock(&self) -> &SimClock {
        &self.clock
    }
    fn entropy(&self) -> &Rng {
        &self.entropy
    }
    fn spawn(&self) -> &Process {
        &self.process
    }
    fn alarm(&self) -> &ObjectAlarm {
        &self.alarm
    }
    fn checkpoint(&self) -> &Pause {
        &self.checkpoint
    }
    fn model(&self) -> &SimModel {
        &self.model
    }
    fn sends(&self) -> &SimQueue {
        &self.sends
    }
}

/// One living copy of an object.
#[derive(Clone)]
pub struct Host {
    pub process: Process,
    pub object: Rc<UserTurns<SimPorts>>,
}

/// All living copies. Clones are the same.
#[derive(Clone)]
pub struct Hosts(Rc<Inner>);

struct Inner {
    executor: Executor,
    sql: SimSql,
    alarms: Alarms,
    calls: Calls,
    sends: SimQueue,
    people: Rc<People>,
    config: TurnConfig,
    /// Out of 1,000 checkpoints, at how many there is a panic.
    panics: Rc<Cell<u32>>,
    /// By user; the newest copy last.
    living: RefCell<Vec<Vec<Host>>>,
    skews: RefCell<Vec<i64>>,
    killed: Cell<u64>,
}

impl Hosts {
    #[expect(clippy::too_many_arguments, reason = "everything that a copy is built on")]
    pub fn new(
        executor: &Executor,
        sql: SimSql,
        alarms: Alarms,
        calls: Calls,
        sends: SimQueue,
        people: Rc<People>,
        config: TurnConfig,
        panics: Rc<Cell<u32>>,
    ) -> Self {
        let users = people.all.len();
        let hosts = Self(Rc::new(Inner {
            executor: executor.clone(),
            sql,
            alarms: alarms.clone(),
            calls,
            sends,
            people,
            config,
            panics,
            living: RefCell::new(vec![Vec::new(); users]),
            skews: RefCell::new(vec![0; users]),
            killed: Cell::new(0),
        }));
        let mine = hosts.clone();
        alarms.on_due(Rc::new(move |name| mine.clone().ring(name)));
        hosts
    }

    fn ring(self, name: String) -> LocalFuture<bool> {
        Box::pin(async move {
            let Some(user) = self.index(&name) else { return true };
            let Host { process, object } = self.reach(user);
            process.call(async move { object.alarm().await }).await.is_some()
        })
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.0.people.all.iter().position(|person| person.user.as_str() == name)
    }

    /// A copy of the user's object: nearly always the newest; a first one comes to life where there is none.
    pub fn reach(&self, user: usize) -> Host {
        let living = self.0.living.borrow()[user].clone();
        match living.as_slice() {
            [] => self.begin(user),
            [only] => only.clone(),
            [.., newest] if self.0.executor.rng().chance(700) => newest.clone(),
            [older @ .., _] => self.0.executor.rng().pick(older).clone(),
        }
    }

    /// One more copy of the user's object.
    pub fn begin(&self, user: usize) -> Host {
        let inner = &self.0;
        let process = inner.executor.process();
        process.set_skew(inner.skews.borrow()[user]);
        let person = &inner.people.all[user];
        let ports = SimPorts {
            sql: inner.sql.clone(),
            clock: process.clock(),
            entropy: inner.executor.rng().fork(),
            process: process.clone(),
            alarm: inner.alarms.of(person.user.as_str(), process.clock()),
            checkpoint: Pause(inner.executor.clone(), Rc::clone(&inner.panics)),
            model: inner.calls.of(user),
            sends: inner.sends.clone(),
        };
        let object = UserTurns::new(
            ports,
            person.user.clone(),
            Rc::clone(&inner.people.secrets),
            inner.config,
        );
        let host = Host { process, object };
        inner.living.borrow_mut()[user].push(host.clone());
        host
    }

    /// Sets how far the clock of the user's newest copy, and of those to come, is off.
    pub fn skew(&self, user: usize, millis: i64) {
        self.0.skews.borrow_mut()[user] = millis;
        if let Some(host) = self.0.living.borrow()[user].last() {
            host.process.set_skew(millis);
        }
    }

    /// All copies of the user's object die where they stand.
    pub fn kill(&self, user: usize) {
        let dead = std::mem::take(&mut self.0.living.borrow_mut()[user]);
        self.0.killed.set(self.0.killed.get() + dead.len() as u64);
        for host in &dead {
            host.process.kill();
        }
    }

    /// Every living copy looks for unfinished work.
    pub async fn wake_all(&self, user: usize) {
        let living = self.0.living.borrow()[user].clone();
        for Host { process, object } in living {
            process.call(async move { object.wake() }).await;
        }
    }

    /// How many copies were killed.
    pub fn killed(&self) -> u64 {
        self.0.killed.get()
    }

    /// Clocks are right again, and of each object only the newest copy is left.
    pub fn heal(&self) {
        for user in 0..self.0.people.all.len() {
            self.skew(user, 0);
            let older = {
                let mut living = self.0.living.borrow_mut();
                let newest = living[user].pop();
                std::mem::replace(&mut living[user], newest.into_iter().collect())
            };
            for host in older {
                host.process.kill();
            }
        }
    }

    /// Lets go of everything, so that the world can be dropped.
    pub fn shut_down(&self) {
        self.0.living.borrow_mut().clear();
    }
}

impl Objects for Hosts {
    async fn wake(&self, user: &UserId) -> Result<(), NotReached> {
        let user = self.index(user.as_str()).ok_or(NotReached)?;
        let Host { process, object } = self.reach(user);
        process.call(async move { object.wake() }).await.ok_or(NotReached)
    }
}
