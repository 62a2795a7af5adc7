//! Fetching an upstream's key set as [`JwksCache`] decides.

use std::cell::RefCell;

use super::jwk::{JWKS_BYTES_MAX, PublicKey};
use super::jwks::{Decision, FETCH_TIMEOUT, JwksCache};
use crate::http::admission::Bulkhead;
use crate::ports::{Clock, Http, HttpBody, Method, OutboundRequest};
use crate::time::Millis;

/// How often a request that waits for another's fetch looks again.
const POLL: Millis = Millis::new(25);
/// More turns than a fetch can last; a clock that stands still must not hold a request forever.
const TURNS_MAX: u32 = 250;

/// Why there is no key to verify with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// The upstream has no such key: refuse the token.
    UnknownKid,
    /// The upstream's keys are not known and cannot be had now.
    Unavailable,
}

/// The upstream's key of this name, fetched if need be. `places` bounds how many fetches are under way at once.
pub async fn find_key(
    cache: &RefCell<JwksCache>,
    http: &impl Http,
    clock: &impl Clock,
    places: &Bulkhead,
    url: &str,
    kid: Option<&str>,
) -> Result<PublicKey, KeyError> {
    for _ in 0..TURNS_MAX {
        let decision = cache.borrow_mut().decide(kid, clock.now());
        match decision {
            Decision::Use(key) => return Ok(key),
            Decision::UnknownKid => return Err(KeyError::UnknownKid),
            Decision::Unavailable => return Err(KeyError::Unavailable),
            Decision::Wait => clock.sleep(POLL).await,
            Decision::Fetch => {
                let document = match places.enter(clock.now(), FETCH_TIMEOUT) {
                    Some(_place) => fetch(http, url).await,
                    None => None,
                };
                let now = clock.now();
                let mut cache = cache.borrow_mut();
                // A document that cannot be used counts as none: the keys stay as they were.
                match document {
                    Some(document) => drop(cache.fetched(&document, now)),
                    None => cache.failed(),
                }
            }
        }
    }
    Err(KeyError::Unavailable)
}

/// The document, if there is one of tolerable size.
async fn fetch(http: &impl Http, url: &str) -> Option<Vec<u8>> {
    let request = OutboundRequest {
        method: Method::Get,
        url: url.to_owned(),
        headers: vec![("accept", "application/json".to_owned())],
        body: Vec::new(),
        timeout: FETCH_TIMEOUT,
    };
    let mut response = http.send(request).await.ok()?;
    // Redirects are not followed: the allowlist names the place itself.
    if response.status != 200 {
        return None;
    }
    let mut document = Vec::new();
    while let Some(chunk) = response.body.chunk().await.ok()? {
        if document.len().saturating_add(chunk.len()) > JWKS_BYTES_MAX {
            return None;
        }
        document.extend_from_slice(&chunk);
    }
    Some(document)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;
    use crate::auth::jwks::COOLDOWN;
    use crate::auth::testing::{now, p256_pair};
    use crate::ports::{HttpError, OutboundResponse};
    use crate::time::Timestamp;

    /// A status and the pieces of a body.
    type Answer = Result<(u16, Vec<Vec<u8>>), HttpError>;

    /// An upstream that answers with what it is given, and a clock that moves only while someone sleeps.
    struct World {
        now: Cell<Timestamp>,
        fetches: Cell<u32>,
        answer: RefCell<Answer>,
    }

    struct Chunks(std::vec::IntoIter<Vec<u8>>);

    impl HttpBody for Chunks {
        async fn chunk(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
            Ok(self.0.next())
        }
    }

    impl Http for World {
        type Body = Chunks;
        async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse<Chunks>, HttpError> {
            assert_eq!((request.method, request.timeout), (Method::Get, FETCH_TIMEOUT));
            self.fetches.set(self.fetches.get() + 1);
            let (status, chunks) = self.answer.borrow().clone()?;
            Ok(OutboundResponse {
                status,
                retry_after: None,
                body: Chunks(chunks.into_iter()),
            })
        }
    }

    impl Clock for World {
        fn now(&self) -> Timestamp {
            self.now.get()
        }
        async fn sleep(&self, duration: Millis) {
            self.now.set(self.now.get().plus(duration));
        }
    }

    fn world() -> World {
        let document = json!({"keys": [p256_pair(1).named("k")]}).to_string();
        let (head, tail) = document.split_at(10);
        let chunks = vec![head.into(), tail.into()];
        World {
            now: Cell::new(now()),
            fetches: Cell::new(0),
            answer: RefCell::new(Ok((200, chunks))),
        }
    }

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    fn find(world: &World, cache: &RefCell<JwksCache>, kid: &str) -> Result<(), KeyError> {
        let places = Bulkhead::new(1);
        let found = find_key(cache, world, world, &places, "https://login.example/k", Some(kid));
        run(found).map(|key| assert_eq!(key.kid(), Some(kid)))
    }

    #[test]
    fn keys_are_fetched_once_and_then_kept() {
        let (world, cache) = (world(), RefCell::default());
        for _ in 0..3 {
            assert_eq!(find(&world, &cache, "k"), Ok(()));
        }
        assert_eq!(find(&world, &cache, "made-up"), Err(KeyError::UnknownKid));
        assert_eq!(world.fetches.get(), 1);
    }

    #[test]
    fn answers_that_are_no_key_set_leave_the_keys_as_they_were() {
        let large = vec![b" ".repeat(JWKS_BYTES_MAX), b"{}".to_vec()];
        for bad in [
            Err(HttpError::Timeout),
            Ok((500, vec![])),
            Ok((302, vec![])),
            Ok((200, large)),
            Ok((200, vec![])),
        ] {
            let (world, cache) = (world(), RefCell::default());
            assert_eq!(find(&world, &cache, "k"), Ok(()));
            world.now.set(now().plus(COOLDOWN));
            *world.answer.borrow_mut() = bad.clone();
            assert_eq!(find(&world, &cache, "new"), Err(KeyError::UnknownKid), "{bad:?}");
            assert_eq!(find(&world, &cache, "k"), Ok(()), "{bad:?}");
            assert_eq!(world.fetches.get(), 2);
            let empty = RefCell::default();
            assert_eq!(find(&world, &empty, "k"), Err(KeyError::Unavailable), "{bad:?}");
        }
    }

    #[test]
    fn a_full_bulkhead_counts_as_an_upstream_that_is_down() {
        let (world, cache) = (world(), RefCell::default());
        let places = Bulkhead::new(0);
        let found = run(find_key(
            &cache,
            &world,
            &world,
            &places,
            "https://login.example/k",
            Some("k"),
        ));
        assert_eq!(
            (found.map(|_| ()), world.fetches.get()),
            (Err(KeyError::Unavailable), 0)
        );
    }

    #[test]
    fn a_fetch_that_was_lost_with_its_request_does_not_keep_its_place() {
        let (world, cache) = (world(), RefCell::default());
        let places = Bulkhead::new(1);
        std::mem::forget(places.enter(now(), FETCH_TIMEOUT));
        let find = || {
            run(find_key(
                &cache,
                &world,
                &world,
                &places,
                "https://login.example/k",
                Some("k"),
            ))
        };
        assert_eq!(find().map(|_| ()), Err(KeyError::Unavailable));
        world.now.set(now().plus(COOLDOWN));
        assert_eq!(find().map(|_| ()), Ok(()));
    }

    #[test]
    fn who_waits_for_a_fetch_that_was_lost_gives_up_when_it_should_have_ended() {
        let (world, cache) = (world(), RefCell::<JwksCache>::default());
        assert!(matches!(cache.borrow_mut().decide(Some("k"), now()), Decision::Fetch));
        assert_eq!(find(&world, &cache, "k"), Err(KeyError::Unavailable));
        assert_eq!(world.now.get(), now().plus(FETCH_TIMEOUT));
    }
}
