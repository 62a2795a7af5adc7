use super::*;

/// 1994-11-06T08:49:37Z, the example of RFC 9110 §5.6.7.
const NOW: i64 = 784_111_777_000;

fn judged(status: u16, header: Option<&str>, body: &str) -> Outcome {
    let answer = Answer {
        status,
        retry_after: header,
        body: body.as_bytes(),
    };
    outcome(Ok(answer), Timestamp::from_millis(NOW))
}

fn flood(seconds: impl Into<Option<i64>>) -> Outcome {
    retry(
        ErrorClass::RateLimit,
        ErrorCode::TooManyRequests,
        seconds.into().map(Millis::from_secs),
        Holds::Gateway,
    )
}

fn later(code: ErrorCode, seconds: impl Into<Option<i64>>) -> Outcome {
    retry(
        ErrorClass::Provider,
        code,
        seconds.into().map(Millis::from_secs),
        Holds::Row,
    )
}

fn taken(id: &str) -> Outcome {
    Outcome::Accepted {
        provider_message_id: id.to_owned(),
    }
}

fn unclear() -> Outcome {
    ambiguous(ErrorClass::Provider, ErrorCode::NotUnderstood)
}

const OK: &str = r#"{"ok":true,"result":{"message_id":4321,"date":1783728000,"chat":{"id":8040940969,"type":"private"},"text":"hi"}}"#;
const FLOOD: &str =
    r#"{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 7","parameters":{"retry_after":7}}"#;
const BLOCKED: &str = r#"{"ok":false,"error_code":403,"description":"Forbidden: bot was blocked by the user"}"#;
const SUPERGROUP: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: group chat was upgraded to a supergroup chat","parameters":{"migrate_to_chat_id":-1001557912345}}"#;
const ENTITIES: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: can't parse entities: Can't find end of the entity starting at byte offset 5"}"#;
const TOO_LONG: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: message is too long"}"#;
const NO_CHAT: &str = r#"{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}"#;
const BAD_TOKEN: &str = r#"{"ok":false,"error_code":401,"description":"Unauthorized"}"#;
const PROXY: &str = "<html>502 Bad Gateway</html>";

/// An answer that says no in the Bot API's own words.
fn says(code: u16, description: &str) -> String {
    format!(r#"{{"ok":false,"error_code":{code},"description":"{description}"}}"#)
}

#[test]
fn the_answers_that_people_met_have_their_outcomes() {
    let moved = Outcome::Moved {
        to: "-1001557912345".to_owned(),
    };
    for (when, status, body, right) in [
        ("flood", 429, FLOOD, flood(7)),
        (
            "blocked",
            403,
            BLOCKED,
            Outcome::Gone {
                code: ErrorCode::Blocked,
            },
        ),
        ("supergroup", 400, SUPERGROUP, moved),
        ("entities", 400, ENTITIES, Outcome::Unformatted),
        (
            "too long",
            400,
            TOO_LONG,
            rejected(ErrorClass::Content, ErrorCode::MessageTooLong),
        ),
        (
            "no chat",
            400,
            NO_CHAT,
            Outcome::Gone {
                code: ErrorCode::ChatNotFound,
            },
        ),
        ("bad token", 401, BAD_TOKEN, Outcome::Unauthorized),
        ("proxy", 502, PROXY, later(ErrorCode::ServerError, None)),
        ("ok", 200, OK, taken("4321")),
    ] {
        assert_eq!(judged(status, None, body), right, "{when}");
    }
}

#[test]
fn every_row_of_the_refusals_is_reached() {
    for (status, part, refusal) in REFUSALS {
        let right = match refusal {
            Refusal::Unformatted => Outcome::Unformatted,
            Refusal::Content(code) => rejected(ErrorClass::Content, *code),
            Refusal::Gone(code) => Outcome::Gone { code: *code },
            Refusal::Destination => rejected(ErrorClass::Destination, ErrorCode::Forbidden),
            Refusal::Unauthorized => Outcome::Unauthorized,
        };
        let said = says(*status, &format!("Refused: {}!", part.to_uppercase()));
        assert_eq!(judged(*status, None, &said), right, "{status} {part}");
    }
}

#[test]
fn refusals_as_the_bot_api_words_them() {
    let gone = |code| Outcome::Gone { code };
    for (code, description, right) in [
        (403, "Forbidden: user is deactivated", gone(ErrorCode::UserDeactivated)),
        (
            403,
            "Forbidden: bot can't initiate conversation with a user",
            gone(ErrorCode::Blocked),
        ),
        (
            403,
            "Forbidden: bot was kicked from the group chat",
            gone(ErrorCode::Blocked),
        ),
        (
            403,
            "Forbidden: bots can't send messages to bots",
            rejected(ErrorClass::Destination, ErrorCode::Forbidden),
        ),
        (400, "Bad Request: PEER_ID_INVALID", gone(ErrorCode::ChatNotFound)),
        (
            400,
            "Bad Request: message text is empty",
            rejected(ErrorClass::Content, ErrorCode::MessageEmpty),
        ),
        (
            400,
            "Bad Request: something new",
            rejected(ErrorClass::Content, ErrorCode::BadRequest),
        ),
        (404, "Not Found", Outcome::Unauthorized),
        (
            409,
            "Conflict: terminated by other",
            later(ErrorCode::NotUnderstood, None),
        ),
        (
            413,
            "Request Entity Too Large",
            rejected(ErrorClass::Content, ErrorCode::MessageTooLong),
        ),
        (
            500,
            "Internal Server Error: sent too early",
            later(ErrorCode::ServerError, None),
        ),
        // Words of one status mean nothing under another.
        (500, "Bad Request: chat not found", later(ErrorCode::ServerError, None)),
    ] {
        assert_eq!(
            judged(code, None, &says(code, description)),
            right,
            "{code} {description}"
        );
    }
}

#[test]
fn every_status_has_an_outcome_whatever_stands_behind_it() {
    let bodies = [
        "",
        "{",
        "null",
        "[]",
        "<html>",
        r#"{"ok":"no"}"#,
        "\u{0}",
        r#"{"ok":true"#,
    ];
    for status in (100..=199).chain(300..=999) {
        let right = match status {
            401 => Outcome::Unauthorized,
            420 | 429 => flood(30),
            500..=599 => later(ErrorCode::ServerError, 30),
            _ => later(ErrorCode::NotUnderstood, 30),
        };
        for body in bodies {
            assert_eq!(judged(status, Some("30"), body), right, "{status} {body:?}");
        }
        let own = says(status, "x").replace(&format!("\"error_code\":{status},"), "");
        let outcome = judged(status, None, &own);
        assert!(
            !matches!(outcome, Outcome::Accepted { .. } | Outcome::NotStarted),
            "{status} {outcome:?}"
        );
    }
    for status in 200..=299 {
        for body in bodies {
            assert_eq!(judged(status, None, body), unclear(), "{status} {body:?}");
        }
    }
    for status in (420..=599).filter(|status| *status != 429) {
        let outcome = judged(status, None, &says(status, "x"));
        let kept = match status {
            420 => flood(None),
            425 => later(ErrorCode::NotUnderstood, None),
            421..=499 => rejected(ErrorClass::Content, ErrorCode::BadRequest),
            _ => later(ErrorCode::ServerError, None),
        };
        assert_eq!(outcome, kept, "{status}");
    }
}

#[test]
fn a_success_needs_to_say_which_message() {
    assert_eq!(
        judged(200, None, r#"{"ok":true,"result":{"message_id":-1}}"#),
        taken("-1")
    );
    for body in [
        r#"{"ok":true}"#,
        r#"{"ok":true,"result":true}"#,
        r#"{"ok":true,"result":{"message_id":"5"}}"#,
        r#"{"ok":true,"result":{"message_id":1.5}}"#,
    ] {
        assert_eq!(judged(200, None, body), unclear(), "{body}");
    }
    // A success under a status of failure is believed by neither.
    assert_eq!(judged(502, None, OK), unclear());
    // A refusal under 200 is read by its own code.
    assert_eq!(judged(200, None, FLOOD), flood(7));
    assert_eq!(
        judged(200, None, BLOCKED),
        Outcome::Gone {
            code: ErrorCode::Blocked
        }
    );
    assert_eq!(judged(200, None, r#"{"ok":false}"#), unclear());
}

#[test]
fn a_wait_is_read_in_every_form_and_only_ever_delays() {
    let day = 86_400;
    for (parameter, wait) in [
        ("7", Some(7)),
        ("\"7\"", Some(7)),
        ("\" 7 \"", Some(7)),
        ("0", Some(0)),
        ("1.2", Some(2)),
        ("100000", Some(day)),
        ("99999999999999999999", Some(day)),
        ("1e300", Some(day)),
        ("-1", None),
        ("-99999999999999999999", None),
        ("\"soon\"", None),
        ("\"\"", None),
        ("\"NaN\"", None),
        ("null", None),
        ("true", None),
        ("[7]", None),
        ("{}", None),
    ] {
        let body = format!(r#"{{"ok":false,"error_code":429,"parameters":{{"retry_after":{parameter}}}}}"#);
        assert_eq!(judged(429, None, &body), flood(wait), "{parameter}");
        // The longer of the two counts.
        assert_eq!(judged(429, Some("3"), &body), flood(wait.max(Some(3))), "{parameter}");
    }
    for body in [
        r#"{"ok":false,"parameters":7}"#,
        r#"{"ok":false,"parameters":null}"#,
        "<html>",
    ] {
        assert_eq!(
            judged(429, Some("Sun, 06 Nov 1994 08:49:40 GMT"), body),
            flood(3),
            "{body}"
        );
        assert_eq!(
            judged(429, Some("Sun, 06 Nov 1994 08:00:00 GMT"), body),
            flood(0),
            "{body}"
        );
        assert_eq!(judged(429, Some("later"), body), flood(None), "{body}");
    }
    assert_eq!(judged(503, Some("9"), PROXY), later(ErrorCode::ServerError, 9));
}

#[test]
fn a_chat_moves_only_to_an_id() {
    let to = |id: &str| {
        says(400, "Bad Request: group chat was upgraded to a supergroup chat").replace(
            "\"error_code\"",
            &format!("\"parameters\":{{\"migrate_to_chat_id\":{id}}},\"error_code\""),
        )
    };
    let moved = |id: &str| Outcome::Moved { to: id.to_owned() };
    assert_eq!(judged(400, None, &to("-100")), moved("-100"));
    assert_eq!(judged(400, None, &to("\"-100\"")), moved("-100"));
    for id in ["1.5", "\"x\"", "null", "1e400", "[]"] {
        let outcome = judged(400, None, &to(id));
        assert!(!matches!(outcome, Outcome::Moved { .. }), "{id}");
    }
}

#[test]
fn no_answer_leaves_it_open() {
    let now = Timestamp::from_millis(NOW);
    assert_eq!(
        outcome(Err(HttpError::Timeout), now),
        ambiguous(ErrorClass::Timeout, ErrorCode::Stalled)
    );
    assert_eq!(
        outcome(Err(HttpError::Transport), now),
        ambiguous(ErrorClass::Transport, ErrorCode::BrokeOff)
    );
}
