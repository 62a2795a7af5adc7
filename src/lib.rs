//! Export manifest: every event handler and Durable Object shell of the bundle, nothing else.

mod http;
mod platform;
#[cfg(feature = "probes")]
mod probes;

use std::panic::AssertUnwindSafe;

use platform::user_turns::UserTurnsObject;
use worker::durable::State;
use worker::{
    Context, DurableObject, Env, MessageBatch, Request, Response, Result, ScheduleContext, ScheduledEvent,
    durable_object, event,
};

#[event(fetch)]
async fn fetch(request: Request, env: Env, context: Context) -> Result<Response> {
    http::dispatch(request, env, context).await
}

#[event(queue)]
async fn queue(batch: MessageBatch<String>, env: Env, _context: Context) -> Result<()> {
    platform::background::consume(&batch, &env).await;
    Ok(())
}

#[event(scheduled)]
async fn scheduled(_event: ScheduledEvent, env: Env, _context: ScheduleContext) {
    platform::rounds::run(&env).await;
}

/// One user's turns, in order.
#[durable_object(alarm)]
pub struct UserTurns(AssertUnwindSafe<UserTurnsObject>);

impl DurableObject for UserTurns {
    fn new(state: State, env: Env) -> Self {
        Self(AssertUnwindSafe(UserTurnsObject::new(state, &env)))
    }

    async fn fetch(&self, request: Request) -> Result<Response> {
        self.0.fetch(request).await
    }

    async fn alarm(&self) -> Result<Response> {
        self.0.alarm().await
    }
}
