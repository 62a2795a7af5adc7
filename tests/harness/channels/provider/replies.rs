//! What the Bot API answers, as bytes.

use serde_json::{Value, json};

use super::Outage;
use crate::http::Reply;

/// Longer than any sender waits.
pub const FOR_EVER: i64 = 1_000_000_000;

pub fn error(code: u16, description: &str, parameters: Value) -> Reply {
    let body = json!({"ok": false, "error_code": code, "description": description, "parameters": parameters});
    Reply::status(code, body.to_string())
}

pub fn flood(seconds: i64) -> Reply {
    let text = format!("Too Many Requests: retry after {seconds}");
    error(429, &text, json!({"retry_after": seconds}))
}

pub fn broken(how: Outage) -> Reply {
    match how {
        Outage::Unreachable => Reply::unreachable(),
        Outage::Silent => Reply {
            head_after: FOR_EVER,
            ..Reply::unreachable()
        },
        Outage::Faulty => Reply::status(502, "<html>502 Bad Gateway</html>"),
    }
}
