//! The consumer's side of the queue suite: messages of the suite are taken out of each batch before the jobs consumer
//! sees it, and written down in this isolate.

use std::cell::RefCell;

use conformance::queue::{FAIL_ONCE, Inbox};
use domain::ports::{Clock, Queue, QueueError};
use domain::time::{Millis, Timestamp};
use worker::{MessageExt, RawMessage};

use crate::platform::clock::WorkerClock;
use crate::platform::queue::WorkerQueue;

/// A body that begins with this belongs to the suite.
const PREFIX: &str = "probe:";

thread_local! {
    static DELIVERIES: RefCell<Vec<(String, Timestamp)>> = const { RefCell::new(Vec::new()) };
}

/// The jobs queue, its messages marked as the suite's.
pub struct ProbeQueue(pub WorkerQueue);

impl Queue for ProbeQueue {
    async fn send(&self, body: String, delay: Millis) -> Result<(), QueueError> {
        self.0.send(format!("{PREFIX}{body}"), delay).await
    }
}

/// What this isolate's consumer was handed.
pub struct IsolateInbox;

impl Inbox for IsolateInbox {
    async fn deliveries(&self) -> Vec<(String, Timestamp)> {
        DELIVERIES.with_borrow(Clone::clone)
    }
}

/// Takes the suite's messages and gives back all others.
pub fn without_probes(messages: Vec<RawMessage>) -> Vec<RawMessage> {
    messages.into_iter().filter(|message| !take(message)).collect()
}

fn take(message: &RawMessage) -> bool {
    let Some(text) = message.body().as_string() else {
        return false;
    };
    let Some(body) = text.strip_prefix(PREFIX) else {
        return false;
    };
    let seen_before = DELIVERIES.with_borrow_mut(|deliveries| {
        let seen = deliveries.iter().any(|(found, _)| found == body);
        deliveries.push((body.to_owned(), WorkerClock.now()));
        seen
    });
    if body.starts_with(FAIL_ONCE) && !seen_before {
        message.retry();
    } else {
        message.ack();
    }
    true
}
