//! What sending is built on in the Workers runtime.

use std::cell::OnceCell;
use std::rc::Rc;

use domain::keys::MasterSecrets;
use domain::telegram::send::Api;
use queues::deliver::{Alert, SendPorts};
use worker::Env;

use super::checkpoint::ServiceCheckpoint;
use super::clock::WorkerClock;
use super::d1::D1;
use super::entropy::WorkerEntropy;
use super::fetch::WorkerHttp;
use super::queue::WorkerQueue;
use super::{config, log};

struct Config {
    secrets: MasterSecrets,
    telegram: Api,
}

thread_local! {
    // The variables of an isolate never change.
    static CONFIG: OnceCell<Option<Rc<Config>>> = const { OnceCell::new() };
}

fn configured(env: &Env) -> Option<Rc<Config>> {
    let load = || {
        let settings = config::read(env).ok()?;
        let secrets = MasterSecrets::from_json(settings.master_secrets.reveal()).ok()?;
        Some(Rc::new(Config {
            secrets,
            telegram: settings.telegram,
        }))
    };
    CONFIG.with(|config| config.get_or_init(load).clone())
}

/// The ports of one batch.
pub struct WorkerSends {
    sql: D1,
    queue: WorkerQueue,
    checkpoint: ServiceCheckpoint,
    config: Rc<Config>,
}

impl WorkerSends {
    /// Or the name of what is missing.
    pub fn new(env: &Env) -> Result<Self, &'static str> {
        Ok(Self {
            sql: D1::bound(env).ok_or("DB")?,
            queue: WorkerQueue::new(env.queue("SENDS").map_err(|_| "SENDS")?),
            checkpoint: ServiceCheckpoint::new(env),
            config: configured(env).ok_or("settings")?,
        })
    }
}

impl SendPorts for WorkerSends {
    type Sql = D1;
    type Clock = WorkerClock;
    type Entropy = WorkerEntropy;
    type Http = WorkerHttp;
    type Queue = WorkerQueue;
    type Checkpoint = ServiceCheckpoint;

    fn sql(&self) -> &D1 {
        &self.sql
    }
    fn clock(&self) -> &WorkerClock {
        &WorkerClock
    }
    fn entropy(&self) -> &WorkerEntropy {
        &WorkerEntropy
    }
    fn http(&self) -> &WorkerHttp {
        &WorkerHttp
    }
    fn sends(&self) -> &WorkerQueue {
        &self.queue
    }
    fn checkpoint(&self) -> &ServiceCheckpoint {
        &self.checkpoint
    }
    fn secrets(&self) -> &MasterSecrets {
        &self.config.secrets
    }
    fn telegram(&self) -> &Api {
        &self.config.telegram
    }
    fn alert(&self, alert: Alert) {
        log::fault(alert.as_str(), alert.about());
    }
}
