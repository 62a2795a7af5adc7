use serde_json::{Value, json};

use super::jwk::*;
use super::jws::{Algorithm, Unverified};
use super::testing::*;

fn with(pair: &Pair, member: &str, value: Value) -> Value {
    let mut jwk = pair.jwk.clone();
    jwk[member] = value;
    jwk
}

#[test]
fn the_key_fixes_the_algorithm() {
    let algorithm = |jwk: &Value| PublicKey::parse(&jwk.to_string()).map(|key| key.algorithm());
    assert_eq!(algorithm(&p256_pair(1).jwk), Ok(Algorithm::Es256));
    assert_eq!(algorithm(&rsa_pair().jwk), Ok(Algorithm::Rs256));
    assert_eq!(algorithm(&ed25519_pair().jwk), Ok(Algorithm::EdDsa));
}

#[test]
fn unusable_keys_are_refused_with_the_reason() {
    let ec = p256_pair(1);
    let rsa = rsa_pair();
    let ed = ed25519_pair();
    let rows: Vec<(&str, Value, JwkError)> = vec![
        ("RSA of 1024 bits", short_rsa_pair().jwk, JwkError::BadParameters),
        (
            "RSA of 8192 bits",
            with(rsa, "n", json!(b64(&[0xff; 1_024]))),
            JwkError::BadParameters,
        ),
        (
            "RSA padded with zeros",
            with(rsa, "n", json!(b64(&[vec![0; 200], vec![0xff; 128]].concat()))),
            JwkError::BadParameters,
        ),
        (
            "RSA even modulus",
            with(rsa, "n", json!(b64(&[0xfe; 256]))),
            JwkError::BadParameters,
        ),
        (
            "RSA exponent 1",
            with(rsa, "e", json!(b64(&[1]))),
            JwkError::BadParameters,
        ),
        (
            "RSA huge exponent",
            with(rsa, "e", json!(b64(&[0xff; 256]))),
            JwkError::BadParameters,
        ),
        ("RSA for PS256", with(rsa, "alg", json!("PS256")), JwkError::Unsupported),
        (
            "EC off the curve",
            with(&ec, "y", json!(b64(&[1; 32]))),
            JwkError::BadParameters,
        ),
        (
            "EC short",
            with(&ec, "x", json!(b64(&[1; 31]))),
            JwkError::BadParameters,
        ),
        ("EC on P-384", with(&ec, "crv", json!("P-384")), JwkError::Unsupported),
        ("EC for RS256", with(&ec, "alg", json!("RS256")), JwkError::Unsupported),
        (
            "EC without y",
            json!({"kty": "EC", "crv": "P-256", "x": ec.jwk["x"]}),
            JwkError::Malformed,
        ),
        (
            "EC padded base64",
            with(&ec, "x", json!(format!("{}=", ec.jwk["x"].as_str().unwrap()))),
            JwkError::Malformed,
        ),
        (
            "Ed25519 short",
            with(&ed, "x", json!(b64(&[1; 31]))),
            JwkError::BadParameters,
        ),
        (
            "Ed25519 long",
            with(&ed, "x", json!(b64(&[1; 33]))),
            JwkError::BadParameters,
        ),
        (
            "for encryption",
            with(&ec, "use", json!("enc")),
            JwkError::NotForVerifying,
        ),
        (
            "for signing only",
            with(&ec, "key_ops", json!(["sign"])),
            JwkError::NotForVerifying,
        ),
        ("private", with(&ec, "d", json!("AQ")), JwkError::NotPublic),
        ("symmetric", json!({"kty": "oct", "k": "c2VjcmV0"}), JwkError::NotPublic),
        ("unknown type", json!({"kty": "AKP"}), JwkError::Unsupported),
        ("empty kid", with(&ec, "kid", json!("")), JwkError::Malformed),
        (
            "long kid",
            with(&ec, "kid", json!("k".repeat(257))),
            JwkError::Malformed,
        ),
        ("array", json!([]), JwkError::Malformed),
    ];
    for (name, jwk, error) in rows {
        assert_eq!(PublicKey::parse(&jwk.to_string()).err(), Some(error), "{name}");
    }
    for good in [
        with(&ec, "use", json!("sig")),
        with(&ec, "key_ops", json!(["verify"])),
        with(&ec, "alg", json!("ES256")),
    ] {
        assert!(PublicKey::parse(&good.to_string()).is_ok(), "{good}");
    }
}

#[test]
fn a_key_set_keeps_what_it_can_use() {
    let weak = short_rsa_pair().named("weak");
    let twin = p256_pair(4).named("a");
    let set =
        json!({"keys": [weak, p256_pair(1).named("a"), twin, rsa_pair().named("b"), {"kty": "oct", "k": "AQ"}, 7]});
    let ring = KeyRing::parse(set.to_string().as_bytes()).unwrap();
    assert_eq!(ring.len(), 2);
    let first = PublicKey::from_value(p256_pair(1).jwk).unwrap();
    assert!(ring.find(Some("a")).unwrap().same_key(&first));
    assert!(ring.find(Some("weak")).is_none());
    assert!(ring.find(Some("A")).is_none());
    assert!(ring.find(None).is_none(), "which of two is meant?");
    let alone = KeyRing::parse(json!({"keys": [p256_pair(1).jwk]}).to_string().as_bytes()).unwrap();
    assert!(alone.find(None).is_some());
    assert!(alone.find(Some("a")).is_none());
}

#[test]
fn key_set_documents_are_bounded() {
    let error = |document: &str| KeyRing::parse(document.as_bytes()).err();
    assert_eq!(error("{}"), Some(JwkError::Malformed));
    assert_eq!(error(r#"{"keys":[]}"#), Some(JwkError::Unsupported));
    let many = json!({"keys": vec![p256_pair(1).jwk; JWKS_KEYS_MAX + 1]}).to_string();
    assert_eq!(error(&many), Some(JwkError::Malformed));
    let padded = format!("{}{}", json!({"keys": [p256_pair(1).jwk]}), " ".repeat(JWKS_BYTES_MAX));
    assert_eq!(error(&padded), Some(JwkError::Malformed));
    assert_eq!(error(&"[".repeat(60_000)), Some(JwkError::Malformed));
}

/// Whatever a document says, reading it ends, and what is read can be used.
#[test]
fn damaged_key_sets_never_panic() {
    let seed = 7_517;
    println!("seed {seed}");
    let random = Seeded::new(seed);
    let good = json!({"keys": [p256_pair(1).named("a"), ed25519_pair().named("b"), rsa_pair().named("c")]}).to_string();
    let token = forge(&json!({"alg": "EdDSA", "kid": "b"}), &json!({}), &ed25519_pair());
    let token = Unverified::parse(&token).unwrap();
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = b"\"{}[],:0Az-_\x00\xff"[random.below(14)],
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(good.len() / 2)),
            }
        }
        match KeyRing::parse(&bytes) {
            Ok(ring) => {
                read += 1;
                for key in ["a", "b", "c"].iter().filter_map(|kid| ring.find(Some(kid))) {
                    let _ = token.verify::<Value>(key);
                }
            }
            Err(_) => refused += 1,
        }
    }
    assert!(read > 100 && refused > 100, "{read} read, {refused} refused");
}
