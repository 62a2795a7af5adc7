//! A Cloudflare queue.

use domain::ports::{Queue, QueueError};
use domain::time::Millis;
use worker::MessageBuilder;

/// The longest delay the platform takes, in seconds.
const DELAY_MAX_SECONDS: i64 = 86_400;

pub struct WorkerQueue(worker::Queue);

impl WorkerQueue {
    pub fn new(queue: worker::Queue) -> Self {
        Self(queue)
    }
}

impl Queue for WorkerQueue {
    async fn send(&self, body: String, delay: Millis) -> Result<(), QueueError> {
        let seconds = u32::try_from(delay.ceil_secs().min(DELAY_MAX_SECONDS)).unwrap_or(0);
        self.0
            .send(MessageBuilder::new(body).delay_seconds(seconds).build())
            .await
            .map_err(|_| QueueError)
    }
}
