//! Export manifest: every event handler and Durable Object shell of the bundle, nothing else.

mod http;
mod platform;

use worker::{Context, Env, Request, Response, Result, event};

#[event(fetch)]
async fn fetch(request: Request, env: Env, context: Context) -> Result<Response> {
    http::dispatch(request, env, context).await
}
