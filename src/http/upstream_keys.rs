//! The key sets of upstreams as this isolate holds them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use domain::auth::jwk::PublicKey;
use domain::auth::jwks::JwksCache;
use domain::auth::jwks_fetch::{KeyError, find_key};
use domain::http::admission::Bulkhead;
use domain::problem::{Code, Problem};
use domain::time::Millis;

use super::Call;
use crate::platform::fetch::WorkerHttp;

/// Key sets fetched at once; the platform allows six connections in all.
const FETCHES_MAX: u32 = 2;
/// Key sets kept. Operators list upstreams by hand, so this is far beyond any real number.
const UPSTREAMS_MAX: usize = 256;

/// An upstream's short name and where its keys are: a changed URL starts afresh.
type Name = (String, String);

/// One cache for each upstream.
pub struct UpstreamKeys {
    caches: RefCell<BTreeMap<Name, Rc<RefCell<JwksCache>>>>,
    places: Bulkhead,
}

impl Default for UpstreamKeys {
    fn default() -> Self {
        Self {
            caches: RefCell::default(),
            places: Bulkhead::new(FETCHES_MAX),
        }
    }
}

impl UpstreamKeys {
    /// The upstream's key of this name, fetched from `url` if need be.
    pub async fn find(&self, call: &Call, idp: &str, url: &str, kid: Option<&str>) -> Result<PublicKey, Problem> {
        let cache = self.cache(idp, url);
        find_key(&cache, &WorkerHttp, &call.app.clock, &self.places, url, kid)
            .await
            .map_err(|error| match error {
                KeyError::UnknownKid => Problem::new(Code::Unauthenticated),
                KeyError::Unavailable => Problem::new(Code::Unavailable).with_retry_after(Millis::from_secs(30)),
            })
    }

    fn cache(&self, idp: &str, url: &str) -> Rc<RefCell<JwksCache>> {
        let mut caches = self.caches.borrow_mut();
        let name = (idp.to_owned(), url.to_owned());
        if !caches.contains_key(&name) && caches.len() >= UPSTREAMS_MAX {
            caches.pop_first();
        }
        Rc::clone(caches.entry(name).or_default())
    }
}
