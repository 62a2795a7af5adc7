//! Test bundles only: the conformance suites of the ports run where they count, and places that panic on demand.
//!
//! `GET /__probe/conformance/{sql|clock|entropy|object|queue}?run=NAME` answers a report, `/__probe/restart/before` and
//! `/after` stand around a restart, `/__probe/panic` and `/__probe/panic/object` panic, and so does any checkpoint whose
//! service answers `panic`. Compiled out of the shipped bundle.
#![allow(clippy::panic, reason = "provoking panics is what this is for")]

use std::cell::RefCell;

use conformance::Report;
use conformance::object::{Ask, Notes, Objects, Specimen};
use conformance::queue::{FAIL_ONCE, Inbox};
use domain::ports::Clock;
use domain::time::{Millis, Timestamp};
use worker::durable::State;
use worker::wasm_bindgen::JsValue;
use worker::{
    DurableObject, Env, MessageBatch, MessageExt, Method, Request, RequestInit, Response, Result, durable_object,
};

use crate::platform::alarm::ObjectAlarm;
use crate::platform::clock::WorkerClock;
use crate::platform::d1::D1;
use crate::platform::entropy::WorkerEntropy;
use crate::platform::queue::WorkerQueue;

/// The queue whose messages come here instead of to the jobs.
pub const QUEUE: &str = "hermod-probes";

/// How far ahead of a restart its alarm is set.
const AHEAD: Millis = Millis::from_secs(4);

/// The object that notes what the queue delivered.
const INBOX: &str = "inbox";

/// Panics when the checkpoint service answered `panic`: a panic at a named place, deep inside the service.
pub async fn panic_if_told(answer: Result<Response>) {
    let Ok(mut answer) = answer else { return };
    if answer.text().await.is_ok_and(|text| text == "panic") {
        panic!("provoked at a checkpoint");
    }
}

/// Answers the probe routes; `None` for every other request.
pub async fn respond(request: &Request, env: &Env) -> Option<Result<Response>> {
    let path = request.path();
    let rest = path.strip_prefix("/__probe/")?;
    let run = request
        .url()
        .ok()
        .and_then(|url| {
            url.query_pairs()
                .find(|(name, _)| name == "run")
                .map(|(_, run)| run.into_owned())
        })
        .unwrap_or_default();
    Some(answer(rest, &run, env).await)
}

async fn answer(probe: &str, run: &str, env: &Env) -> Result<Response> {
    let (clock, objects) = (WorkerClock, ProbeObjects(env));
    let object = format!("restart-{run}");
    let report = match probe {
        "panic" => panic!("provoked by a request"),
        "panic/object" => {
            objects.send("panicking", "/panic", String::new()).await?;
            Report::default()
        }
        "conformance/sql" => conformance::sql::suite(&D1::new(env.d1("DB")?)).await,
        "conformance/clock" => conformance::clock::suite(&clock).await,
        "conformance/entropy" => conformance::entropy::suite(&WorkerEntropy),
        "conformance/object" => conformance::object::suite(&objects, &clock, run).await,
        "conformance/queue" => {
            let queue = WorkerQueue::new(env.queue("PROBES")?);
            conformance::queue::suite(&queue, &objects, &clock, run).await
        }
        "restart/before" => conformance::object::before_restart(&objects, &clock, &object, AHEAD).await,
        "restart/after" => conformance::object::after_restart(&objects, &clock, &object, Millis::from_secs(90)).await,
        _ => return Response::error("no such probe", 404),
    };
    Response::from_json(&report)
}

/// Notes every message in the inbox object; a body that asks for it is not acknowledged the first time.
pub async fn consume(batch: &MessageBatch<String>, env: &Env) {
    let objects = ProbeObjects(env);
    for message in batch.raw_iter() {
        let body = message.body().as_string().unwrap_or_default();
        let first = !objects.deliveries().await.iter().any(|(seen, _)| *seen == body);
        let noted = objects.send(INBOX, "/deliver", body.clone()).await.is_ok();
        if !noted || (first && body.starts_with(FAIL_ONCE)) {
            message.retry();
        } else {
            message.ack();
        }
    }
}

/// Reaches the probe objects by name.
struct ProbeObjects<'a>(&'a Env);

impl ProbeObjects<'_> {
    async fn send(&self, object: &str, path: &str, body: String) -> Result<Notes> {
        let stub = self.0.durable_object("PROBE_OBJECTS")?.get_by_name(object)?;
        let mut init = RequestInit::new();
        init.with_method(Method::Post).with_body(Some(JsValue::from_str(&body)));
        let request = Request::new_with_init(&format!("http://object{path}"), &init)?;
        stub.fetch_with_request(request).await?.json().await
    }
}

impl Objects for ProbeObjects<'_> {
    async fn ask(&self, object: &str, ask: Ask) -> Option<Notes> {
        let body = serde_json::to_string(&ask).ok()?;
        self.send(object, "/ask", body).await.ok()
    }
}

impl Inbox for ProbeObjects<'_> {
    async fn deliveries(&self) -> Vec<(String, Timestamp)> {
        self.send(INBOX, "/deliveries", String::new()).await.unwrap_or_default()
    }
}

/// The object under test, which is also the inbox of the queue's test.
#[durable_object(alarm)]
pub struct ProbeObject {
    specimen: std::panic::AssertUnwindSafe<Specimen<WorkerClock, ObjectAlarm>>,
    inbox: std::panic::AssertUnwindSafe<RefCell<Notes>>,
}

impl DurableObject for ProbeObject {
    fn new(state: State, _env: Env) -> Self {
        let alarm = ObjectAlarm::new(state.into());
        Self {
            specimen: std::panic::AssertUnwindSafe(Specimen::new(WorkerClock, alarm)),
            inbox: std::panic::AssertUnwindSafe(RefCell::default()),
        }
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        let body = request.text().await?;
        match request.path().as_str() {
            "/panic" => panic!("provoked in an object"),
            "/deliver" => {
                self.inbox.borrow_mut().push((body, WorkerClock.now()));
                Response::from_json(&Notes::new())
            }
            "/deliveries" => Response::from_json(&*self.inbox.borrow()),
            _ => Response::from_json(&self.specimen.ask(serde_json::from_str(&body)?).await),
        }
    }

    async fn alarm(&self) -> Result<Response> {
        self.specimen.alarm().await;
        Response::ok("")
    }
}
