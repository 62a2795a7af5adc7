//! Problems as answers (RFC 9457), with the headers that go with their status.

use domain::http::routes::{self, Match};
use domain::problem::{Code, Problem};
use domain::time::Millis;
use store::db::DbError;

use super::methods_of;
use super::reply::{Body, Reply};
use super::request::Arrival;

/// The answer that says `problem`.
pub fn reply(problem: &Problem, arrival: &Arrival, matched: &Match) -> Reply {
    let body = Body::Bytes(problem.body(&arrival.request_id).into_bytes());
    let mut reply = Reply::of(problem.code.status(), Problem::MEDIA_TYPE, body);
    if let Some(seconds) = problem.retry_after_seconds() {
        reply = reply.with_header("Retry-After", seconds.to_string());
    }
    if problem.replayed {
        reply = reply.replayed();
    }
    if problem.code == Code::MethodNotAllowed {
        reply = reply.with_header("Allow", routes::allow(&methods_of(matched)));
    }
    if let Some(challenge) = challenge(problem.code, arrival, matched) {
        reply = reply.with_header("WWW-Authenticate", challenge);
    }
    reply
}

/// What a caller is told when the database gave no result.
pub fn of_db(error: DbError) -> Problem {
    match error {
        DbError::Overloaded => Problem::new(Code::Overloaded).with_retry_after(Millis::from_secs(1)),
        DbError::Unavailable | DbError::Refused(_) => {
            Problem::new(Code::Unavailable).with_retry_after(Millis::from_secs(1))
        }
        DbError::Conflict | DbError::Defect => Problem::new(Code::Internal),
    }
}

/// The challenge of RFC 6750 §3: without an error when no credential was sent.
fn challenge(code: Code, arrival: &Arrival, matched: &Match) -> Option<String> {
    let lacks_scope = code == Code::InsufficientScope;
    if code.status() != 401 && !lacks_scope {
        return None;
    }
    let mut challenge = "Bearer realm=\"hermod\"".to_owned();
    if lacks_scope {
        challenge.push_str(", error=\"insufficient_scope\"");
        if let Match::Found(route, _) = matched {
            let scopes: Vec<_> = route.scopes.iter().map(|scope| scope.as_str()).collect();
            challenge.push_str(&format!(", scope=\"{}\"", scopes.join(" ")));
        }
    } else if arrival.header("authorization").is_some() {
        challenge.push_str(", error=\"invalid_token\"");
    }
    Some(challenge)
}
