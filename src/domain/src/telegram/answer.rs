//! What an answer to `sendMessage` means. Every answer there can be maps to exactly one outcome.
//!
//! The Bot API says by `ok`, `error_code` and `description` what it did; whatever does not speak like that (a proxy, a
//! page of HTML) did not come from it and is judged by its status alone.

use serde::Deserialize;
use serde_json::Value;

use crate::outbox::outcome::{ErrorClass, ErrorCode, Holds, Outcome};
use crate::ports::HttpError;
use crate::retry::retry_after;
use crate::time::{Millis, Timestamp};

/// How much of an answer is read, in bytes. The longest that is made sense of repeats a text of 4,096 units, each of
/// them escaped, and its formatting.
pub const BODY_MAX: usize = 256 * 1024;

/// The longest wait that is heeded: no reply lives longer, so a greater number holds back the same ones. It also keeps
/// a number that went wrong from silencing a bot for good.
const WAIT_MAX: Millis = Millis::from_mins(24 * 60);

/// An answer, as far as it was read. Not printable: a success repeats the message.
#[derive(Clone, Copy)]
pub struct Answer<'a> {
    pub status: u16,
    /// The raw `Retry-After`.
    pub retry_after: Option<&'a str>,
    /// At most [`BODY_MAX`] bytes of it.
    pub body: &'a [u8],
}

#[derive(Deserialize)]
struct Reply {
    ok: bool,
    #[serde(default)]
    error_code: Option<u16>,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    parameters: Option<Value>,
    #[serde(default)]
    result: Option<Value>,
}

/// What came of the send that got `answer`.
pub fn outcome(answer: Result<Answer<'_>, HttpError>, now: Timestamp) -> Outcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(HttpError::Timeout) => return ambiguous(ErrorClass::Timeout, ErrorCode::Stalled),
        Err(HttpError::Transport) => return ambiguous(ErrorClass::Transport, ErrorCode::BrokeOff),
    };
    let header = answer.retry_after.and_then(|text| retry_after(text, now));
    let reply: Option<Reply> = serde_json::from_slice(answer.body).ok();
    match reply {
        Some(reply) if reply.ok => accepted(answer.status, &reply),
        Some(reply) => {
            let status = reply
                .error_code
                .filter(|_| answer.status < 300)
                .unwrap_or(answer.status);
            refused(status, &reply, header)
        }
        None => unspoken(answer.status, header),
    }
}

const fn ambiguous(class: ErrorClass, code: ErrorCode) -> Outcome {
    Outcome::Ambiguous { class, code }
}

const fn rejected(class: ErrorClass, code: ErrorCode) -> Outcome {
    Outcome::Rejected { class, code }
}

fn retry(class: ErrorClass, code: ErrorCode, after: Option<Millis>, holds: Holds) -> Outcome {
    Outcome::Retry {
        class,
        code,
        after: after.map(|after| after.min(WAIT_MAX)),
        holds,
    }
}

fn accepted(status: u16, reply: &Reply) -> Outcome {
    let id = reply.result.as_ref().and_then(|result| result.get("message_id"));
    match id.and_then(Value::as_i64) {
        Some(id) if status < 300 => Outcome::Accepted {
            provider_message_id: id.to_string(),
        },
        // It says that it went well, but not what it did, or under a status that says otherwise.
        Some(_) | None if status == 401 => Outcome::Unauthorized,
        Some(_) | None => ambiguous(ErrorClass::Provider, ErrorCode::NotUnderstood),
    }
}

/// What the Bot API says when it refuses: the status, a part of the description in lower case, and what it means. The
/// first row that fits counts.
const REFUSALS: &[(u16, &str, Refusal)] = &[
    (400, "can't parse", Refusal::Unformatted),
    (400, "unsupported parse_mode", Refusal::Unformatted),
    (400, "message is too long", Refusal::Content(ErrorCode::MessageTooLong)),
    (400, "text is too long", Refusal::Content(ErrorCode::MessageTooLong)),
    (400, "message text is empty", Refusal::Content(ErrorCode::MessageEmpty)),
    (
        400,
        "message must be non-empty",
        Refusal::Content(ErrorCode::MessageEmpty),
    ),
    (400, "chat not found", Refusal::Gone(ErrorCode::ChatNotFound)),
    (400, "user not found", Refusal::Gone(ErrorCode::ChatNotFound)),
    (400, "peer_id_invalid", Refusal::Gone(ErrorCode::ChatNotFound)),
    (400, "chat_id is empty", Refusal::Gone(ErrorCode::ChatNotFound)),
    (400, "user_deactivated", Refusal::Gone(ErrorCode::UserDeactivated)),
    (400, "have no rights to send", Refusal::Destination),
    (400, "not enough rights", Refusal::Destination),
    (400, "chat_write_forbidden", Refusal::Destination),
    (403, "blocked by the user", Refusal::Gone(ErrorCode::Blocked)),
    (403, "can't initiate conversation", Refusal::Gone(ErrorCode::Blocked)),
    (403, "kicked", Refusal::Gone(ErrorCode::Blocked)),
    (403, "not a member", Refusal::Gone(ErrorCode::Blocked)),
    (403, "user is deactivated", Refusal::Gone(ErrorCode::UserDeactivated)),
    (403, "chat was deleted", Refusal::Gone(ErrorCode::ChatNotFound)),
    (403, "chat was deactivated", Refusal::Gone(ErrorCode::ChatNotFound)),
    (403, "", Refusal::Destination),
    (404, "", Refusal::Unauthorized),
    (413, "", Refusal::Content(ErrorCode::MessageTooLong)),
];

#[derive(Clone, Copy)]
enum Refusal {
    Unformatted,
    Content(ErrorCode),
    /// Nothing can be sent to this chat any more.
    Gone(ErrorCode),
    /// This was not let through to the chat; another time may be different.
    Destination,
    Unauthorized,
}

/// The Bot API says no.
fn refused(status: u16, reply: &Reply, header: Option<Millis>) -> Outcome {
    let parameter = |name: &str| reply.parameters.as_ref().and_then(|parameters| parameters.get(name));
    let after = header.max(parameter("retry_after").and_then(wait));
    if status == 400
        && let Some(to) = parameter("migrate_to_chat_id").and_then(chat_id)
    {
        return Outcome::Moved { to };
    }
    let description = reply.description.as_deref().unwrap_or_default().to_lowercase();
    let known = REFUSALS
        .iter()
        .find(|(for_status, part, _)| *for_status == status && description.contains(part));
    match known {
        Some((_, _, Refusal::Unformatted)) => Outcome::Unformatted,
        Some((_, _, Refusal::Content(code))) => rejected(ErrorClass::Content, *code),
        Some((_, _, Refusal::Gone(code))) => Outcome::Gone { code: *code },
        Some((_, _, Refusal::Destination)) => rejected(ErrorClass::Destination, ErrorCode::Forbidden),
        Some((_, _, Refusal::Unauthorized)) => Outcome::Unauthorized,
        None => match status {
            // An answer without a status of its own that says no, and not why.
            0..=399 => ambiguous(ErrorClass::Provider, ErrorCode::NotUnderstood),
            401 | 408 | 409 | 420 | 425 | 429 | 500..=u16::MAX => unspoken(status, after),
            _ => rejected(ErrorClass::Content, ErrorCode::BadRequest),
        },
    }
}

/// Nothing but the status says what happened.
fn unspoken(status: u16, after: Option<Millis>) -> Outcome {
    match status {
        // A success that cannot be read: it may have been taken.
        200..=299 => ambiguous(ErrorClass::Provider, ErrorCode::NotUnderstood),
        401 => Outcome::Unauthorized,
        420 | 429 => retry(ErrorClass::RateLimit, ErrorCode::TooManyRequests, after, Holds::Gateway),
        500..=599 => retry(ErrorClass::Provider, ErrorCode::ServerError, after, Holds::Row),
        // A redirect, or a refusal by something that stands before the Bot API: later it may have gone away.
        _ => retry(ErrorClass::Provider, ErrorCode::NotUnderstood, after, Holds::Row),
    }
}

/// Seconds to wait, as a number or as text; nothing that is negative or no number.
fn wait(value: &Value) -> Option<Millis> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    let seconds: f64 = text.trim().parse().ok()?;
    // The conversion saturates.
    (seconds.is_finite() && seconds >= 0.0).then(|| Millis::from_secs(seconds.ceil() as i64))
}

/// The id of a chat, as a number or as text.
fn chat_id(value: &Value) -> Option<String> {
    let id = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    id.map(|id: i64| id.to_string())
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
