//! The HTTP boundary: one place in which every request is routed, limited, authenticated, handled and answered.

mod app;
mod auth_token;
mod authenticate;
mod batches;
mod chat;
mod cors;
mod health;
mod jwks;
mod link;
mod openapi;
mod outbox;
mod problem;
mod provision;
mod reply;
mod request;
mod telegram;
mod turns;
mod upstream_keys;

use std::panic::AssertUnwindSafe;
use std::pin::Pin;

use domain::http::routes::{Endpoint, Match, Method, Route};
use domain::problem::{Code, Problem};
use futures::FutureExt;
use serde::Serialize;
use worker::{Context, Env, Request, Response};

pub use app::App;
pub use reply::{Body, Reply};
pub use request::{Arrival, Call};

use crate::platform::log;

/// What a handler gives back. A problem becomes `application/problem+json`.
pub type Handled = Result<Reply, Problem>;

/// Answers one request. Whatever goes wrong becomes a problem.
pub async fn dispatch(request: Request, env: Env, context: Context) -> worker::Result<Response> {
    let arrival = Arrival::new(&request, env, context);
    let matched = arrival.find();
    // A panic that unwinds ends this request only, and is answered like any other fault.
    // Boxed, because the Wasm back end makes invalid code of a whole state machine inside a landing pad.
    let task: Pin<Box<dyn Future<Output = Handled> + '_>> = Box::pin(route(&arrival, &matched, request));
    let outcome = AssertUnwindSafe(task)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| Err(Problem::new(Code::Internal)));
    if let Err(problem) = &outcome {
        app::learn(&arrival, problem.code);
    }
    let (reply, code) = match outcome {
        Ok(reply) => (reply, None),
        Err(problem) => (problem::reply(&problem, &arrival, &matched), Some(problem.code)),
    };
    write_log_line(&arrival, &matched, reply.status, code);
    reply.into_response(&arrival)
}

async fn route(arrival: &Arrival, matched: &Match, request: Request) -> Handled {
    #[cfg(feature = "probes")]
    if let Some(answer) = crate::probes::respond(&arrival.env, &request).await {
        return answer;
    }
    if let Some(preflight) = cors::preflight(arrival) {
        return Ok(preflight);
    }
    match matched {
        Match::Found(
            Route {
                endpoint: Endpoint::Live,
                ..
            },
            _,
        ) => Ok(health::live()),
        Match::Found(route, params) => {
            let app = App::of_isolate(&arrival.env)?;
            let call = Call::admit(app, arrival, route, params.clone(), request).await?;
            handle(call).await
        }
        Match::MethodNotAllowed(_) => Err(Problem::new(Code::MethodNotAllowed)),
        Match::NotFound => Err(Problem::new(Code::NotFound)),
        Match::Malformed => Err(Problem::new(Code::InvalidRequest).with_detail("The path is not validly encoded.")),
    }
}

/// The handlers.
async fn handle(call: Call) -> Handled {
    match call.route.endpoint {
        Endpoint::RemovedToken => Err(Problem::new(Code::EndpointRemoved)),
        Endpoint::Live => Ok(health::live()),
        Endpoint::Ready => health::ready(&call).await,
        Endpoint::Version => health::version(&call).await,
        Endpoint::OpenApi => Ok(openapi::document()),
        Endpoint::ExchangeToken => auth_token::exchange(&call).await,
        Endpoint::Jwks => Ok(jwks::document(&call)),
        Endpoint::Chat => chat::chat(call).await,
        Endpoint::ReadTurn => turns::read_turn(call).await,
        Endpoint::AckTurn => turns::acknowledge(call).await,
        Endpoint::PutFamily
        | Endpoint::PutUser
        | Endpoint::PutIdentity
        | Endpoint::PutGateway
        | Endpoint::PutUpstream
        | Endpoint::PutAddress
        | Endpoint::PutSwitch
        | Endpoint::Revoke => provision::run(&call).await,
        Endpoint::ClaimOutbox => outbox::claim(&call).await,
        Endpoint::BeginAttempt => outbox::attempt(&call).await,
        Endpoint::ConfirmAttempt => outbox::confirm(&call).await,
        Endpoint::FailAttempt => outbox::fail(&call).await,
        Endpoint::Telegram => telegram::webhook(call).await,
        Endpoint::LinkChannel => link::link(&call).await,
        Endpoint::UnlinkChannel => link::unlink(&call).await,
    }
}

/// One line for each request. The route stands by its pattern: no path value, query or identity.
fn write_log_line(arrival: &Arrival, matched: &Match, status: u16, code: Option<Code>) {
    #[derive(Serialize)]
    struct Line<'a> {
        event: &'static str,
        route: &'a str,
        status: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<&'static str>,
        request_id: &'a str,
        trace_id: &'a str,
        ms: i64,
    }
    let label = match matched {
        Match::Found(route, _) => route.label(),
        Match::MethodNotAllowed(_) => "method_not_allowed".to_owned(),
        Match::NotFound | Match::Malformed => "not_found".to_owned(),
    };
    log::line(&Line {
        event: "request",
        route: &label,
        status,
        code: code.map(Code::slug),
        request_id: arrival.request_id.as_str(),
        trace_id: &arrival.trace.trace_id,
        ms: arrival.elapsed().get(),
    });
}

/// The methods of a path, for `Allow` and for preflights.
fn methods_of(matched: &Match) -> Vec<Method> {
    match matched {
        Match::Found(route, _) if route.method == Method::Get => vec![Method::Get, Method::Head],
        Match::Found(route, _) => vec![route.method],
        Match::MethodNotAllowed(methods) => methods.clone(),
        Match::NotFound | Match::Malformed => Vec::new(),
    }
}
