//! The description of this API, compiled in.

use super::reply::Reply;

const DOCUMENT: &str = include_str!("../../openapi.json");

pub fn document() -> Reply {
    Reply::json_text(200, DOCUMENT).with_cache("public, max-age=300")
}
