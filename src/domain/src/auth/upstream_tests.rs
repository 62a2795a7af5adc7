use serde_json::{Value, json};

use super::assertion::{self, AssertionError};
use super::jwk::{KeyRing, PublicKey};
use super::jws::{Algorithm, Unverified};
use super::testing::*;
use super::token::Identity;
use super::upstream::*;
use crate::ids::GatewayId;
use crate::time::Millis;

const SECONDS: i64 = NOW_MS / 1_000;

fn upstream(algorithms: &[Algorithm]) -> Upstream {
    let keys = json!({"keys": [p256_pair(1).named("ec"), rsa_pair().named("rsa"), ed25519_pair().named("ed")]});
    Upstream {
        idp: "demo".to_owned(),
        issuer: "https://login.example".to_owned(),
        audience: "hermod".to_owned(),
        algorithms: algorithms.to_vec(),
        keys: KeySource::Pinned(KeyRing::parse(keys.to_string().as_bytes()).unwrap()),
    }
}

const ALL: &[Algorithm] = &[Algorithm::Es256, Algorithm::Rs256, Algorithm::EdDsa];

fn claims() -> Value {
    json!({"iss": "https://login.example", "aud": "hermod", "sub": "synthetic-person-1", "iat": SECONDS, "exp": SECONDS + 300})
}

fn with(mut value: Value, member: &str, other: Value) -> Value {
    value[member] = other;
    value
}

fn header(alg: &str, kid: &str) -> Value {
    json!({"alg": alg, "kid": kid, "typ": "JWT"})
}

/// As the exchange does it: find the key by name, then verify.
fn check(token: &str, upstream: &Upstream) -> Result<Identity, Option<IdentityError>> {
    let token = Unverified::parse(token).map_err(|error| Some(error.into()))?;
    let KeySource::Pinned(ring) = &upstream.keys else {
        panic!("pinned")
    };
    let key = ring.find(token.kid()).ok_or(None)?;
    verify(&token, upstream, key, now()).map_err(Some)
}

#[test]
fn each_allowed_algorithm_is_accepted_from_its_own_key() {
    let expected = Identity {
        idp: "demo".to_owned(),
        subject: "synthetic-person-1".to_owned(),
    };
    let ed = ed25519_pair();
    for (alg, kid, pair) in [
        ("ES256", "ec", &p256_pair(1)),
        ("RS256", "rsa", rsa_pair()),
        ("EdDSA", "ed", &ed),
    ] {
        let token = forge(&header(alg, kid), &claims(), pair);
        assert_eq!(check(&token, &upstream(ALL)), Ok(expected.clone()), "{alg}");
    }
}

#[test]
fn an_algorithm_that_is_not_allowed_is_refused_even_with_a_good_key() {
    let token = forge(&header("RS256", "rsa"), &claims(), rsa_pair());
    assert_eq!(
        check(&token, &upstream(&[Algorithm::Es256])),
        Err(Some(IdentityError::WrongAlgorithm))
    );
}

#[test]
fn forged_identity_tokens_are_refused() {
    let ec = p256_pair(1);
    let other = p256_pair(9);
    let body = claims().to_string();
    let none = format!(
        "{}.{}.",
        b64(header("none", "ec").to_string().as_bytes()),
        b64(body.as_bytes())
    );
    let hmac = Pair {
        alg: jsonwebtoken::Algorithm::HS256,
        private: jsonwebtoken::EncodingKey::from_secret(rsa_pair().jwk.to_string().as_bytes()),
        pem: String::new(),
        jwk: json!({}),
    };
    let brings = |member: &str, value: Value| forge(&with(header("ES256", "ec"), member, value), &claims(), &other);
    let says = |member: &str, value: Value| forge(&header("ES256", "ec"), &with(claims(), member, value), &ec);
    let url = json!("https://keys.example/jwks.json");
    let rows: Vec<(&str, String, Option<IdentityError>)> = vec![
        ("alg none", none, Some(IdentityError::WrongAlgorithm)),
        (
            "HS256 with the public key",
            forge(&header("HS256", "rsa"), &claims(), &hmac),
            Some(IdentityError::WrongAlgorithm),
        ),
        (
            "RS256 where the key is ES256",
            forge(&header("RS256", "ec"), &claims(), rsa_pair()),
            Some(IdentityError::WrongAlgorithm),
        ),
        ("jku", brings("jku", url.clone()), Some(IdentityError::BadSignature)),
        ("x5u", brings("x5u", url), Some(IdentityError::BadSignature)),
        (
            "jwk",
            brings("jwk", other.named("ec")),
            Some(IdentityError::BadSignature),
        ),
        ("kid ../../x", forge(&header("ES256", "../../x"), &claims(), &ec), None),
        (
            "aud hermod-evil",
            says("aud", json!("hermod-evil")),
            Some(IdentityError::WrongAudience),
        ),
        (
            "aud [[hermod]]",
            says("aud", json!([["hermod"]])),
            Some(IdentityError::Malformed),
        ),
        (
            "iss with a slash more",
            says("iss", json!("https://login.example/")),
            Some(IdentityError::WrongIssuer),
        ),
        (
            "exp 60 s ago",
            says("exp", json!(SECONDS - 60)),
            Some(IdentityError::Expired),
        ),
        (
            "nbf 61 s ahead",
            says("nbf", json!(SECONDS + 61)),
            Some(IdentityError::NotYetValid),
        ),
        (
            "iat 61 s ahead",
            says("iat", json!(SECONDS + 61)),
            Some(IdentityError::NotYetValid),
        ),
        ("sub empty", says("sub", json!("")), Some(IdentityError::BadSubject)),
        (
            "sub of 256 bytes",
            says("sub", json!("s".repeat(256))),
            Some(IdentityError::BadSubject),
        ),
        (
            "sub with a line break",
            says("sub", json!("a\nb")),
            Some(IdentityError::BadSubject),
        ),
        ("sub a number", says("sub", json!(7)), Some(IdentityError::Malformed)),
    ];
    for (name, token, error) in rows {
        assert_eq!(check(&token, &upstream(ALL)), Err(error), "{name}");
    }
    for (name, token) in [
        ("aud among others", says("aud", json!(["x", "hermod"]))),
        ("exp 59 s ago", says("exp", json!(SECONDS - 59))),
        ("exp with a fraction", says("exp", json!(300.75 + 1_783_728_000.0))),
    ] {
        assert!(check(&token, &upstream(ALL)).is_ok(), "{name}");
    }
}

#[test]
fn who_presents_a_token_is_read_from_iss_and_sub() {
    let presented = |claims: Value| {
        let token = forge(&header("ES256", "ec"), &claims, &p256_pair(1));
        presented_by(&Unverified::parse(&token).unwrap())
    };
    let gateway = GatewayId::parse("gateway_00demo").unwrap();
    let both = json!({"iss": "gateway_00demo", "sub": "gateway_00demo"});
    assert_eq!(presented(both.clone()), Ok(Presented::Gateway(gateway)));
    assert_eq!(
        presented(with(both, "sub", json!("x"))),
        Ok(Presented::Issuer("gateway_00demo".to_owned()))
    );
    assert_eq!(
        presented(claims()),
        Ok(Presented::Issuer("https://login.example".to_owned()))
    );
    assert_eq!(
        presented(json!(["gateway_00demo", "gateway_00demo"])),
        Err(IdentityError::Malformed)
    );
    assert_eq!(presented(json!({"sub": "x"})), Err(IdentityError::Malformed));
}

#[test]
fn key_set_urls_are_https_and_plain() {
    assert!(is_jwks_url("https://login.example/jwks.json", false));
    assert!(is_jwks_url("http://127.0.0.1:9/jwks.json", true));
    for url in [
        "http://login.example/jwks.json",
        "https://user@login.example/",
        "https://login.example/#f",
        "ftp://login.example/",
        "login",
        "http://127.0.0.1:9/jwks.json",
        "",
    ] {
        assert!(!is_jwks_url(url, false), "{url}");
    }
    assert!(!is_jwks_url("http://login.example/", true));
    assert!(is_idp_name("demo-1") && !is_idp_name("Demo") && !is_idp_name("") && !is_idp_name(&"d".repeat(33)));
}

const ISSUER: &str = "https://hermod.local";

fn assertion() -> Value {
    json!({"iss": "gateway_00demo", "sub": "gateway_00demo", "aud": ISSUER, "iat": SECONDS, "exp": SECONDS + 300, "jti": "a-1"})
}

fn assert_gateway(header: &Value, claims: &Value, pair: &Pair) -> Result<assertion::Assertion, AssertionError> {
    let token = forge(header, claims, pair);
    let token = Unverified::parse(&token).map_err(AssertionError::from)?;
    let key = PublicKey::from_value(p256_pair(7).named("g")).unwrap();
    assertion::verify(
        &token,
        &GatewayId::parse("gateway_00demo").unwrap(),
        &key,
        ISSUER,
        now(),
    )
}

#[test]
fn a_good_assertion_names_its_gateway_and_how_long_to_remember_it() {
    let good = assert_gateway(&header("ES256", "g"), &assertion(), &p256_pair(7)).unwrap();
    assert_eq!((good.gateway.as_str(), good.jti.as_str()), ("gateway_00demo", "a-1"));
    assert_eq!(good.remember_until, now().plus(Millis::from_secs(360)));
    let mut no_iat = assertion();
    no_iat.as_object_mut().unwrap().remove("iat");
    assert!(
        assert_gateway(&json!({"alg": "ES256"}), &no_iat, &p256_pair(7)).is_ok(),
        "no kid, no iat"
    );
}

#[test]
fn bad_assertions_are_refused() {
    let says = |member: &str, value: Value| with(assertion(), member, value);
    let mut no_jti = assertion();
    no_jti.as_object_mut().unwrap().remove("jti");
    let mut no_iat = says("exp", json!(SECONDS + 361));
    no_iat.as_object_mut().unwrap().remove("iat");
    let rows: Vec<(&str, Value, AssertionError)> = vec![
        (
            "iss of another gateway",
            says("iss", json!("gateway_00other")),
            AssertionError::WrongSubject,
        ),
        (
            "sub a user",
            says("sub", json!("user_00demo")),
            AssertionError::WrongSubject,
        ),
        (
            "aud the access tokens' audience",
            says("aud", json!("oimy-api")),
            AssertionError::WrongAudience,
        ),
        (
            "life of 301 s",
            says("exp", json!(SECONDS + 301)),
            AssertionError::TooLong,
        ),
        ("no iat and 361 s to go", no_iat, AssertionError::TooLong),
        (
            "issued before and too long",
            says("iat", json!(SECONDS - 1)),
            AssertionError::TooLong,
        ),
        (
            "exp 60 s ago",
            with(says("exp", json!(SECONDS - 60)), "iat", json!(SECONDS - 300)),
            AssertionError::Expired,
        ),
        (
            "nbf 61 s ahead",
            says("nbf", json!(SECONDS + 61)),
            AssertionError::NotYetValid,
        ),
        ("no jti", no_jti, AssertionError::Malformed),
        ("jti empty", says("jti", json!("")), AssertionError::BadId),
        (
            "jti of 129 bytes",
            says("jti", json!("j".repeat(129))),
            AssertionError::BadId,
        ),
    ];
    for (name, claims, error) in rows {
        assert_eq!(
            assert_gateway(&header("ES256", "g"), &claims, &p256_pair(7)),
            Err(error),
            "{name}"
        );
    }
    let good = assertion();
    assert_eq!(
        assert_gateway(&header("ES256", "x"), &good, &p256_pair(7)),
        Err(AssertionError::UnknownKey)
    );
    assert_eq!(
        assert_gateway(&header("ES256", "g"), &good, &p256_pair(8)),
        Err(AssertionError::BadSignature)
    );
    assert_eq!(
        assert_gateway(&header("RS256", "g"), &good, rsa_pair()),
        Err(AssertionError::WrongAlgorithm)
    );
}
