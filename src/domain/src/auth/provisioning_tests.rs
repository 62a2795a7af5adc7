use serde_json::{Value, json};

use super::principal::{Role, Scope};
use super::provisioning::*;
use super::testing::*;
use crate::ids::{GatewayId, UserId};

fn gateway() -> Value {
    json!({"scopes": ["chat", "turns:read", "chat"], "channels": ["telegram"], "families": ["family_00demo"],
        "production": false, "assertion_jwk": p256_pair(7).jwk, "webhook_secret": "synthetic-secret-1", "status": "active"})
}

fn with(mut value: Value, member: &str, other: Value) -> Value {
    value[member] = other;
    value
}

#[test]
fn lists_are_sorted_and_without_repeats() {
    let put = GatewayPut::parse(&gateway().to_string()).unwrap();
    assert_eq!(put.scopes, [Scope::Chat, Scope::TurnsRead]);
    assert_eq!(put.status, Status::Active);
    assert!(!format!("{put:?}").contains("synthetic-secret-1"));
}

#[test]
fn bodies_that_break_a_rule_are_refused() {
    let long = "x".repeat(129);
    let gateways = [
        ("unknown member", with(gateway(), "admin", json!(true))),
        ("unknown scope", with(gateway(), "scopes", json!(["everything"]))),
        ("operator's scope", with(gateway(), "scopes", json!(["ops:write"]))),
        ("channel in capitals", with(gateway(), "channels", json!(["Telegram"]))),
        (
            "family of another shape",
            with(gateway(), "families", json!(["user_00demo"])),
        ),
        (
            "private key",
            with(gateway(), "assertion_jwk", with(p256_pair(7).jwk, "d", json!("AQ"))),
        ),
        ("short secret", with(gateway(), "webhook_secret", json!("short"))),
        (
            "secret with a space",
            with(gateway(), "webhook_secret", json!("synthetic secret one")),
        ),
        ("short token", with(gateway(), "bot_token", json!("1:abc"))),
        (
            "token that leads elsewhere",
            with(gateway(), "bot_token", json!("1:abcdef/../getMe")),
        ),
        (
            "status broken is not for operators",
            with(gateway(), "status", json!("broken")),
        ),
        ("profile empty", with(gateway(), "profile", json!(""))),
        (
            "production missing",
            json!({"scopes": [], "channels": [], "families": [], "assertion_jwk": p256_pair(7).jwk}),
        ),
    ];
    for (name, body) in gateways {
        assert!(GatewayPut::parse(&body.to_string()).is_err(), "{name}");
    }
    let user = json!({"family_id": "family_00demo", "role": "guardian", "status": "active"});
    assert!(UserPut::parse(&user.to_string()).is_ok());
    for body in [
        with(user.clone(), "role", json!("root")),
        with(user, "user_id", json!("user_00demo")),
    ] {
        assert!(UserPut::parse(&body.to_string()).is_err(), "{body}");
    }
    for subject in ["", "a\nb", &"s".repeat(256)] {
        assert!(IdentityPut::parse(&json!({ "subject": subject }).to_string()).is_err());
    }
    let address = json!({"gateway_id": "gateway_00demo", "channel": "telegram", "user_id": "user_00demo", "external_id": "1001", "status": "active"});
    assert!(AddressPut::parse(&address.to_string()).is_ok());
    assert!(AddressPut::parse(&with(address.clone(), "external_id", json!(long)).to_string()).is_err());
    assert!(AddressPut::parse(&with(address, "external_id", json!(1_001)).to_string()).is_err());
    for body in ["[]", "{}", "null", r#"["active"]"#, r#"{"status":"perhaps"}"#] {
        assert!(FamilyPut::parse(body).is_err(), "{body}");
    }
}

#[test]
fn an_upstream_has_exactly_one_source_of_usable_keys() {
    let pinned = json!({"issuer": "https://login.example", "audience": "hermod", "algorithms": ["ES256"],
        "jwks": {"keys": [p256_pair(1).named("a")]}, "status": "active"});
    assert!(UpstreamPut::parse(&pinned.to_string(), false).is_ok());
    let url = with(
        with(pinned.clone(), "jwks", json!(null)),
        "jwks_url",
        json!("https://login.example/jwks.json"),
    );
    assert!(UpstreamPut::parse(&url.to_string(), false).is_ok());
    let local = with(url.clone(), "jwks_url", json!("http://127.0.0.1:8000/jwks.json"));
    assert!(UpstreamPut::parse(&local.to_string(), true).is_ok());
    for (name, body) in [
        ("both", with(url.clone(), "jwks", pinned["jwks"].clone())),
        ("neither", with(pinned.clone(), "jwks", json!(null))),
        ("plain http", local),
        ("no algorithm", with(pinned.clone(), "algorithms", json!([]))),
        ("HS256", with(pinned.clone(), "algorithms", json!(["HS256"]))),
        (
            "no key of the algorithm",
            with(pinned.clone(), "algorithms", json!(["RS256"])),
        ),
        (
            "issuer like a gateway",
            with(pinned.clone(), "issuer", json!("gateway_00demo")),
        ),
        ("issuer empty", with(pinned, "issuer", json!(""))),
    ] {
        assert!(UpstreamPut::parse(&body.to_string(), false).is_err(), "{name}");
    }
}

#[test]
fn a_revocation_names_exactly_what_its_scope_needs() {
    let user = Revocation::User {
        user_id: UserId::parse("user_00demo").unwrap(),
    };
    let gateway = Revocation::Gateway {
        gateway_id: GatewayId::parse("gateway_00demo").unwrap(),
    };
    let read = |body: &str| Revocation::parse(body).ok();
    assert_eq!(read(r#"{"scope":"user","user_id":"user_00demo"}"#), Some(user.clone()));
    assert_eq!(read(r#"{"user_id":"user_00demo","scope":"user"}"#), Some(user));
    assert_eq!(
        read(r#"{"scope":"gateway","gateway_id":"gateway_00demo"}"#),
        Some(gateway)
    );
    assert_eq!(read(r#"{"scope":"all"}"#), Some(Revocation::All {}));
    for body in [
        "{}",
        "[]",
        r#"["all"]"#,
        r#""all""#,
        r#"{"scope":"everyone"}"#,
        r#"{"scope":["all"]}"#,
        r#"{"scope":{"all":{}}}"#,
        r#"{"scope":"user"}"#,
        r#"{"scope":"gateway"}"#,
        r#"{"user_id":"user_00demo"}"#,
        r#"{"scope":"user","user_id":"family_00demo"}"#,
        r#"{"scope":"user","user_id":null}"#,
        r#"{"scope":"user","gateway_id":"gateway_00demo"}"#,
        r#"{"scope":"user","user_id":"user_00demo","gateway_id":"gateway_00demo"}"#,
        r#"{"scope":"gateway","gateway_id":"user_00demo"}"#,
        r#"{"scope":"all","user_id":"user_00demo"}"#,
        r#"{"scope":"all","user_id":null}"#,
        r#"{"scope":"all","at":0}"#,
        r#"{"scope":"all","scope":"all"}"#,
    ] {
        assert_eq!(read(body), None, "{body}");
    }
}

#[test]
fn no_role_opens_an_operators_scope() {
    for role in Role::ALL {
        let scopes = scopes_of_role(*role);
        assert!(scopes.contains(&Scope::Chat), "{role}");
        assert!(
            !scopes.contains(&Scope::OpsRead) && !scopes.contains(&Scope::OpsWrite),
            "{role}"
        );
    }
    assert!(!scopes_of_role(Role::ChildMember).contains(&Scope::DataDelete));
}
