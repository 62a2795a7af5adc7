//! The queue event on the Workers runtime. It never fails as a whole.

use domain::outbox::SendChannel;
use domain::time::Millis;
use queues::deliver::{self, Sums};
use queues::inbox::Inbox;
use queues::jobs::{self, Acked, Disposition};
use serde::Serialize;
use worker::{Env, MessageBatch, MessageExt, QueueRetryOptionsBuilder};

use super::d1::D1;
use super::log;
use super::object_client::WorkerObjects;
use super::sends::WorkerSends;

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
    let queue = batch.queue();
    let dispositions = match Inbox::of(&queue) {
        Some(Inbox::Jobs) => run_jobs(&bodies, env).await,
        Some(Inbox::Sends) => send(&bodies, env).await,
        Some(Inbox::Dead) => {
            for _ in &bodies {
                log::fault("dead_letter", &queue);
            }
            vec![Disposition::Ack(Acked::Done); bodies.len()]
        }
        None => {
            log::fault("queue_unknown", &queue);
            vec![Disposition::Retry; bodies.len()]
        }
    };
    for (message, disposition) in messages.iter().zip(dispositions) {
        match disposition {
            Disposition::Ack(Acked::Done) => message.ack(),
            Disposition::Ack(Acked::Undecodable) => {
                log::fault("message_undecodable", &queue);
                message.ack();
            }
            Disposition::Ack(Acked::OldEpoch) => {
                log::fault("message_of_old_epoch", &queue);
                message.ack();
            }
            Disposition::Retry => message.retry_with_options(&retry_after(jobs::RETRY_DELAY)),
        }
    }
}

async fn run_jobs(bodies: &[String], env: &Env) -> Vec<Disposition> {
    match D1::bound(env) {
        Some(database) => jobs::consume(bodies, &database, &WorkerObjects(env)).await,
        None => {
            log::fault("binding_missing", "DB");
            vec![Disposition::Retry; bodies.len()]
        }
    }
}

/// What one batch did.
#[derive(Serialize)]
struct Line {
    event: &'static str,
    channel: &'static str,
    #[serde(flatten)]
    sums: Sums,
}

async fn send(bodies: &[String], env: &Env) -> Vec<Disposition> {
    let ports = match WorkerSends::new(env) {
        Ok(ports) => ports,
        Err(missing) => {
            log::fault("binding_missing", missing);
            return vec![Disposition::Retry; bodies.len()];
        }
    };
    let (dispositions, sums) = deliver::consume(bodies, &ports).await;
    if sums != Sums::default() {
        log::line(&Line {
            event: "sends",
            channel: SendChannel::Telegram.as_str(),
            sums,
        });
    }
    dispositions
}

fn retry_after(delay: Millis) -> worker::QueueRetryOptions {
    let seconds = u32::try_from(delay.ceil_secs()).unwrap_or(u32::MAX);
    QueueRetryOptionsBuilder::new().with_delay_seconds(seconds).build()
}
