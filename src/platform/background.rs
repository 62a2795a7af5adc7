//! The queue event on the Workers runtime. It never fails as a whole.

use domain::time::Millis;
use queues::jobs::{self, Acked, Disposition};
use worker::{Env, MessageBatch, MessageExt, QueueRetryOptionsBuilder};

use super::d1::D1;
use super::log;
use super::object_client::WorkerObjects;

/// Answers each message of a batch for itself: one that cannot be read must not take the others with it.
pub async fn consume(batch: &MessageBatch<String>, env: &Env) {
    let messages: Vec<_> = batch.raw_iter().collect();
    #[cfg(feature = "probes")]
    let messages = crate::probes::inbox::without_probes(messages);
    // A body that is no text is as unreadable as a text that is no message.
    let bodies: Vec<String> = messages
        .iter()
        .map(|message| message.body().as_string().unwrap_or_default())
        .collect();
    let dispositions = match D1::bound(env) {
        Some(database) => jobs::consume(&bodies, &database, &WorkerObjects(env)).await,
        None => {
            log::fault("binding_missing", "DB");
            vec![Disposition::Retry; bodies.len()]
        }
    };
    for (message, disposition) in messages.iter().zip(dispositions) {
        match disposition {
            Disposition::Ack(Acked::Done) => message.ack(),
            Disposition::Ack(Acked::Undecodable) => {
                log::fault("message_undecodable", "a message of the jobs queue was dropped");
                message.ack();
            }
            Disposition::Ack(Acked::OldEpoch) => {
                log::fault("message_of_old_epoch", "a message of the jobs queue was dropped");
                message.ack();
            }
            Disposition::Retry => message.retry_with_options(&retry_after(jobs::RETRY_DELAY)),
        }
    }
}

fn retry_after(delay: Millis) -> worker::QueueRetryOptions {
    let seconds = u32::try_from(delay.ceil_secs()).unwrap_or(u32::MAX);
    QueueRetryOptionsBuilder::new().with_delay_seconds(seconds).build()
}
