//! Errors as callers see them: RFC 9457 problem details.
//!
//! A problem carries a stable code and constant texts only, so nothing internal can leak through one.

use serde::{Deserialize, Serialize};

use crate::ids::{RequestId, TurnId};
use crate::time::Millis;

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $slug:literal, $status:literal, $title:literal;)+) => {
        /// What went wrong. The slug is the stable `code` of the problem and the label of its metrics.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $slug)] $variant,)+
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The stable name, `[a-z_]+`.
            pub const fn slug(self) -> &'static str {
                match self { $(Self::$variant => $slug,)+ }
            }

            /// The HTTP status it is answered with.
            pub const fn status(self) -> u16 {
                match self { $(Self::$variant => $status,)+ }
            }

            /// One constant sentence for people.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)+ }
            }

            /// The code of this slug, if it is one of ours.
            pub fn from_slug(slug: &str) -> Option<Self> {
                match slug { $($slug => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

codes! {
    /// The body is not JSON, or not UTF-8, or nests too deep, or names a member twice.
    MalformedJson = "malformed_json", 400, "The body is not well-formed JSON.";
    /// The request line or a header cannot be understood.
    InvalidRequest = "invalid_request", 400, "The request cannot be understood.";
    IdempotencyKeyRequired = "idempotency_key_required", 400, "This request needs an Idempotency-Key header.";
    IdempotencyKeyInvalid = "idempotency_key_invalid", 400, "The Idempotency-Key header is not valid.";
    Unauthenticated = "unauthenticated", 401, "This request needs valid credentials.";
    /// The token was valid once: revoked, or the caller's authorization has changed since.
    TokenStale = "token_stale", 401, "The access token is out of date; get a new one.";
    InsufficientScope = "insufficient_scope", 403, "The access token does not allow this.";
    SubjectMismatch = "subject_mismatch", 403, "The token belongs to another user.";
    Forbidden = "forbidden", 403, "This caller may not do this.";
    NotFound = "not_found", 404, "There is nothing here, or it is not yours.";
    MethodNotAllowed = "method_not_allowed", 405, "This resource does not support the method.";
    NotAcceptable = "not_acceptable", 406, "None of the accepted media types is available.";
    /// The same request is still being answered.
    TurnInProgress = "turn_in_progress", 409, "The same request is still running.";
    Conflict = "conflict", 409, "The request conflicts with the current state.";
    EndpointRemoved = "endpoint_removed", 410, "This endpoint was removed.";
    PayloadTooLarge = "payload_too_large", 413, "The body is too large.";
    UnsupportedMediaType = "unsupported_media_type", 415, "The body must be application/json in UTF-8.";
    /// Well-formed JSON that does not have the shape this route takes.
    InvalidBody = "invalid_body", 422, "The body does not have the required form.";
    IdempotencyKeyReused = "idempotency_key_reused", 422, "The Idempotency-Key was used for another request.";
    RateLimited = "rate_limited", 429, "Too many requests; try again later.";
    Internal = "internal", 500, "Something went wrong on our side.";
    /// The model answered with an error, or with nothing.
    GenerationFailed = "generation_failed", 502, "No answer could be generated.";
    /// The generation was interrupted and may not be repeated.
    GenerationLost = "generation_lost", 502, "The answer was lost while it was generated.";
    GenerationTimeout = "generation_timeout", 504, "The answer took too long to generate.";
    Overloaded = "overloaded", 503, "The service is overloaded; try again later.";
    Unavailable = "unavailable", 503, "The service is not available; try again later.";
    /// The request could not be served within its deadline.
    DeadlineExceeded = "deadline_exceeded", 503, "The request could not be served in time.";
    /// Too many messages of this user are waiting already.
    LineFull = "line_full", 503, "Too many messages of this user are waiting.";
}

/// An error answer. Serializable, because it crosses from the objects to the edge; the wire form for clients is
/// [`Problem::body`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    pub code: Code,
    /// A constant sentence for whoever wrote the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<std::borrow::Cow<'static, str>>,
    /// When it makes sense to try again; sent as `Retry-After` in whole seconds, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Millis>,
    /// The stored result of this Idempotency-Key is a failure: only a new key will run the request again.
    #[serde(default)]
    pub new_key_required: bool,
    /// The turn this is about, when one exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn_id: Option<TurnId>,
    /// The stored result of an earlier request under the same Idempotency-Key.
    #[serde(default)]
    pub replayed: bool,
}

/// The answer's body. Members in a fixed order, so that stored results compare byte by byte.
#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    code: &'static str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    new_key_required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_id: Option<&'a TurnId>,
    /// The removed token endpoint answers in the form its old clients look for as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'static str>,
}

impl Problem {
    /// The media type of [`Problem::body`].
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// A problem without detail.
    pub const fn new(code: Code) -> Self {
        Self {
            code,
            detail: None,
            retry_after: None,
            new_key_required: false,
            turn_id: None,
            replayed: false,
        }
    }

    /// Adds a sentence for whoever wrote the client. Constant, so that it can hold nothing of a request or a fault.
    pub fn with_detail(mut self, detail: &'static str) -> Self {
        self.detail = Some(std::borrow::Cow::Borrowed(detail));
        self
    }

    pub fn with_retry_after(mut self, retry_after: Millis) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    pub fn with_new_key_required(mut self) -> Self {
        self.new_key_required = true;
        self
    }

    pub fn with_turn(mut self, turn_id: TurnId) -> Self {
        self.turn_id = Some(turn_id);
        self
    }

    /// Marks the stored result of an earlier request.
    pub fn replayed(mut self) -> Self {
        self.replayed = true;
        self
    }

    /// The `Retry-After` header in seconds (RFC 9110 §10.2.3), at least 1.
    pub fn retry_after_seconds(&self) -> Option<i64> {
        self.retry_after.map(|wait| wait.ceil_secs().max(1))
    }

    /// The problem document (RFC 9457 §3) as JSON.
    pub fn body(&self, request_id: &RequestId) -> String {
        let body = Body {
            r#type: format!("urn:hermod:problem:{}", self.code.slug()),
            title: self.code.title(),
            status: self.code.status(),
            code: self.code.slug(),
            request_id: request_id.as_str(),
            detail: self.detail.as_deref(),
            new_key_required: self.new_key_required,
            turn_id: self.turn_id.as_ref(),
            error: matches!(self.code, Code::EndpointRemoved).then(|| self.code.slug()),
        };
        // Text, numbers and a flag: this cannot fail, and an empty object still is JSON.
        serde_json::to_string(&body).unwrap_or_else(|_| "{}".to_owned())
    }
}

impl From<Code> for Problem {
    fn from(code: Code) -> Self {
        Self::new(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_id() -> RequestId {
        RequestId::parse("req_00abc").unwrap()
    }

    #[test]
    fn slugs_are_unique_lead_back_and_equal_the_serialized_code() {
        for (at, code) in Code::ALL.iter().enumerate() {
            assert_eq!(Code::from_slug(code.slug()), Some(*code));
            assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{}\"", code.slug()));
            assert!((400..600).contains(&code.status()), "{}", code.slug());
            assert!(Code::ALL.iter().skip(at + 1).all(|other| other.slug() != code.slug()));
        }
        assert_eq!(Code::from_slug("teapot"), None);
        assert_eq!(Code::ALL.len(), 28);
    }

    #[test]
    fn the_document_has_the_standard_members_and_ours() {
        let problem = Problem::new(Code::GenerationFailed)
            .with_new_key_required()
            .with_detail("Use a new key.");
        assert_eq!(
            problem.body(&request_id()),
            concat!(
                r#"{"type":"urn:hermod:problem:generation_failed","title":"No answer could be generated.","#,
                r#""status":502,"code":"generation_failed","request_id":"req_00abc","detail":"Use a new key.","#,
                r#""new_key_required":true}"#
            )
        );
    }

    #[test]
    fn absent_members_are_left_out() {
        assert_eq!(
            Problem::new(Code::NotFound).body(&request_id()),
            concat!(
                r#"{"type":"urn:hermod:problem:not_found","title":"There is nothing here, or it is not yours.","#,
                r#""status":404,"code":"not_found","request_id":"req_00abc"}"#
            )
        );
    }

    #[test]
    fn the_removed_endpoint_also_answers_its_old_clients() {
        let body: serde_json::Value =
            serde_json::from_str(&Problem::new(Code::EndpointRemoved).body(&request_id())).unwrap();
        assert_eq!(body["error"], "endpoint_removed");
        assert_eq!(body["code"], "endpoint_removed");
    }

    #[test]
    fn retry_after_is_whole_seconds_and_never_zero() {
        let wait = |millis| {
            Problem::new(Code::Overloaded)
                .with_retry_after(Millis::new(millis))
                .retry_after_seconds()
        };
        assert_eq!(wait(0), Some(1));
        assert_eq!(wait(1_000), Some(1));
        assert_eq!(wait(1_001), Some(2));
        assert_eq!(Problem::new(Code::Overloaded).retry_after_seconds(), None);
    }

    #[test]
    fn a_problem_crosses_to_the_edge_and_back() {
        let problem = Problem::new(Code::TurnInProgress)
            .with_retry_after(Millis::from_secs(2))
            .with_detail("Wait.");
        let text = serde_json::to_string(&problem).unwrap();
        assert_eq!(serde_json::from_str::<Problem>(&text).unwrap(), problem);
        assert_eq!(
            serde_json::from_str::<Problem>(r#"{"code":"internal"}"#).unwrap(),
            Problem::new(Code::Internal)
        );
    }
}
