//! Alarms of objects: kept by the platform, not by the process, and fired at least once, perhaps late.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use domain::ports::{Alarm, Clock, LocalFuture};
use domain::time::Timestamp;

use crate::executor::{Executor, SimClock};

/// Wakes the object of a name; the answer says whether its handler came to its end.
pub type Wake = Rc<dyn Fn(String) -> LocalFuture<bool>>;

/// After a failed handler the platform tries again, first after this and then after twice as long each time.
const RETRY_MILLIS: i64 = 2_000;
const TRIES: u32 = 6;

/// Every object's alarm. Clones are the same.
#[derive(Clone)]
pub struct Alarms(Rc<Inner>);

struct Inner {
    executor: Executor,
    /// By object: when it is due and which call of `set` that was.
    set: RefCell<BTreeMap<String, (Timestamp, u64)>>,
    sets: RefCell<u64>,
    wake: RefCell<Option<Wake>>,
    /// Out of 1,000 alarms, how many come up to a minute late.
    late: RefCell<u32>,
}

impl Alarms {
    pub fn new(executor: Executor) -> Self {
        Self(Rc::new(Inner {
            executor,
            set: RefCell::default(),
            sets: RefCell::default(),
            wake: RefCell::default(),
            late: RefCell::default(),
        }))
    }

    /// Who wakes the objects. Holds the world, so [`Alarms::shut_down`] must let go of it.
    pub fn on_due(&self, wake: Wake) {
        *self.0.wake.borrow_mut() = Some(wake);
    }

    pub fn set_late(&self, permille: u32) {
        *self.0.late.borrow_mut() = permille;
    }

    pub fn shut_down(&self) {
        *self.0.wake.borrow_mut() = None;
    }

    /// The alarm of one object, as a port. Two live copies of an object share it.
    ///
    /// The times it is given are by `clock`: the platform's alarms go by the same clock as the process that sets them.
    pub fn of(&self, object: &str, clock: SimClock) -> ObjectAlarm {
        ObjectAlarm {
            alarms: self.clone(),
            object: object.to_owned(),
            clock,
        }
    }

    /// When the object's alarm is due, if one is set.
    pub fn due(&self, object: &str) -> Option<Timestamp> {
        self.0.set.borrow().get(object).map(|(at, _)| *at)
    }

    fn set(&self, object: String, at: Timestamp) {
        let number = {
            let mut sets = self.0.sets.borrow_mut();
            *sets += 1;
            *sets
        };
        self.0.set.borrow_mut().insert(object.clone(), (at, number));
        self.0.executor.spawn(self.clone().wait(object, at, number));
    }

    async fn wait(self, object: String, at: Timestamp, number: u64) {
        let executor = &self.0.executor;
        let late = if executor.rng().chance(*self.0.late.borrow()) {
            executor.rng().between(1, 60_000)
        } else {
            0
        };
        executor
            .sleep(at.since(SimClock::exact(executor).now()).get().max(0) + late)
            .await;
        let mut pause = RETRY_MILLIS;
        for _ in 0..TRIES {
            // Cleared before the handler runs, so that the handler can set the next one.
            let mine = self
                .0
                .set
                .borrow()
                .get(&object)
                .is_some_and(|(_, latest)| *latest == number);
            if !mine {
                return;
            }
            self.0.set.borrow_mut().remove(&object);
            let Some(wake) = self.0.wake.borrow().clone() else {
                return;
            };
            if wake(object.clone()).await {
                return;
            }
            self.0.set.borrow_mut().entry(object.clone()).or_insert((at, number));
            executor.sleep(pause).await;
            pause *= 2;
        }
        self.0.set.borrow_mut().remove(&object);
    }
}

/// The alarm of one object.
#[derive(Clone)]
pub struct ObjectAlarm {
    alarms: Alarms,
    object: String,
    clock: SimClock,
}

impl Alarm for ObjectAlarm {
    async fn set(&self, at: Timestamp) {
        let executor = &self.alarms.0.executor;
        // Storing the alarm takes a moment.
        executor.sleep(executor.rng().between(0, 2)).await;
        let due = SimClock::exact(executor).now().plus(at.since(self.clock.now()));
        self.alarms.set(self.object.clone(), due);
    }
}
