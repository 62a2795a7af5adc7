//! The conformance suites on the adapters that ship.

use conformance::{Report, clock, entropy, object, queue, sql};
use domain::time::Millis;
use worker::{Env, Error, Result};

use super::Query;
use super::inbox::{IsolateInbox, ProbeQueue};
use super::specimen::Specimens;
use crate::platform::clock::WorkerClock;
use crate::platform::d1::D1;
use crate::platform::entropy::WorkerEntropy;
use crate::platform::queue::WorkerQueue;

/// Runs a suite and gives its report as JSON: an array of `{"name", "held", "seen"?}`.
pub async fn run(suite: &str, env: &Env, query: &Query) -> Result<String> {
    let millis = Millis::new(query.millis);
    let report = match suite {
        "conformance/clock" => clock::suite(&WorkerClock).await,
        "conformance/entropy" => entropy::suite(&WorkerEntropy),
        "conformance/sql" => sql::suite(&database(env)?).await,
        "conformance/sql/read_back" => sql::read_back(&database(env)?, &WorkerClock).await,
        "conformance/queue" => {
            let queue = ProbeQueue(WorkerQueue::new(env.queue("JOBS")?));
            queue::suite(&queue, &IsolateInbox, &WorkerClock, &query.run).await
        }
        "conformance/object" => object::suite(&Specimens(env), &WorkerClock, &query.run).await,
        "conformance/object/before_restart" => {
            object::before_restart(&Specimens(env), &WorkerClock, &query.object, millis).await
        }
        "conformance/object/after_restart" => {
            object::after_restart(&Specimens(env), &WorkerClock, &query.object, millis).await
        }
        _ => return Err(Error::RustError("no such suite".to_owned())),
    };
    text(&report)
}

fn database(env: &Env) -> Result<D1> {
    D1::bound(env).ok_or_else(|| Error::RustError("no database is bound".to_owned()))
}

fn text(report: &Report) -> Result<String> {
    Ok(serde_json::to_string(report)?)
}
