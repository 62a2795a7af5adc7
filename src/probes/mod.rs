//! What only test bundles have: ways to provoke a panic, and the conformance suites of the ports on the real platform.
//! Compiled out of the shipped bundle.

pub mod inbox;
mod panics;
mod specimen;
mod suites;

use domain::problem::{Code, Problem};
use serde::Deserialize;
use worker::{Env, Request};

pub use panics::panic_if_told;

use crate::http::{Handled, Reply};

/// The parameters of the probes that take any.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Query {
    /// Differs from that of earlier runs.
    run: String,
    /// The name of an object.
    object: String,
    /// How far ahead an alarm is set, or how long it is waited for.
    millis: i64,
    /// What to ask of an object, as JSON.
    ask: String,
}

/// Answers the probe routes; `None` for every other request.
pub async fn respond(env: &Env, request: &Request) -> Option<Handled> {
    let path = request.path();
    let probe = path.strip_prefix("/__probe/")?;
    let query: Query = request.query().unwrap_or_default();
    let text = match probe {
        "panic" => panics::provoke(),
        "panic/object" => specimen::panic(env).await,
        "specimen" => specimen::answer(env, &query).await,
        suite => suites::run(suite, env, &query).await,
    };
    Some(match text {
        Ok(text) => Ok(Reply::json_text(200, text)),
        Err(error) => {
            crate::platform::log::fault("probe_failed", &error.to_string());
            Err(Problem::new(Code::Internal))
        }
    })
}
