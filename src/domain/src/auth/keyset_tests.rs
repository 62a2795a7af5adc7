use serde_json::{Value, json};

use super::keyset::{KeySet, KeySetError};
use super::testing::*;

#[test]
fn key_sets_are_checked_as_a_whole() {
    let error = |set: &Value| KeySet::parse(&set.to_string()).err();
    let good = set_json(&[("a", "signing", 1), ("b", "verifying", 2)]);
    assert_eq!(error(&good), None);
    assert_eq!(error(&json!({"keys": []})), Some(KeySetError::NotOneSigningKey));
    assert_eq!(
        error(&set_json(&[("a", "signing", 1), ("b", "signing", 2)])),
        Some(KeySetError::NotOneSigningKey)
    );
    assert_eq!(
        error(&set_json(&[("a", "signing", 1), ("a", "verifying", 2)])),
        Some(KeySetError::DuplicateKid)
    );
    assert_eq!(error(&set_json(&[("a/b", "signing", 1)])), Some(KeySetError::BadKid));
    assert_eq!(error(&set_json(&[("a", "spare", 1)])), Some(KeySetError::Malformed));
    let mut swapped = good.clone();
    swapped["keys"][0]["private_pkcs8"] = json!(p256_pair(5).pem);
    assert_eq!(error(&swapped), Some(KeySetError::BadPrivateKey));
    let mut public_only = good.clone();
    public_only["keys"][0].as_object_mut().unwrap().remove("private_pkcs8");
    assert_eq!(error(&public_only), Some(KeySetError::BadPrivateKey));
    let mut leaked = good;
    leaked["keys"][1]["public_jwk"]["d"] = json!("AQ");
    assert_eq!(error(&leaked), Some(KeySetError::BadPublicKey));
    assert_eq!(KeySet::parse("{").err(), Some(KeySetError::Malformed));
}

#[test]
fn the_published_set_leaves_out_retired_and_private_keys() {
    let published = keys().to_jwks();
    let kids: Vec<&Value> = published["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| &key["kid"])
        .collect();
    assert_eq!(kids, ["k2", "k1"]);
    let mut members: Vec<&String> = published["keys"][0].as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["alg", "crv", "kid", "kty", "use", "x", "y"]);
    assert!(!format!("{:?}", keys()).contains("PRIVATE"));
}
