//! What the cron event does once a minute: the sweep, the funnel, and what has to be done now and then.

use domain::ids::HOME_SHARD;
use domain::keys::MasterSecrets;
use domain::ports::Clock;
use domain::rfc3339;
use domain::sql::Shard;
use queues::funnel::{self, Funnel};
use queues::rotation::{self, Rotated};
use queues::sweep::Swept;
use serde::Serialize;
use store::ledger::funnel::Stuck;
use worker::Env;

use super::clock::WorkerClock;
use super::d1::D1;
use super::entropy::WorkerEntropy;
use super::queue::WorkerQueue;
use super::{config, log};

/// Does all of it and logs what came of it. Nothing in it fails as a whole.
pub async fn run(env: &Env) {
    let (Some(sql), Ok(jobs), Ok(sends)) = (D1::bound(env), env.queue("JOBS"), env.queue("SENDS")) else {
        return log::fault("binding_missing", "DB, JOBS or SENDS");
    };
    let (jobs, sends) = (WorkerQueue::new(jobs), WorkerQueue::new(sends));
    let swept = queues::sweep::sweep(&sql, &jobs, &sends, &WorkerClock, &WorkerEntropy).await;
    tell_sweep(swept);
    // After the sweep, so that what it could put right is not reported.
    tell_funnel(funnel::reconcile(&sql, &WorkerClock, &WorkerEntropy).await);
    if !swept.skipped {
        keep_up(env, &sql).await;
    }
}

fn tell_sweep(swept: Swept) {
    #[derive(Serialize)]
    struct Line {
        event: &'static str,
        skipped: bool,
        untaken: usize,
        woken: usize,
        repaired: usize,
        expired: usize,
        cancelled: usize,
        exhausted: usize,
        ordered: usize,
        failed: usize,
    }
    let Swept {
        skipped,
        untaken,
        woken,
        repaired,
        expired,
        cancelled,
        exhausted,
        ordered,
        failed,
    } = swept;
    log::line(&Line {
        event: "sweep",
        skipped,
        untaken,
        woken,
        repaired,
        expired,
        cancelled,
        exhausted,
        ordered,
        failed,
    });
    if repaired > 0 {
        log::fault("turns_stranded", "turns waited for deliveries that had all ended");
    }
}

fn tell_funnel(funnel: Funnel) {
    #[derive(Serialize)]
    struct Line {
        event: &'static str,
        unanswered: u64,
        unwritten: u64,
        undelivered: u64,
        quarantined: u64,
        broken_gateways: u64,
        /// Since when the oldest of them has been on its way.
        oldest: Option<String>,
    }
    let counts = match funnel {
        Funnel::Counted(counts) => counts,
        Funnel::Skipped => return,
        Funnel::Failed => return log::fault("funnel_failed", "the database did not answer"),
    };
    let all = [counts.unanswered, counts.unwritten, counts.undelivered];
    log::line(&Line {
        event: "funnel",
        unanswered: counts.unanswered.count,
        unwritten: counts.unwritten.count,
        undelivered: counts.undelivered.count,
        quarantined: counts.quarantined,
        broken_gateways: counts.broken_gateways,
        oldest: all.iter().filter_map(|stuck| stuck.oldest).min().map(rfc3339::format),
    });
    if all.iter().any(|Stuck { count, .. }| *count > 0) {
        log::fault("funnel_not_empty", "messages are stuck; the line before says where");
    }
    if counts.broken_gateways > 0 {
        log::fault("gateways_broken", "a gateway's credential is not known to its provider");
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
