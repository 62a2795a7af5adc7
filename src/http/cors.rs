//! CORS on the wire; the decisions are in [`domain::http::cors`].

use domain::http::cors::{Ask, Decision, decide};

use super::app::App;
use super::methods_of;
use super::reply::Reply;
use super::request::Arrival;

fn decision(arrival: &Arrival) -> Decision {
    let Some(origin) = arrival.header("origin") else {
        return Decision::Continue(Vec::new());
    };
    let request_method = arrival.header("access-control-request-method");
    let request_headers = arrival.header("access-control-request-headers");
    let ask = Ask {
        origin: Some(&origin),
        method: arrival.method,
        request_method: request_method.as_deref(),
        request_headers: request_headers.as_deref(),
    };
    let methods = methods_of(&arrival.find());
    match App::of_isolate(&arrival.env) {
        Ok(app) => decide(ask, &app.settings.cors_origins, &methods),
        Err(_) => decide(ask, &[], &methods),
    }
}

/// The answer to a preflight, if this is one.
pub fn preflight(arrival: &Arrival) -> Option<Reply> {
    match decision(arrival) {
        Decision::Preflight(_) => Some(Reply::empty(204)),
        Decision::Continue(_) => None,
    }
}

/// The CORS headers of whatever the answer is.
pub fn headers(arrival: &Arrival) -> Vec<(&'static str, String)> {
    match decision(arrival) {
        Decision::Preflight(headers) | Decision::Continue(headers) => headers,
    }
}
