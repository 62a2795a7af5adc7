//! `openapi.json` and the route table say the same, in both directions.

use std::collections::BTreeSet;

use domain::http::routes::{Auth, BodyRule, Endpoint, ROUTES, Route};
use domain::outbox::SendChannel;
use domain::outbox::outcome::{ErrorClass, ErrorCode};
use domain::problem::Code;
use domain::turn::event::Actor;
use domain::turn::{EventType, FailureCode};
use serde_json::{Value, json};

fn document() -> Value {
    serde_json::from_str(include_str!("../../openapi.json")).unwrap()
}

fn method(route: &Route) -> String {
    route.method.as_str().to_ascii_lowercase()
}

fn operation<'a>(document: &'a Value, route: &Route) -> &'a Value {
    let operation = &document["paths"][route.pattern][method(route)];
    assert!(operation.is_object(), "{} is not described", route.label());
    operation
}

/// Follows one `$ref` of this document.
fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(pointer) => document
            .pointer(pointer.strip_prefix('#').expect("references stay inside the document"))
            .unwrap_or_else(|| panic!("{pointer} leads nowhere")),
        None => value,
    }
}

fn parameters(document: &Value, operation: &Value, place: &str) -> BTreeSet<String> {
    let all = operation["parameters"].as_array().unwrap();
    let resolved = all.iter().map(|parameter| resolve(document, parameter));
    let here = resolved.filter(|parameter| parameter["in"] == place);
    here.map(|parameter| parameter["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The problem codes that an operation names for `status`, empty where it names none.
fn codes(document: &Value, operation: &Value, status: u16) -> BTreeSet<String> {
    let response = resolve(document, &operation["responses"][status.to_string()]);
    let schema = &response["content"]["application/problem+json"]["schema"];
    let named = schema
        .pointer("/allOf/1/properties/code/enum")
        .and_then(Value::as_array);
    let named = named.into_iter().flatten();
    named.map(|code| code.as_str().unwrap().to_owned()).collect()
}

/// What the framework itself can answer on this route, whatever its handler does.
fn certain(route: &Route) -> BTreeSet<Code> {
    let mut codes = BTreeSet::from([Code::Internal]);
    if route.endpoint == Endpoint::Live {
        return codes;
    }
    codes.extend([Code::NotAcceptable, Code::Unavailable]);
    if !route.is_health() {
        codes.insert(Code::RateLimited);
    }
    if route.auth != Auth::Public {
        codes.extend([Code::Unauthenticated, Code::Overloaded]);
    }
    if route.auth == Auth::AccessToken {
        codes.extend([Code::TokenStale, Code::InsufficientScope]);
    }
    if route.idempotent_key {
        codes.extend([
            Code::IdempotencyKeyRequired,
            Code::IdempotencyKeyInvalid,
            Code::IdempotencyKeyReused,
        ]);
    }
    if route.body != BodyRule::None {
        codes.extend([Code::MalformedJson, Code::InvalidRequest, Code::PayloadTooLarge]);
        codes.extend([Code::UnsupportedMediaType, Code::InvalidBody]);
    }
    if route.pattern.contains('{') {
        codes.insert(Code::InvalidRequest);
    }
    codes
}

#[test]
fn every_described_path_and_method_is_a_route() {
    let document = document();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        described.extend(
            methods
                .as_object()
                .unwrap()
                .keys()
                .map(|method| format!("{method} {path}")),
        );
    }
    let routed: BTreeSet<_> = ROUTES
        .iter()
        .map(|route| format!("{} {}", method(route), route.pattern))
        .collect();
    assert_eq!(described, routed);
}

#[test]
fn operations_are_named_once() {
    let document = document();
    let ids: Vec<_> = ROUTES
        .iter()
        .map(|route| operation(&document, route)["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ROUTES.len(), "{ids:?}");
}

#[test]
fn security_and_scopes_agree() {
    let document = document();
    for route in ROUTES {
        let scopes: Vec<_> = route.scopes.iter().map(|scope| scope.as_str()).collect();
        let expected = match route.auth {
            Auth::Public => json!([]),
            Auth::Exchange => json!([{ "upstreamCredential": [] }]),
            Auth::Webhook => json!([{ "telegramSecret": [] }]),
            Auth::AccessToken => json!([{ "accessToken": scopes }]),
        };
        assert_eq!(operation(&document, route)["security"], expected, "{}", route.label());
    }
}

#[test]
fn parameters_agree() {
    let document = document();
    for route in ROUTES {
        let operation = operation(&document, route);
        let in_pattern = route
            .pattern
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_pattern: BTreeSet<_> = in_pattern.map(str::to_owned).collect();
        assert_eq!(
            parameters(&document, operation, "path"),
            in_pattern,
            "{}",
            route.label()
        );
        let mut headers = BTreeSet::from(["X-Request-Id".to_owned(), "Traceparent".to_owned()]);
        if route.idempotent_key {
            headers.insert("Idempotency-Key".to_owned());
        }
        assert_eq!(parameters(&document, operation, "header"), headers, "{}", route.label());
        assert_eq!(
            parameters(&document, operation, "query"),
            BTreeSet::new(),
            "{}",
            route.label()
        );
    }
    assert_eq!(document["components"]["parameters"]["IdempotencyKey"]["required"], true);
}

#[test]
fn bodies_agree() {
    let document = document();
    for route in ROUTES {
        let body = &operation(&document, route)["requestBody"];
        let required = match route.body {
            BodyRule::None => None,
            BodyRule::OptionalJson { .. } => Some(false),
            BodyRule::Json { .. } => Some(true),
        };
        assert_eq!(body["required"].as_bool(), required, "{}", route.label());
        if required.is_some() {
            let media: Vec<_> = body["content"].as_object().unwrap().keys().collect();
            assert_eq!(media, ["application/json"]);
            let schema = resolve(&document, &body["content"]["application/json"]["schema"]);
            // What a provider sends grows without us; everybody else is held to what is described.
            let open = route.auth == Auth::Webhook;
            assert_eq!(schema["additionalProperties"], open, "{}", route.label());
        }
    }
}

#[test]
fn media_types_of_answers_agree() {
    let document = document();
    for route in ROUTES {
        let success = &operation(&document, route)["responses"]["200"]["content"];
        let described: BTreeSet<_> = success
            .as_object()
            .into_iter()
            .flat_map(|content| content.keys())
            .collect();
        let produced: BTreeSet<_> = route.produces.iter().map(|media| media.as_str().to_owned()).collect();
        // The removed endpoint never succeeds.
        let gone = route.endpoint == Endpoint::RemovedToken;
        let expected = if gone {
            BTreeSet::new()
        } else {
            produced.iter().collect()
        };
        assert_eq!(described, expected, "{}", route.label());
    }
}

#[test]
fn problems_are_described_under_their_status() {
    let document = document();
    for route in ROUTES {
        let operation = operation(&document, route);
        for code in certain(route) {
            let named = codes(&document, operation, code.status());
            assert!(named.contains(code.slug()), "{}: {}", route.label(), code.slug());
        }
        for status in operation["responses"].as_object().unwrap().keys() {
            let status: u16 = status.parse().unwrap();
            for slug in codes(&document, operation, status) {
                let code = Code::from_slug(&slug).unwrap_or_else(|| panic!("{slug} is no code"));
                assert_eq!(code.status(), status, "{}: {slug}", route.label());
            }
            assert!(
                status == 200 || !codes(&document, operation, status).is_empty(),
                "{}: {status}",
                route.label()
            );
        }
    }
}

#[test]
fn every_code_is_described_once() {
    let document = document();
    let described: Vec<_> = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
        .as_array()
        .unwrap()
        .iter()
        .map(|code| code.as_str().unwrap())
        .collect();
    let codes: Vec<_> = Code::ALL.iter().map(|code| code.slug()).collect();
    assert_eq!(described, codes);
}

#[test]
fn what_a_turn_tells_is_described_as_it_is_named() {
    let document = document();
    let described = |pointer: &str| -> Vec<String> {
        let names = document
            .pointer(&format!("/components/schemas/{pointer}/enum"))
            .unwrap();
        let names = names.as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let events: Vec<_> = EventType::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(described("TurnEvent/properties/type"), events);
    let actors: Vec<_> = Actor::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(described("TurnEvent/properties/actor"), actors);
    let failures: Vec<_> = FailureCode::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(described("TurnFailure/properties/code"), failures);
}

#[test]
fn what_an_outside_sender_may_say_is_described_as_it_is_named() {
    let document = document();
    let described = |pointer: &str| -> Vec<String> {
        let names = document
            .pointer(&format!("/components/schemas/{pointer}/enum"))
            .unwrap();
        let names = names.as_array().unwrap().iter();
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let channels: Vec<_> = SendChannel::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(described("OutboxClaim/properties/channel"), channels);
    let classes: Vec<_> = ErrorClass::ALL
        .iter()
        .filter(|one| !one.is_own())
        .map(|one| one.as_str())
        .collect();
    assert_eq!(described("OutboxFailure/properties/error_class"), classes);
    let codes: Vec<_> = ErrorCode::ALL
        .iter()
        .filter(|one| !one.is_own())
        .map(|one| one.as_str())
        .collect();
    assert_eq!(described("OutboxFailure/properties/error_code"), codes);
}

#[test]
fn every_reference_leads_somewhere_and_every_component_is_used() {
    let document = document();
    let mut used = BTreeSet::new();
    collect_references(&document, &document, &mut used);
    let mut there = BTreeSet::new();
    for (kind, named) in document["components"].as_object().unwrap() {
        if kind != "securitySchemes" {
            there.extend(
                named
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(|name| format!("#/components/{kind}/{name}")),
            );
        }
    }
    assert_eq!(used, there);
}

fn collect_references(document: &Value, value: &Value, used: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(pointer)) = members.get("$ref") {
                resolve(document, value);
                used.insert(pointer.clone());
            }
            members
                .values()
                .for_each(|member| collect_references(document, member, used));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(document, item, used)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
