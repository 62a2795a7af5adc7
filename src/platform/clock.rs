//! The runtime's clock. In production it stands still while code computes and moves on at I/O.

use std::time::Duration;

use domain::ports::Clock;
use domain::time::{Millis, Timestamp};

#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerClock;

impl Clock for WorkerClock {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(i64::try_from(worker::Date::now().as_millis()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, duration: Millis) {
        // setTimeout takes a 32-bit number of milliseconds; nothing here sleeps for 24 days.
        let millis = u64::try_from(duration.get().clamp(0, i64::from(i32::MAX))).unwrap_or(0);
        worker::Delay::from(Duration::from_millis(millis)).await;
    }
}
