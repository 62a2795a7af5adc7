//! Panics on purpose.
#![allow(clippy::panic, reason = "provoking panics is what this is for")]

use worker::{Response, Result};

/// Panics when the checkpoint service answered `panic`: a panic at a named place, deep inside the service.
pub async fn panic_if_told(answer: Result<Response>) {
    let Ok(mut answer) = answer else { return };
    if answer.text().await.is_ok_and(|text| text == "panic") {
        panic!("provoked at a checkpoint");
    }
}

/// Panics in the middle of a request.
pub fn provoke() -> Result<String> {
    panic!("provoked by a request");
}
