//! The queue and cron events on the Workers runtime. Neither ever fails as a whole.

use domain::ids::HOME_SHARD;
use domain::keys::MasterSecrets;
use domain::ports::Clock;
use domain::sql::Shard;
use domain::time::Millis;
use queues::jobs::{self, Acked, Disposition};
use queues::rotation::{self, Rotated};
use serde::Serialize;
use worker::{Env, MessageBatch, MessageExt, QueueRetryOptionsBuilder};

use super::clock::WorkerClock;
use super::d1::D1;
use super::entropy::WorkerEntropy;
use super::object_client::WorkerObjects;
use super::queue::WorkerQueue;
use super::{config, log};

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

/// Sweeps once and logs what came of it.
pub async fn sweep(env: &Env) {
    let (Some(sql), Ok(queue)) = (D1::bound(env), env.queue("JOBS")) else {
        return log::fault("binding_missing", "DB or JOBS");
    };
    let swept = queues::sweep::sweep(&sql, &WorkerQueue::new(queue), &WorkerClock, &WorkerEntropy).await;
    #[derive(Serialize)]
    struct Line {
        event: &'static str,
        skipped: bool,
        untaken: usize,
        woken: usize,
        failed: usize,
    }
    let queues::sweep::Swept {
        skipped,
        untaken,
        woken,
        failed,
    } = swept;
    log::line(&Line {
        event: "sweep",
        skipped,
        untaken,
        woken,
        failed,
    });
    if !skipped {
        keep_up(env, &sql).await;
    }
}

/// What has to be done now and then: purging, and wrapping data keys anew after a rotation.
async fn keep_up(env: &Env, sql: &D1) {
    if !queues::purge::purge(sql, WorkerClock.now()).await {
        log::fault("purge_failed", "the database did not take it");
    }
    let secrets = config::read(env).ok();
    let secrets = secrets.and_then(|settings| MasterSecrets::from_json(settings.master_secrets.reveal()).ok());
    let Some(secrets) = secrets else {
        return log::fault("settings_refused", "MASTER_SECRETS");
    };
    let rotated = rotation::rotate(sql, Shard::User(HOME_SHARD), &secrets, &WorkerEntropy).await;
    if rotated == Rotated::default() {
        return;
    }
    let Rotated {
        rewrapped,
        unreadable,
        failed,
    } = rotated;
    #[derive(Serialize)]
    struct Line {
        event: &'static str,
        rewrapped: u32,
        unreadable: u32,
        failed: bool,
    }
    log::line(&Line {
        event: "rotation",
        rewrapped,
        unreadable,
        failed,
    });
}
