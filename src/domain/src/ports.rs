//! The few doors through which the rules meet the world.
//!
//! Each has the Cloudflare adapter (`src/platform`) and a native fake (`tests/harness`), and one conformance suite
//! that runs on both. Everything is single-threaded, so no future is `Send`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use crate::sql::{Outcome, Shard, Statement};
use crate::time::{Millis, Timestamp};

/// An owned future that stays on its thread.
pub type LocalFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// The database: one atomic batch at a time.
pub trait Sql {
    /// Runs `statements` as one transaction on `shard`.
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome;
}

/// The clock. `now` may jump; nothing may assume that it only grows.
pub trait Clock {
    fn now(&self) -> Timestamp;
    /// Resolves once `duration` has passed.
    async fn sleep(&self, duration: Millis);
}

/// A source of unpredictable bytes.
pub trait Entropy {
    fn fill(&self, bytes: &mut [u8]);
}

/// Work that goes on after the call that started it has been answered.
///
/// The runtime may drop it at any await; whatever must happen has to be found again from the database.
pub trait Spawn {
    fn spawn(&self, task: LocalFuture<()>);
}

/// A wake-up call for one object, kept by the platform across restarts. At least once, perhaps late.
pub trait Alarm {
    /// Asks to be woken at `at`; an earlier alarm that is already set is replaced.
    async fn set(&self, at: Timestamp);
}

/// A message queue: at least once, in any order, or not at all.
pub trait Queue {
    /// Sends one message, delivered no earlier than `delay` from now.
    async fn send(&self, body: String, delay: Millis) -> Result<(), QueueError>;
}

/// The message was perhaps not taken. Losing it must be harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueError;

/// One outbound request with a deadline. Redirects are never followed.
pub trait Http {
    type Body: HttpBody;
    async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse<Self::Body>, HttpError>;
}

/// The body of an answer, read piece by piece under the request's deadline.
pub trait HttpBody {
    /// The next piece; `None` at the end.
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, HttpError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
}

/// A request to the outside. Printing it shows no address, header or body: each may hold a secret or what was said.
#[derive(Clone, PartialEq, Eq)]
pub struct OutboundRequest {
    pub method: Method,
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(&'static str, String)>,
    pub body: Vec<u8>,
    /// Covers the head and the whole body.
    pub timeout: Millis,
}

impl fmt::Debug for OutboundRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundRequest")
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct OutboundResponse<B> {
    pub status: u16,
    /// The raw `Retry-After`, if there was one.
    pub retry_after: Option<String>,
    pub body: B,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpError {
    /// The deadline passed.
    Timeout,
    /// No connection, or it broke.
    Transport,
}

/// A named place where tests may hold or kill the service. In production nothing is there.
pub trait Checkpoint {
    async fn reach(&self, name: &'static str);
}
