use super::*;
use crate::model::{ContextLine, Message, Role};
use crate::time::Millis;

const PRICES: Prices = Prices {
    input: 3_000_000,
    output: 15_000_000,
};

fn read(body: &str) -> Result<(Vec<String>, Finished), ModelError> {
    read_pieces(&[body.as_bytes()])
}

fn read_pieces(pieces: &[&[u8]]) -> Result<(Vec<String>, Finished), ModelError> {
    let mut answer = Answer::default();
    let mut deltas = Vec::new();
    for piece in pieces {
        deltas.extend(answer.push(piece)?);
    }
    let (finished, rest) = answer.finish(PRICES)?;
    deltas.extend(rest);
    Ok((deltas, finished))
}

fn refused(body: &str) -> ModelError {
    read(body).map(|_| ()).unwrap_err()
}

fn delta(text: &str) -> String {
    format!(
        "data: {}\n\n",
        json!({"model": "m-1", "choices": [{"delta": {"content": text}}]})
    )
}

const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":7}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn a_stream_is_read_with_its_usage_however_it_is_split() {
    let body = [&delta("Grüß "), ": ping\n\n", &delta("dich"), STOP, USAGE, DONE].concat();
    for at in 0..=body.len() {
        let (head, tail) = body.as_bytes().split_at(at);
        let Ok((deltas, finished)) = read_pieces(&[head, tail]) else {
            panic!("split at {at}")
        };
        assert_eq!(deltas, ["Grüß ", "dich"]);
        assert_eq!(finished.text, "Grüß dich");
        assert_eq!(finished.model.as_deref(), Some("m-1"));
        // 1000 × 3 + 7 × 15 millionths.
        let usage = Usage {
            input_tokens: 1000,
            output_tokens: 7,
            cost_microunits: 3_105,
        };
        assert_eq!(finished.usage, usage);
    }
}

#[test]
fn a_document_is_read_as_one_piece() {
    let body = "\n {\"model\":\"m-2\",\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"All at once\"},\
                \"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":0}}";
    for at in 0..=body.len() {
        let (head, tail) = body.as_bytes().split_at(at);
        let Ok((deltas, finished)) = read_pieces(&[head, tail]) else {
            panic!("split at {at}")
        };
        assert_eq!(deltas, ["All at once"]);
        assert_eq!(finished.text, "All at once");
        assert_eq!(finished.usage.cost_microunits, 3);
    }
}

#[test]
fn a_stream_is_complete_with_done_or_a_finish_reason_and_not_otherwise() {
    assert!(read(&[&delta("a"), DONE].concat()).is_ok());
    let Ok((_, finished)) = read(&[&delta("a"), STOP].concat()) else {
        panic!("finished")
    };
    assert_eq!(finished.usage, Usage::default());
    assert_eq!(refused(&delta("a")), ModelError::Unavailable);
    assert_eq!(refused(""), ModelError::Unavailable);
    assert_eq!(refused("{\"choices\":[{\"mess"), ModelError::Malformed);
}

#[test]
fn reading_may_stop_once_everything_is_known() {
    let counting = r#"data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let mut answer = Answer::default();
    let mut known = |piece: &str| {
        assert!(answer.push(piece.as_bytes()).is_ok());
        (answer.is_finished(), answer.is_complete())
    };
    assert_eq!(known(&format!("{counting}\n\n")), (false, false), "counted in between");
    assert_eq!(known(STOP), (true, false), "the usage comes behind the finish reason");
    assert_eq!(known(USAGE), (true, true));

    let mut answer = Answer::default();
    assert!(answer.push([&delta("a"), DONE].concat().as_bytes()).is_ok());
    assert_eq!((answer.is_finished(), answer.is_complete()), (true, true));
}

#[test]
fn odd_counts_do_not_lose_the_answer() {
    for (count, expected) in [
        ("null", 0),
        ("-1", 0),
        ("1.5", 0),
        ("\"7\"", 0),
        ("99999999999", u32::MAX),
    ] {
        let usage = format!("data: {{\"choices\":null,\"usage\":{{\"prompt_tokens\":{count}}}}}\n\n");
        let Ok((_, finished)) = read(&[&delta("a"), STOP, &usage].concat()) else {
            panic!("{count}")
        };
        assert_eq!(
            (finished.usage.input_tokens, finished.usage.output_tokens),
            (expected, 0),
            "{count}"
        );
    }
}

/// Damaged streams end in an answer within its bounds or in an error, never in a panic.
#[test]
fn damaged_streams_are_survived() {
    let body = [&delta("Grüß "), ": ping\n\n", &delta("dich"), STOP, USAGE, DONE]
        .concat()
        .into_bytes();
    let mut state = 1_u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let (mut answers, mut errors) = (0, 0);
    for _ in 0..5_000 {
        let mut damaged = body.clone();
        for _ in 0..=draw(3) {
            let at = draw(damaged.len());
            match draw(3) {
                0 => damaged[at] = u8::try_from(draw(256)).unwrap(),
                1 => damaged.truncate(at.max(1)),
                _ => damaged.insert(at, u8::try_from(draw(256)).unwrap()),
            }
        }
        let (head, tail) = damaged.split_at(draw(damaged.len()));
        match read_pieces(&[head, tail]) {
            Ok((deltas, finished)) => {
                assert_eq!(deltas.concat(), finished.text);
                answers += 1;
            }
            Err(_) => errors += 1,
        }
    }
    assert!(answers > 500 && errors > 500, "{answers} answers, {errors} errors");
}

#[test]
fn empty_and_foreign_answers_are_malformed() {
    assert_eq!(refused(&[STOP, DONE].concat()), ModelError::Malformed);
    assert_eq!(refused(&[&delta(" \n"), DONE].concat()), ModelError::Malformed);
    assert_eq!(refused("data: nonsense\n\n"), ModelError::Malformed);
    assert_eq!(refused("data: {\"choices\":7}\n\n"), ModelError::Malformed);
    assert_eq!(refused("{\"choices\":[]}"), ModelError::Malformed);
    assert_eq!(refused("<html>busy</html>"), ModelError::Unavailable);
}

#[test]
fn failures_inside_the_stream_are_told_apart() {
    let limited = ModelError::RateLimited { retry_after: None };
    for (error, expected) in [
        (json!({"message": "slow down", "type": "rate_limit_exceeded"}), limited),
        (json!({"message": "slow down", "code": 429}), limited),
        (
            json!({"message": "bad", "type": "invalid_request_error"}),
            ModelError::Rejected,
        ),
        (json!({"message": "bad", "code": 400}), ModelError::Rejected),
        (json!({"code": "content_filter"}), ModelError::Rejected),
        (
            json!({"message": "oops", "type": "server_error"}),
            ModelError::Unavailable,
        ),
        (json!({"code": 502}), ModelError::Unavailable),
        (json!("oops"), ModelError::Unavailable),
    ] {
        let body = [delta("half"), format!("data: {}\n\n", json!({"error": error}))].concat();
        assert_eq!(refused(&body), expected, "{error}");
        assert_eq!(refused(&json!({"error": error}).to_string()), expected, "{error}");
    }
}

#[test]
fn an_answer_ends_at_48_kib() {
    let most = "x".repeat(ANSWER_BYTES_MAX);
    let Ok((_, finished)) = read(&[&delta(&most), DONE].concat()) else {
        panic!("within the limit")
    };
    assert_eq!(finished.text.len(), 49_152);
    assert_eq!(
        refused(&[&delta(&most), &delta("x"), DONE].concat()),
        ModelError::TooLong
    );
    let document = json!({"choices": [{"message": {"content": format!("{most}x")}}]}).to_string();
    assert_eq!(refused(&document), ModelError::TooLong);
    assert_eq!(
        refused(&format!("{{{}", " ".repeat(DOCUMENT_BYTES_MAX))),
        ModelError::TooLong
    );
}

#[test]
fn a_stream_without_text_does_not_run_on_for_ever() {
    let mut answer = Answer::default();
    let comment = [b": ".as_slice(), &[b'x'; 65_000], b"\n\n"].concat();
    let outcome = (0..1_000).find_map(|_| answer.push(&comment).err());
    assert_eq!(outcome, Some(ModelError::TooLong));
}

#[test]
fn statuses_are_told_apart() {
    let now = Timestamp::from_millis(1_783_728_000_000);
    let limited = |retry_after| ModelError::RateLimited { retry_after };
    assert_eq!(refusal(429, Some("7"), now), limited(Some(Millis::from_secs(7))));
    assert_eq!(refusal(429, Some("soon"), now), limited(None));
    assert_eq!(refusal(429, None, now), limited(None));
    for status in [500, 502, 503, 504, 520, 530, 408, 425] {
        assert_eq!(refusal(status, Some("7"), now), ModelError::Unavailable, "{status}");
    }
    for status in [301, 302, 400, 401, 403, 404, 413, 422] {
        assert_eq!(refusal(status, None, now), ModelError::Rejected, "{status}");
    }
    for status in [0, 101, 201, 204, 600] {
        assert_eq!(refusal(status, None, now), ModelError::Malformed, "{status}");
    }
}

#[test]
fn the_request_carries_the_session_and_asks_for_a_stream_with_usage() {
    let prompt = Prompt {
        system: "Be kind.",
        context: vec![ContextLine {
            name: "time zone",
            value: "Europe/Berlin".to_owned(),
        }],
        messages: vec![
            Message {
                role: Role::Assistant,
                text: "Hi".to_owned(),
            },
            Message {
                role: Role::User,
                text: "\"Hello\"\n".to_owned(),
            },
        ],
    };
    let body: Value = serde_json::from_slice(&request_body(&prompt, "grok-4")).unwrap();
    let expected = json!({
        "model": "grok-4",
        "messages": [
            {"role": "system", "content": "Be kind.\ntime zone: Europe/Berlin"},
            {"role": "assistant", "content": "Hi"},
            {"role": "user", "content": "\"Hello\"\n"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    assert_eq!(body, expected);
}

#[test]
fn addresses_are_completed() {
    for (base, expected) in [
        ("https://a.example/v1", "https://a.example/v1/chat/completions"),
        ("https://a.example/v1/", "https://a.example/v1/chat/completions"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9/chat/completions"),
        (
            "https://a.example/chat/completions",
            "https://a.example/chat/completions",
        ),
    ] {
        assert_eq!(endpoint(&Url::parse(base).unwrap()), expected);
    }
}

#[test]
fn what_is_no_model_name_is_not_taken_for_one() {
    for name in ["", "a b", "a\n", "modèle", "x".repeat(129).as_str()] {
        let event = json!({"model": name, "choices": [{"delta": {"content": "a"}}]});
        let Ok((_, finished)) = read(&format!("data: {event}\n\n{DONE}")) else {
            panic!("an answer")
        };
        assert_eq!(finished.model, None, "{name:?}");
    }
}
