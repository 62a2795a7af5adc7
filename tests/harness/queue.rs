//! A queue that keeps its one promise: at least once, in any order, or, as rarely happens, not at all.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use domain::ports::{LocalFuture, Queue, QueueError};
use domain::time::Millis;

use crate::executor::Executor;

/// Handles one message; the answer says whether it was acknowledged.
pub type Consumer = Rc<dyn Fn(String) -> LocalFuture<bool>>;

/// How often a message is delivered before it is set aside.
const DELIVERIES: u32 = 4;

/// How often each thing goes wrong, out of 1,000 messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QueueRates {
    /// The sender is told that it was perhaps not taken.
    pub refused: u32,
    /// The sender is told that it was taken, and it never arrives.
    pub lost: u32,
    /// It arrives twice.
    pub doubled: u32,
    /// It arrives up to a minute late.
    pub late: u32,
}

/// The queue and its consumer. Clones are the same.
#[derive(Clone)]
pub struct SimQueue(Rc<Inner>);

struct Inner {
    executor: Executor,
    rates: Cell<QueueRates>,
    consumer: RefCell<Option<Consumer>>,
    dead: RefCell<Vec<String>>,
}

impl SimQueue {
    pub fn new(executor: Executor) -> Self {
        Self(Rc::new(Inner {
            executor,
            rates: Cell::default(),
            consumer: RefCell::default(),
            dead: RefCell::default(),
        }))
    }

    pub fn set_rates(&self, rates: QueueRates) {
        self.0.rates.set(rates);
    }

    /// Who handles the messages. Holds the world, so [`SimQueue::shut_down`] must let go of it.
    pub fn on_message(&self, consumer: Consumer) {
        *self.0.consumer.borrow_mut() = Some(consumer);
    }

    pub fn shut_down(&self) {
        *self.0.consumer.borrow_mut() = None;
    }

    /// Messages that no delivery got acknowledged.
    pub fn dead_letters(&self) -> Vec<String> {
        self.0.dead.borrow().clone()
    }

    async fn deliver(self, body: String, delay: i64) {
        let executor = &self.0.executor;
        executor.sleep(delay).await;
        for delivery in 0..DELIVERIES {
            let Some(consumer) = self.0.consumer.borrow().clone() else {
                return;
            };
            if consumer(body.clone()).await {
                return;
            }
            executor.sleep(1_000 << delivery).await;
        }
        self.0.dead.borrow_mut().push(body);
    }
}

impl Queue for SimQueue {
    async fn send(&self, body: String, delay: Millis) -> Result<(), QueueError> {
        let (executor, rates) = (&self.0.executor, self.0.rates.get());
        let rng = executor.rng();
        executor.sleep(rng.between(0, 10)).await;
        let refused = rng.chance(rates.refused);
        let copies = if rng.chance(rates.lost) {
            0
        } else {
            1 + u32::from(rng.chance(rates.doubled))
        };
        for _ in 0..copies {
            let late = if rng.chance(rates.late) {
                rng.between(0, 60_000)
            } else {
                rng.between(0, 50)
            };
            executor.spawn(self.clone().deliver(body.clone(), delay.get().max(0) + late));
        }
        if refused { Err(QueueError) } else { Ok(()) }
    }
}
