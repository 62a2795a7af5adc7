//! Every problem, as clients meet it. A change here is a change of the API.

use domain::ids::RequestId;
use domain::problem::{Code, Problem};

/// Code, status, title.
const PROBLEMS: &[(&str, u16, &str)] = &[
    ("malformed_json", 400, "The body is not well-formed JSON."),
    ("invalid_request", 400, "The request cannot be understood."),
    (
        "idempotency_key_required",
        400,
        "This request needs an Idempotency-Key header.",
    ),
    (
        "idempotency_key_invalid",
        400,
        "The Idempotency-Key header is not valid.",
    ),
    ("unauthenticated", 401, "This request needs valid credentials."),
    ("token_stale", 401, "The access token is out of date; get a new one."),
    ("insufficient_scope", 403, "The access token does not allow this."),
    ("subject_mismatch", 403, "The token belongs to another user."),
    ("forbidden", 403, "This caller may not do this."),
    ("not_found", 404, "There is nothing here, or it is not yours."),
    ("method_not_allowed", 405, "This resource does not support the method."),
    ("not_acceptable", 406, "None of the accepted media types is available."),
    ("turn_in_progress", 409, "The same request is still running."),
    ("conflict", 409, "The request conflicts with the current state."),
    ("endpoint_removed", 410, "This endpoint was removed."),
    ("payload_too_large", 413, "The body is too large."),
    (
        "unsupported_media_type",
        415,
        "The body must be application/json in UTF-8.",
    ),
    ("invalid_body", 422, "The body does not have the required form."),
    (
        "idempotency_key_reused",
        422,
        "The Idempotency-Key was used for another request.",
    ),
    ("rate_limited", 429, "Too many requests; try again later."),
    ("internal", 500, "Something went wrong on our side."),
    ("generation_failed", 502, "No answer could be generated."),
    ("generation_lost", 502, "The answer was lost while it was generated."),
    ("generation_timeout", 504, "The answer took too long to generate."),
    ("overloaded", 503, "The service is overloaded; try again later."),
    ("unavailable", 503, "The service is not available; try again later."),
    ("deadline_exceeded", 503, "The request could not be served in time."),
    ("line_full", 503, "Too many messages of this user are waiting."),
];

#[test]
fn every_problem_is_as_documented() {
    let request_id = RequestId::parse("req_00snapshot").unwrap();
    assert_eq!(Code::ALL.len(), PROBLEMS.len());
    for (code, (slug, status, title)) in Code::ALL.iter().zip(PROBLEMS) {
        let body: serde_json::Value = serde_json::from_str(&Problem::new(*code).body(&request_id)).unwrap();
        let mut expected = serde_json::json!({
            "type": format!("urn:hermod:problem:{slug}"),
            "title": title,
            "status": status,
            "code": slug,
            "request_id": "req_00snapshot",
        });
        if *slug == "endpoint_removed" {
            expected["error"] = "endpoint_removed".into();
        }
        assert_eq!(body, expected);
    }
}
