//! Export manifest: every event handler and Durable Object shell of the bundle, nothing else.

mod platform;

use worker::{Context, Env, Request, Response, Result, event};

#[event(fetch)]
async fn fetch(_request: Request, _env: Env, _context: Context) -> Result<Response> {
    Response::ok("{}")
}
