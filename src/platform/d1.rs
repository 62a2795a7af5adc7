//! D1 behind the `Sql` port: one `batch` call for each batch, sent to the primary.

use std::cell::RefCell;
use std::rc::Rc;

use domain::http::admission::Breaker;
use domain::ports::{Clock, Sql};
use domain::sql::{NotStarted, Outcome, PARAMETERS_MAX, Refusal, Shard, Statement, Value};
use domain::time::Millis;
use futures::future::{Either, select};
use worker::Env;
use worker::js_sys::{self, Array, JSON, Promise, Uint8Array};
use worker::wasm_bindgen::{self, JsCast, JsValue, prelude::wasm_bindgen};
use worker::wasm_bindgen_futures::JsFuture;

use super::clock::WorkerClock;
use super::{d1_wire, log};

// The crate's own wrapper reads results cell by cell and panics where `prepare` throws; this one does neither.
#[wasm_bindgen]
extern "C" {
    #[derive(Debug, Clone)]
    type Database;
    #[wasm_bindgen(structural, method, catch)]
    fn prepare(this: &Database, sql: &str) -> Result<Prepared, JsValue>;
    #[wasm_bindgen(structural, method, catch)]
    fn batch(this: &Database, statements: &Array) -> Result<Promise, JsValue>;

    #[derive(Debug, Clone)]
    type Prepared;
    #[wasm_bindgen(structural, method, catch, variadic)]
    fn bind(this: &Prepared, values: &Array) -> Result<Prepared, JsValue>;
}

/// How long a batch may stay unanswered.
const SILENCE_MAX: Millis = Millis::from_secs(35);

/// The database that holds every shard today.
#[derive(Debug, Clone)]
pub struct D1(Database);

impl D1 {
    /// The database that is bound as `DB`, if there is one.
    pub fn bound(env: &Env) -> Option<Self> {
        // By its methods, not by the name of its class: a recorder or another runtime's stand-in serves as well.
        let binding = js_sys::Reflect::get(env, &JsValue::from_str("DB")).ok()?;
        binding.is_object().then(|| Self(binding.unchecked_into()))
    }

    fn prepare(&self, statement: &Statement) -> Result<Prepared, JsValue> {
        let prepared = self.0.prepare(statement.sql)?;
        if statement.binds.is_empty() {
            return Ok(prepared);
        }
        prepared.bind(&statement.binds.iter().map(bound).collect::<Array>())
    }

    async fn run(&self, statements: &[Statement]) -> Result<String, JsValue> {
        let prepared = Array::new();
        for statement in statements {
            prepared.push(self.prepare(statement)?.as_ref());
        }
        let results = JsFuture::from(self.0.batch(&prepared)?).await?;
        // One crossing for all rows is much cheaper than one for each cell.
        JSON::stringify(&results).map(String::from)
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "safe integers are exactly those that a double holds"
)]
fn bound(value: &Value) -> JsValue {
    match value {
        Value::Null => JsValue::NULL,
        Value::Integer(integer) => JsValue::from_f64(integer.get() as f64),
        Value::Text(text) => JsValue::from_str(text),
        Value::Blob(bytes) => Uint8Array::from(bytes.as_slice()).into(),
    }
}

/// The database, watched for reports of overload by every request of the isolate.
#[derive(Debug, Clone)]
pub struct WatchedSql {
    inner: D1,
    breaker: Rc<RefCell<Breaker>>,
}

impl WatchedSql {
    pub fn new(inner: D1, breaker: Rc<RefCell<Breaker>>) -> Self {
        Self { inner, breaker }
    }
}

impl Sql for WatchedSql {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        let outcome = self.inner.batch(shard, statements).await;
        self.breaker.borrow_mut().observe(&outcome, WorkerClock.now());
        outcome
    }
}

impl Sql for D1 {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        // Every shard is this database; ids of other shards do not parse.
        let (Shard::Directory | Shard::User(_)) = shard;
        let names = || {
            statements
                .iter()
                .map(|statement| statement.name)
                .collect::<Vec<_>>()
                .join(",")
        };
        if statements.is_empty() {
            return Outcome::Committed(Vec::new());
        }
        if statements
            .iter()
            .any(|statement| statement.binds.len() > PARAMETERS_MAX)
        {
            log::fault("sql_malformed", &names());
            return Outcome::Refused(Refusal::Malformed);
        }
        let reads_only = d1_wire::reads_only(&statements);
        // The platform ends a batch after thirty seconds; one of which nothing more is heard must not hold its caller.
        let late = std::pin::pin!(WorkerClock.sleep(SILENCE_MAX));
        let ran = match select(std::pin::pin!(self.run(&statements)), late).await {
            Either::Left((ran, _)) => ran,
            Either::Right(_) => {
                log::warning("sql_silent", &names());
                return if reads_only {
                    Outcome::NotStarted(NotStarted::Unavailable)
                } else {
                    Outcome::Unknown
                };
            }
        };
        match ran {
            Ok(json) => match d1_wire::read(&json, statements.len()) {
                Ok(results) => Outcome::Committed(results),
                Err(d1_wire::Unreadable) => {
                    log::fault("sql_unreadable", &names());
                    // It ran; a write must be looked up by its key rather than repeated.
                    if reads_only {
                        Outcome::Refused(Refusal::Malformed)
                    } else {
                        Outcome::Unknown
                    }
                }
            },
            Err(error) => {
                let outcome = d1_wire::classify(&message(&error), reads_only);
                match &outcome {
                    Outcome::Refused(Refusal::Malformed) => log::fault("sql_malformed", &names()),
                    Outcome::Refused(Refusal::Constraint) => log::warning("sql_constraint", &names()),
                    Outcome::Unknown => log::warning("sql_reply_lost", &names()),
                    Outcome::NotStarted(NotStarted::Overloaded) => log::warning("sql_overloaded", &names()),
                    Outcome::NotStarted(NotStarted::Unavailable) => log::warning("sql_unavailable", &names()),
                    Outcome::Committed(_) | Outcome::Refused(Refusal::Guard(_)) => {}
                }
                outcome
            }
        }
    }
}

fn message(error: &JsValue) -> String {
    error
        .dyn_ref::<js_sys::Error>()
        .map(|error| String::from(error.message()))
        .unwrap_or_default()
}
