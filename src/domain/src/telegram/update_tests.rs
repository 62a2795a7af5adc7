use serde_json::json;

use super::*;

fn update(member: &str, value: &Value) -> Update {
    read(&json!({"update_id": 7, member: value}).to_string())
}

fn read(body: &str) -> Update {
    parse(body).ok().unwrap()
}

fn private(members: &Value) -> Value {
    let mut message = json!({"message_id": 1, "date": 1_783_728_000, "chat": {"id": 1001, "type": "private"},
        "from": {"id": 1001, "is_bot": false, "first_name": "Ann", "language_code": "de"}});
    for (name, value) in members.as_object().unwrap() {
        message[name] = value.clone();
    }
    message
}

fn said(members: &Value) -> Content {
    update("message", &private(members)).message.unwrap().content
}

fn words(text: &str) -> Content {
    Content::Words(text.to_owned())
}

#[test]
fn a_message_of_a_person_is_read() {
    let update = update("message", &private(&json!({"text": "hi\n"})));
    assert!(update.id == 7 && update.kind == UpdateKind::Message);
    let message = update.message.unwrap();
    assert!(message.is_from_a_person());
    assert!(message.content == words("hi\n"));
    assert_eq!((message.chat_id, message.sender_id), (1001, Some(1001)));
    assert_eq!(message.language.as_deref(), Some("de"));
}

#[test]
fn every_kind_is_known_by_the_member_that_is_there() {
    for kind in UpdateKind::ALL.iter().filter(|kind| **kind != UpdateKind::Unknown) {
        let update = update(kind.as_str(), &json!({"id": "x"}));
        assert_eq!(update.kind, *kind);
        assert!(update.message.is_none());
    }
    for body in [
        r#"{"update_id":1}"#,
        r#"{"update_id":1,"message":null}"#,
        r#"{"update_id":1,"brand_new":{"chat":{"id":1,"type":"private"}}}"#,
        r#"{"update_id":1,"unknown":{}}"#,
    ] {
        assert!(
            read(body).kind == UpdateKind::Unknown || body.contains("unknown"),
            "{body}"
        );
        assert!(read(body).message.is_none(), "{body}");
    }
    assert_eq!(
        read(r#"{"update_id":1,"message":null,"poll":{}}"#).kind,
        UpdateKind::Poll
    );
}

#[test]
fn groups_channels_bots_and_nobody_are_not_persons() {
    let with = |path: &str, value: Value| {
        let mut message = private(&json!({"text": "hi"}));
        *message.pointer_mut(path).unwrap() = value;
        update("message", &message).message.unwrap()
    };
    assert!(with("/text", json!("other")).is_from_a_person());
    for kind in ["group", "supergroup", "channel", "PRIVATE", ""] {
        assert!(!with("/chat/type", json!(kind)).is_from_a_person(), "{kind}");
    }
    assert!(with("/from/is_bot", json!(true)).from_bot);
    for (path, value) in [
        ("/from/is_bot", json!(true)),
        ("/from/is_bot", json!("false")),
        ("/from/id", json!(1002)),
        ("/from/id", Value::Null),
        ("/from", Value::Null),
        ("/chat/type", Value::Null),
    ] {
        assert!(!with(path, value.clone()).is_from_a_person(), "{path}: {value}");
    }
}

#[test]
fn ids_are_exact_over_all_of_int64() {
    for id in [i64::MAX, i64::MIN, 9_007_199_254_740_993, -1_001_557_912_345, 0] {
        let body = format!(
            r#"{{"update_id":{id},"message":{{"chat":{{"id":{id},"type":"private"}},"from":{{"id":{id},"is_bot":false}}}}}}"#
        );
        let update = read(&body);
        let message = update.message.unwrap();
        assert_eq!((update.id, message.chat_id, message.sender_id), (id, id, Some(id)));
    }
    for id in ["9223372036854775808", "1.5", "1e3", "\"1\"", "true", "null", "[1]"] {
        let chat = format!(r#"{{"update_id":1,"message":{{"chat":{{"id":{id},"type":"private"}}}}}}"#);
        assert!(read(&chat).message.is_none(), "{id}");
        assert_eq!(
            parse(&format!(r#"{{"update_id":{id}}}"#)).err(),
            Some(NotAnUpdate::NoId),
            "{id}"
        );
    }
}

#[test]
fn commands_are_ours_only_by_their_whole_name_at_the_beginning() {
    let code = |code: &str| Content::Start(Some(code.to_owned()));
    for (text, expected) in [
        ("/start", Content::Start(None)),
        ("/start  ", Content::Start(None)),
        ("/start ABC", code("ABC")),
        ("/start@hermod_bot ABC", code("ABC")),
        ("/START\nabc def", code("abc")),
        ("/stop", Content::Stop),
        ("/stop now", Content::Stop),
        ("/Help@bot", Content::Help),
        ("/started", words("/started")),
        ("/settings", words("/settings")),
        (" /stop", words(" /stop")),
        ("stop", words("stop")),
        ("/", words("/")),
        ("", words("")),
        ("please /start", words("please /start")),
    ] {
        assert!(said(&json!({ "text": text })) == expected, "{text}");
    }
    assert!(
        said(&json!({"photo": [], "caption": "/stop"})) == words("/stop"),
        "a caption commands nothing"
    );
}

#[test]
fn what_has_no_words_is_told_apart_from_what_nobody_sent() {
    assert!(said(&json!({"photo": [{}], "caption": "look"})) == words("look"));
    for media in MEDIA {
        assert!(said(&json!({ *media: {} })) == Content::Wordless, "{media}");
        assert!(said(&json!({ *media: null })) == Content::Service, "{media}");
    }
    for notice in [
        "pinned_message",
        "message_auto_delete_timer_changed",
        "successful_payment",
        "brand_new",
    ] {
        assert!(said(&json!({ notice: {} })) == Content::Service, "{notice}");
    }
    for text in [json!(7), json!(null), json!(["x"]), json!({})] {
        assert!(said(&json!({"text": text, "sticker": {}})) == Content::Wordless);
    }
}

#[test]
fn a_language_is_kept_only_if_it_is_one() {
    for (tag, expected) in [
        (json!("pt-br"), Some("pt-br")),
        (json!("my secret"), None),
        (json!(1), None),
    ] {
        let message = private(&json!({"text": "hi", "from": {"id": 1001, "is_bot": false, "language_code": tag}}));
        assert_eq!(
            update("message", &message).message.unwrap().language.as_deref(),
            expected
        );
    }
}

#[test]
fn what_is_no_update_is_refused() {
    for body in ["", "{", "hello", "{\"update_id\":1,\"update_id\":1}", "\u{feff}{}"] {
        assert_eq!(parse(body).err(), Some(NotAnUpdate::Malformed), "{body}");
    }
    for body in [
        "{}",
        "[]",
        "null",
        "7",
        "\"update_id\"",
        r#"[{"update_id":1}]"#,
        r#"{"message":{}}"#,
    ] {
        assert_eq!(parse(body).err(), Some(NotAnUpdate::NoId), "{body}");
    }
}

/// Cuts, swaps and repeats bytes of real updates: whatever comes out is answered.
#[test]
fn no_body_makes_it_panic() {
    let whole =
        json!({"update_id": 7, "message": private(&json!({"text": "/start ÄÖÜ😀", "caption": "x"}))}).to_string();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut read_well = 0;
    for _ in 0..30_000 {
        let mut bytes = whole.clone().into_bytes();
        for _ in 0..=next(3) {
            let (from, to) = (next(bytes.len()), next(bytes.len()));
            match next(4) {
                0 => bytes[from] = b"{}[]\",:0n\\ "[next(11)],
                1 => bytes.truncate(from.max(1)),
                2 => bytes.swap(from, to),
                _ => bytes.insert(from, bytes[to]),
            }
        }
        let body = String::from_utf8_lossy(&bytes);
        read_well += usize::from(parse(&body).is_ok());
    }
    assert!(read_well > 100, "{read_well} were still updates");
}
