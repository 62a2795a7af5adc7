//! The object of the object suite, as a Durable Object class of its own.

use std::panic::AssertUnwindSafe;
use std::rc::Rc;

use conformance::object::{self, Ask, Notes, Objects};
use worker::durable::State;
use worker::wasm_bindgen::JsValue;
use worker::{DurableObject, Env, Method, Request, RequestInit, Response, Result, durable_object};

use super::{Query, panics};
use crate::platform::alarm::ObjectAlarm;
use crate::platform::clock::WorkerClock;

/// The object under test.
#[durable_object(alarm)]
pub struct Specimen(AssertUnwindSafe<object::Specimen<WorkerClock, ObjectAlarm>>);

impl DurableObject for Specimen {
    fn new(state: State, _env: Env) -> Self {
        let alarm = ObjectAlarm::new(Rc::new(state));
        Self(AssertUnwindSafe(object::Specimen::new(WorkerClock, alarm)))
    }

    async fn fetch(&self, mut request: Request) -> Result<Response> {
        if request.path() == "/panic" {
            panics::provoke()?;
        }
        let ask: Ask = request.json().await?;
        Response::from_json(&self.0.ask(ask).await)
    }

    async fn alarm(&self) -> Result<Response> {
        self.0.alarm().await;
        Response::empty()
    }
}

/// The objects under test, by name.
pub struct Specimens<'a>(pub &'a Env);

impl Specimens<'_> {
    async fn send(&self, object: &str, ask: &Ask) -> Result<Notes> {
        self.post(object, "/", &serde_json::to_string(ask)?).await
    }

    async fn post(&self, object: &str, path: &str, body: &str) -> Result<Notes> {
        let stub = self.0.durable_object("SPECIMENS")?.get_by_name(object)?;
        let mut init = RequestInit::new();
        init.with_method(Method::Post).with_body(Some(JsValue::from_str(body)));
        let request = Request::new_with_init(&format!("http://object{path}"), &init)?;
        stub.fetch_with_request(request).await?.json().await
    }
}

impl Objects for Specimens<'_> {
    async fn ask(&self, object: &str, ask: Ask) -> Option<Notes> {
        self.send(object, &ask).await.ok()
    }
}

/// Asks one object for one thing; its notes as JSON.
pub async fn answer(env: &Env, query: &Query) -> Result<String> {
    let ask: Ask = serde_json::from_str(&query.ask)?;
    let notes = Specimens(env).send(&query.object, &ask).await?;
    Ok(serde_json::to_string(&notes)?)
}

/// Makes an object panic. An error, then, unless the panic was lost.
pub async fn panic(env: &Env) -> Result<String> {
    Specimens(env).post("panicking", "/panic", "").await?;
    Ok("[]".to_owned())
}
