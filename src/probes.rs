//! What only test bundles have: ways to provoke a panic. Compiled out of the shipped bundle.
#![allow(clippy::panic, reason = "provoking panics is what this is for")]

use worker::{Request, Response, Result};

/// Panics when the checkpoint service answered `panic`: a panic at a named place, deep inside the service.
pub async fn panic_if_told(answer: Result<Response>) {
    let Ok(mut answer) = answer else { return };
    if answer.text().await.is_ok_and(|text| text == "panic") {
        panic!("provoked at a checkpoint");
    }
}

/// Answers the probe routes; `None` for every other request.
pub async fn respond(request: &Request) -> Option<Result<Response>> {
    match request.path().as_str() {
        "/__probe/panic" => panic!("provoked by a request"),
        _ => None,
    }
}
