//! The `UserTurns` object on the Workers runtime: the ports it is built on and the two calls it takes.

use std::cell::OnceCell;
use std::rc::Rc;

use domain::http::admission::Bulkhead;
use domain::ids::UserId;
use domain::keys::MasterSecrets;
use domain::turn::protocol::{Command, Frame, ObjectRequest};
use futures::StreamExt;
use futures::channel::mpsc;
use objects::model::{Limited, Provider};
use objects::ports::Ports;
use objects::user_turns::{Listener, TurnConfig, UserTurns};
use worker::durable::State;
use worker::{Env, Request, Response};

use super::alarm::ObjectAlarm;
use super::checkpoint::ServiceCheckpoint;
use super::clock::WorkerClock;
use super::d1::D1;
use super::entropy::WorkerEntropy;
use super::fetch::WorkerHttp;
use super::queue::WorkerQueue;
use super::spawn::ObjectSpawn;
use super::{config, log};

thread_local! {
    // All objects of an isolate share the places, since they share its connections.
    static MODEL_PLACES: OnceCell<Bulkhead> = const { OnceCell::new() };
}

/// The ports of an object.
pub struct ObjectPorts {
    sql: D1,
    clock: WorkerClock,
    entropy: WorkerEntropy,
    spawn: ObjectSpawn,
    alarm: ObjectAlarm,
    checkpoint: ServiceCheckpoint,
    model: Limited<Provider<WorkerHttp, WorkerClock>, WorkerClock>,
    sends: WorkerQueue,
}

impl Ports for ObjectPorts {
    type Sql = D1;
    type Clock = WorkerClock;
    type Entropy = WorkerEntropy;
    type Spawn = ObjectSpawn;
    type Alarm = ObjectAlarm;
    type Checkpoint = ServiceCheckpoint;
    type Model = Limited<Provider<WorkerHttp, WorkerClock>, WorkerClock>;
    type Queue = WorkerQueue;

    fn sql(&self) -> &D1 {
        &self.sql
    }
    fn clock(&self) -> &WorkerClock {
        &self.clock
    }
    fn entropy(&self) -> &WorkerEntropy {
        &self.entropy
    }
    fn spawn(&self) -> &ObjectSpawn {
        &self.spawn
    }
    fn alarm(&self) -> &ObjectAlarm {
        &self.alarm
    }
    fn checkpoint(&self) -> &ServiceCheckpoint {
        &self.checkpoint
    }
    fn model(&self) -> &Self::Model {
        &self.model
    }
    fn sends(&self) -> &WorkerQueue {
        &self.sends
    }
}

/// One user's object, or why it cannot work.
pub struct UserTurnsObject(Option<Rc<UserTurns<ObjectPorts>>>);

impl UserTurnsObject {
    /// Builds the object; a configuration that cannot be used is logged and answered with 503.
    pub fn new(state: State, env: &Env) -> Self {
        let built = build(state, env);
        if let Err(problem) = &built {
            log::fault("object_not_configured", problem);
        }
        Self(built.ok())
    }

    /// Takes a command and answers with frames, one JSON document a line, as they come.
    pub async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let Some(object) = &self.0 else {
            return Response::error("not configured", 503);
        };
        let body = request.text().await?;
        let Ok(ObjectRequest::V1(command)) = serde_json::from_str(&body) else {
            return Response::error("not a command of a known version", 400);
        };
        match command {
            Command::Wake => {
                object.wake();
                Response::empty()
            }
            Command::Chat(command) => {
                let (sender, frames) = mpsc::unbounded();
                let listener = Listener::new(sender, command.stream);
                object.receive(*command, listener);
                Response::from_stream(frames.map(|frame| line(&frame)))
            }
        }
    }

    pub async fn alarm(&self) -> worker::Result<Response> {
        if let Some(object) = &self.0 {
            object.alarm().await;
        }
        Response::empty()
    }
}

fn line(frame: &Frame) -> worker::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(frame)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn build(state: State, env: &Env) -> Result<Rc<UserTurns<ObjectPorts>>, &'static str> {
    let settings = config::read(env).map_err(|error| error.variable)?;
    let secrets = MasterSecrets::from_json(settings.master_secrets.reveal()).map_err(|_| "MASTER_SECRETS")?;
    let name = state.id().name().ok_or("an object without a name")?;
    let user = UserId::parse(&name).map_err(|_| "an object that is no user's")?;
    let database = D1::bound(env).ok_or("DB")?;
    let sends = env.queue("SENDS").map_err(|_| "SENDS")?;
    let state = Rc::new(state);
    let limits = TurnConfig {
        model_deadline: settings.model_deadline,
        run_lease_slack: settings.run_lease_slack,
        line_max: settings.line_max,
        ..TurnConfig::default()
    };
    let places = MODEL_PLACES.with(|places| places.get_or_init(|| Bulkhead::new(settings.model_calls_max)).clone());
    let ports = ObjectPorts {
        sql: database,
        clock: WorkerClock,
        entropy: WorkerEntropy,
        spawn: ObjectSpawn::new(Rc::clone(&state)),
        alarm: ObjectAlarm::new(state),
        checkpoint: ServiceCheckpoint::new(env),
        model: Limited::new(
            Provider::new(settings.model, WorkerHttp, WorkerClock),
            WorkerClock,
            places,
        ),
        sends: WorkerQueue::new(sends),
    };
    Ok(UserTurns::new(ports, user, Rc::new(secrets), limits))
}
