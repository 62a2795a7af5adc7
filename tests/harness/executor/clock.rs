//! The simulated wall clock.

use std::cell::Cell;
use std::rc::Rc;

use domain::ports::Clock;
use domain::time::{Millis, Timestamp};

use super::Executor;

/// When every world begins: 2026-07-11T00:00:00Z.
pub const WORLD_START: i64 = 1_783_728_000_000;

/// A wall clock that may be wrong and may jump; waits are by the world's own time.
#[derive(Clone)]
pub struct SimClock {
    executor: Executor,
    skew: Rc<Cell<i64>>,
}

impl SimClock {
    pub(super) fn new(executor: Executor, skew: Rc<Cell<i64>>) -> Self {
        Self { executor, skew }
    }

    /// A clock that is always right.
    pub fn exact(executor: &Executor) -> Self {
        Self::new(executor.clone(), Rc::default())
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(WORLD_START + self.executor.elapsed() + self.skew.get())
    }

    async fn sleep(&self, duration: Millis) {
        self.executor.sleep(duration.get()).await;
    }
}
