//! `GET /.well-known/jwks.json`: the public half of every key that access tokens may be signed with.

use super::{Call, Reply};

/// Short enough that a new key is known before it signs, if it is published first.
const CACHE: &str = "public, max-age=300";

/// The key set (RFC 7517).
pub fn document(call: &Call) -> Reply {
    Reply::json(200, &call.app.keys.to_jwks()).with_cache(CACHE)
}
