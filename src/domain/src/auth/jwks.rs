//! When to fetch an upstream's key set, and which keys count meanwhile. A state machine without I/O: the caller
//! fetches when told to and reports back.
//!
//! Tokens with made-up key names must not turn into requests, so at most one fetch begins per [`COOLDOWN`], whatever
//! is asked. An upstream that does not answer must not lock people out, so keys once fetched go on counting until a
//! newer set replaces them.

use super::jwk::{JwkError, KeyRing, PublicKey};
use crate::time::{Millis, Timestamp};

/// The least time between two fetches.
pub const COOLDOWN: Millis = Millis::from_secs(30);
/// Keys older than this are fetched again, so that a key the upstream withdrew does not count for long.
pub const REFRESH: Millis = Millis::from_mins(10);
/// How long a fetch may take. One that has not reported back by then was lost with the request that ran it.
pub const FETCH_TIMEOUT: Millis = Millis::from_secs(5);

/// What to do for a token.
#[derive(Debug)]
pub enum Decision {
    /// Verify with this key.
    Use(PublicKey),
    /// Fetch the document now, report [`JwksCache::fetched`] or [`JwksCache::failed`], then ask again.
    Fetch,
    /// Another request is fetching and the answer depends on it: ask again shortly.
    Wait,
    /// The upstream has no such key, as far as can be known before the next fetch is due: refuse the token.
    UnknownKid,
    /// There are no keys at all yet and the upstream did not give any: try later.
    Unavailable,
}

/// The keys of one upstream as this isolate knows them.
#[derive(Debug, Default)]
pub struct JwksCache {
    keys: Option<(KeyRing, Timestamp)>,
    last_attempt: Option<Timestamp>,
    in_flight: bool,
}

impl JwksCache {
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides about a token that names `kid`. After [`Decision::Fetch`] the cooldown has begun.
    pub fn decide(&mut self, kid: Option<&str>, now: Timestamp) -> Decision {
        let known = self.keys.as_ref().and_then(|(ring, _)| ring.find(kid)).cloned();
        let fresh = self
            .keys
            .as_ref()
            .is_some_and(|(_, fetched_at)| !passed(*fetched_at, REFRESH, now));
        let may_fetch = self.last_attempt.is_none_or(|attempt| passed(attempt, COOLDOWN, now));
        let awaited = self.in_flight
            && self
                .last_attempt
                .is_some_and(|attempt| !passed(attempt, FETCH_TIMEOUT, now));
        match (known, fresh) {
            (Some(key), true) => Decision::Use(key),
            (Some(key), false) if !may_fetch => Decision::Use(key),
            (Some(_) | None, _) if may_fetch => {
                self.last_attempt = Some(now);
                self.in_flight = true;
                Decision::Fetch
            }
            (Some(_) | None, _) if awaited => Decision::Wait,
            (Some(_) | None, _) if self.keys.is_some() => Decision::UnknownKid,
            (Some(_) | None, _) => Decision::Unavailable,
        }
    }

    /// Takes the document that a fetch brought. One that cannot be used leaves the keys as they were.
    pub fn fetched(&mut self, document: &[u8], now: Timestamp) -> Result<(), JwkError> {
        self.in_flight = false;
        let ring = KeyRing::parse(document)?;
        self.keys = Some((ring, now));
        Ok(())
    }

    /// The fetch brought nothing.
    pub fn failed(&mut self) {
        self.in_flight = false;
    }
}

// A clock that went back must not stretch a wait, so an instant in the future counts as passed.
fn passed(since: Timestamp, span: Millis, now: Timestamp) -> bool {
    let elapsed = now.since(since);
    elapsed < Millis::ZERO || elapsed >= span
}
