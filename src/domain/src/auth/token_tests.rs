use serde_json::{Value, json};

use super::principal::{AuthMethod, Role, Scope, Subject};
use super::testing::*;
use super::token::*;
use crate::ids::{FamilyId, GatewayId, UserId};
use crate::time::Millis;

const ISSUER: &str = "https://hermod.local";
const AUDIENCE: &str = "oimy-api";

fn user_grant() -> Grant {
    Grant {
        subject: Subject::User(UserId::parse("user_00demo").unwrap()),
        family: Some(FamilyId::parse("family_00demo").unwrap()),
        roles: vec![Role::Guardian],
        scopes: vec![Scope::Chat, Scope::TurnsRead],
        auth_method: AuthMethod::UserJwt,
        revision: 4,
        identity: Some(Identity {
            idp: "demo".to_owned(),
            subject: "synthetic-person-1".to_owned(),
        }),
    }
}

fn claims() -> Value {
    let now = NOW_MS / 1_000;
    json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "user_00demo", "family_id": "family_00demo", "roles": ["guardian"],
        "scope": ["chat"], "iat": now, "nbf": now, "exp": now + 3_600, "jti": "jwt_00demo", "idp": "demo",
        "idp_sub": "synthetic-person-1", "auth": "user_jwt", "rev": 4})
}

fn with(mut value: Value, member: &str, other: Value) -> Value {
    value[member] = other;
    value
}

fn without(mut value: Value, member: &str) -> Value {
    value.as_object_mut().unwrap().remove(member);
    value
}

fn header() -> Value {
    json!({"alg": "ES256", "typ": "at+jwt", "kid": "k2"})
}

fn check(token: &str) -> Result<super::Principal, TokenError> {
    verify(token, &keys(), ISSUER, AUDIENCE, now())
}

#[test]
fn a_minted_token_is_accepted_until_the_second_it_ends() {
    let later = now().plus(Millis::new(999));
    let minted = mint(&keys(), ISSUER, AUDIENCE, user_grant(), later, &Seeded::new(1)).unwrap();
    assert_eq!(
        verify(&minted.token, &keys(), ISSUER, AUDIENCE, now()),
        Ok(minted.principal.clone())
    );
    assert_eq!(minted.principal.issued_at, now());
    let end = now().plus(Millis::from_mins(60));
    assert_eq!(minted.principal.expires_at, end);
    let last = end.minus(Millis::new(1));
    assert_eq!(
        verify(&minted.token, &keys(), ISSUER, AUDIENCE, last),
        Ok(minted.principal)
    );
    assert_eq!(
        verify(&minted.token, &keys(), ISSUER, AUDIENCE, end),
        Err(TokenError::Expired)
    );
}

#[test]
fn claims_have_the_documented_names_and_shapes() {
    let minted = mint(&keys(), ISSUER, AUDIENCE, user_grant(), now(), &Seeded::new(1)).unwrap();
    let unverified = super::jws::Unverified::parse(&minted.token).unwrap();
    assert_eq!((unverified.kid(), unverified.typ()), (Some("k2"), Some("at+jwt")));
    let said: Value = unverified.peek().unwrap();
    let expected = with(
        with(claims(), "scope", json!(["chat", "turns:read"])),
        "jti",
        said["jti"].clone(),
    );
    assert_eq!(said, expected);
}

#[test]
fn lifetimes_follow_the_kind_of_caller() {
    let minutes = |method| lifetime(method).get() / 60_000;
    let all = [
        AuthMethod::UserJwt,
        AuthMethod::GatewayService,
        AuthMethod::Synthetic,
        AuthMethod::Operator,
    ];
    assert_eq!(all.map(minutes), [60, 10, 10, 15]);
    assert_eq!(
        lifetime(AuthMethod::Webhook).get(),
        0,
        "nobody holds a token of that kind"
    );
    let gateway = GatewayId::parse("gateway_00demo").unwrap();
    let grant = Grant {
        subject: Subject::Gateway(gateway.clone()),
        family: None,
        roles: vec![],
        auth_method: AuthMethod::GatewayService,
        identity: None,
        ..user_grant()
    };
    let minted = mint(&keys(), ISSUER, AUDIENCE, grant, now(), &Seeded::new(1)).unwrap();
    assert_eq!(minted.principal.gateway, Some(gateway));
    assert_eq!(minted.principal.expires_at, now().plus(Millis::from_mins(10)));
    let mut bad = user_grant();
    bad.family = None;
    assert!(mint(&keys(), ISSUER, AUDIENCE, bad, now(), &Seeded::new(1)).is_err());
}

#[test]
fn a_verifying_key_still_counts_and_a_retired_one_does_not() {
    let token = |kid: &str, number| forge(&with(header(), "kid", json!(kid)), &claims(), &p256_pair(number));
    assert!(check(&token("k2", 2)).is_ok());
    assert!(check(&token("k1", 1)).is_ok());
    assert_eq!(check(&token("k0", 3)), Err(TokenError::RetiredKey));
    assert_eq!(check(&token("k1", 2)), Err(TokenError::BadSignature));
    assert_eq!(check(&token("k9", 2)), Err(TokenError::UnknownKey));
}

/// HS256 with the bytes of a public key as its secret: what a verifier that trusts `alg` would accept.
fn hmac_with_public_key(secret: &[u8]) -> String {
    let pair = Pair {
        alg: jsonwebtoken::Algorithm::HS256,
        private: jsonwebtoken::EncodingKey::from_secret(secret),
        pem: String::new(),
        jwk: json!({}),
    };
    forge(&with(header(), "alg", json!("HS256")), &claims(), &pair)
}

#[test]
fn forged_tokens_are_refused() {
    let own = p256_pair(2);
    let other = p256_pair(9);
    let unsigned = |alg: &str| {
        let head = with(header(), "alg", json!(alg)).to_string();
        format!("{}.{}.", b64(head.as_bytes()), b64(claims().to_string().as_bytes()))
    };
    let rs256 = forge(&with(header(), "alg", json!("RS256")), &claims(), rsa_pair());
    let brings = |member: &str, value: Value| forge(&with(header(), member, value), &claims(), &other);
    let url = json!("https://keys.example/jwks.json");
    let aud = |value: Value| forge(&header(), &with(claims(), "aud", value), &own);
    let named = |kid: Value| forge(&with(header(), "kid", kid), &claims(), &own);
    let rows: Vec<(&str, String, TokenError)> = vec![
        ("alg none", unsigned("none"), TokenError::WrongAlgorithm),
        ("alg None", unsigned("None"), TokenError::WrongAlgorithm),
        (
            "alg ES256 without a signature",
            unsigned("ES256"),
            TokenError::BadSignature,
        ),
        (
            "HS256 with the public JWK",
            hmac_with_public_key(own.jwk.to_string().as_bytes()),
            TokenError::WrongAlgorithm,
        ),
        ("RS256 where the key is ES256", rs256, TokenError::WrongAlgorithm),
        (
            "jku to the signer's own keys",
            brings("jku", url.clone()),
            TokenError::BadSignature,
        ),
        (
            "x5u to the signer's own keys",
            brings("x5u", url),
            TokenError::BadSignature,
        ),
        (
            "jwk with the signer's own key",
            brings("jwk", other.named("k2")),
            TokenError::BadSignature,
        ),
        ("crit", brings("crit", json!(["exp"])), TokenError::Malformed),
        ("kid ../../x", named(json!("../../x")), TokenError::UnknownKey),
        ("kid of another case", named(json!("K2")), TokenError::UnknownKey),
        ("kid of 300 bytes", named(json!("k".repeat(300))), TokenError::Malformed),
        ("kid a number", named(json!(2)), TokenError::Malformed),
        (
            "no kid",
            forge(&without(header(), "kid"), &claims(), &own),
            TokenError::UnknownKey,
        ),
        (
            "typ of another kind",
            forge(&with(header(), "typ", json!("dpop+jwt")), &claims(), &own),
            TokenError::Malformed,
        ),
        (
            "aud oimy-api-evil",
            aud(json!("oimy-api-evil")),
            TokenError::WrongAudience,
        ),
        ("aud [[oimy-api]]", aud(json!([["oimy-api"]])), TokenError::Malformed),
        (
            "aud with a number beside",
            aud(json!(["oimy-api", 1])),
            TokenError::Malformed,
        ),
        ("aud an object", aud(json!({"oimy-api": true})), TokenError::Malformed),
        ("aud empty", aud(json!([])), TokenError::WrongAudience),
        (
            "aud in 17 names",
            aud(json!(vec![AUDIENCE; 17])),
            TokenError::WrongAudience,
        ),
    ];
    for (name, token, error) in rows {
        assert_eq!(check(&token), Err(error), "{name}");
    }
}

#[test]
fn an_audience_may_be_one_of_a_flat_array() {
    let token = forge(
        &header(),
        &with(claims(), "aud", json!(["x", "oimy-api"])),
        &p256_pair(2),
    );
    assert!(check(&token).is_ok());
}

#[test]
fn claims_out_of_bounds_are_refused() {
    let seconds = NOW_MS / 1_000;
    let rows: Vec<(&str, Value, TokenError)> = vec![
        (
            "iss of another",
            with(claims(), "iss", json!("https://hermod.local/")),
            TokenError::WrongIssuer,
        ),
        ("exp now", with(claims(), "exp", json!(seconds)), TokenError::Expired),
        ("exp missing", without(claims(), "exp"), TokenError::Malformed),
        (
            "exp text",
            with(claims(), "exp", json!("4000000000")),
            TokenError::Malformed,
        ),
        ("exp 1e300", with(claims(), "exp", json!(1e300)), TokenError::Malformed),
        ("exp negative", with(claims(), "exp", json!(-1)), TokenError::Malformed),
        (
            "life of 60 min and a second",
            with(claims(), "exp", json!(seconds + 3_601)),
            TokenError::BadLifetime,
        ),
        (
            "nbf 61 s ahead",
            with(claims(), "nbf", json!(seconds + 61)),
            TokenError::NotYetValid,
        ),
        (
            "iat 61 s ahead",
            with(claims(), "iat", json!(seconds + 61)),
            TokenError::NotYetValid,
        ),
        (
            "user without family",
            without(claims(), "family_id"),
            TokenError::BadClaims,
        ),
        (
            "user with a gateway's id",
            with(claims(), "sub", json!("gateway_00demo")),
            TokenError::BadClaims,
        ),
        (
            "unknown role",
            with(claims(), "roles", json!(["root"])),
            TokenError::Malformed,
        ),
        (
            "scope as one text",
            with(claims(), "scope", json!("chat")),
            TokenError::Malformed,
        ),
        (
            "33 scopes",
            with(claims(), "scope", json!(vec!["chat"; 33])),
            TokenError::BadClaims,
        ),
        ("rev negative", with(claims(), "rev", json!(-1)), TokenError::BadClaims),
        (
            "auth of a webhook",
            with(claims(), "auth", json!("webhook")),
            TokenError::BadLifetime,
        ),
        (
            "rev beyond 2^53",
            with(claims(), "rev", json!(9_007_199_254_740_992_i64)),
            TokenError::BadClaims,
        ),
        (
            "idp without its subject",
            without(claims(), "idp_sub"),
            TokenError::BadClaims,
        ),
        (
            "auth unknown",
            with(claims(), "auth", json!("root")),
            TokenError::Malformed,
        ),
        (
            "not an object",
            json!([ISSUER, AUDIENCE, "user_00demo"]),
            TokenError::Malformed,
        ),
    ];
    for (name, claims, error) in rows {
        assert_eq!(check(&forge(&header(), &claims, &p256_pair(2))), Err(error), "{name}");
    }
    let ahead = with(with(claims(), "nbf", json!(seconds + 60)), "iat", json!(seconds + 60));
    assert!(
        check(&forge(&header(), &ahead, &p256_pair(2))).is_ok(),
        "clocks a minute apart"
    );
    let newer = with(claims(), "scope", json!(["chat", "telepathy"]));
    assert_eq!(
        check(&forge(&header(), &newer, &p256_pair(2))).unwrap().scopes,
        [Scope::Chat]
    );
}

#[test]
fn operators_are_named_and_have_no_family() {
    let seconds = NOW_MS / 1_000;
    let operator = json!({"iss": ISSUER, "aud": AUDIENCE, "sub": "on-call", "roles": [], "scope": ["ops:read", "ops:write"],
        "iat": seconds, "nbf": seconds, "exp": seconds + 900, "jti": "jwt_00operator1", "auth": "operator", "rev": 0});
    let token = |claims: &Value| {
        forge(
            &json!({"alg": "ES256", "kid": "k2", "typ": "JWT"}),
            claims,
            &p256_pair(2),
        )
    };
    let principal = check(&token(&operator)).unwrap();
    assert_eq!(principal.subject, Subject::Operator("on-call".to_owned()));
    assert_eq!(principal.scopes, [Scope::OpsRead, Scope::OpsWrite]);
    let long = with(operator.clone(), "exp", json!(seconds + 901));
    assert_eq!(check(&token(&long)), Err(TokenError::BadLifetime));
    let in_family = with(operator, "family_id", json!("family_00demo"));
    assert_eq!(check(&token(&in_family)), Err(TokenError::BadClaims));
}

#[test]
fn mutated_tokens_never_pass_and_never_panic() {
    let seed = 20_261_130;
    println!("seed {seed}");
    let random = Seeded::new(seed);
    let keys = keys();
    let good = mint(&keys, ISSUER, AUDIENCE, user_grant(), now(), &random)
        .unwrap()
        .token;
    for _ in 0..1_500 {
        let mut bytes = good.clone().into_bytes();
        match random.below(4) {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => {
                let at = random.below(bytes.len());
                bytes.insert(at, b"A.-_=\xc3{"[random.below(7)]);
            }
            2 => {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(7);
            }
            _ => {
                let at = random.below(bytes.len());
                bytes.remove(at);
            }
        }
        let token = String::from_utf8_lossy(&bytes);
        if token != good {
            assert!(verify(&token, &keys, ISSUER, AUDIENCE, now()).is_err(), "{token}");
        }
    }
    for text in [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "é.é.é",
        &".".repeat(9_000),
        &"a".repeat(9_000),
    ] {
        assert_eq!(verify(text, &keys, ISSUER, AUDIENCE, now()), Err(TokenError::Malformed));
    }
}
