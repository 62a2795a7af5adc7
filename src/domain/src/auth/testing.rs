//! Keys and forged tokens for the tests of this module. All of it is made up.

use std::cell::Cell;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use p256::pkcs8::{EncodePrivateKey as _, LineEnding};
use rsa::pkcs1::EncodeRsaPrivateKey as _;
use rsa::rand_core::{CryptoRng, RngCore, impls};
use rsa::traits::PublicKeyParts as _;
use serde_json::{Value, json};

use super::keyset::KeySet;
use crate::ports::Entropy;
use crate::time::Timestamp;

pub const NOW_MS: i64 = 1_783_728_000_000;

pub fn now() -> Timestamp {
    Timestamp::from_millis(NOW_MS)
}

/// A repeatable source of bytes (SplitMix64).
pub struct Seeded(Cell<u64>);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }
}

impl Entropy for Seeded {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next().to_be_bytes()[0]);
    }
}

struct TestRng(Seeded);
impl CryptoRng for TestRng {}
impl RngCore for TestRng {
    fn next_u32(&mut self) -> u32 {
        u32::from_be_bytes(self.0.next().to_be_bytes()[..4].try_into().unwrap())
    }
    fn next_u64(&mut self) -> u64 {
        self.0.next()
    }
    fn fill_bytes(&mut self, dest: &mut [u8]) {
        impls::fill_bytes_via_next(self, dest);
    }
    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), rsa::rand_core::Error> {
        self.fill_bytes(dest);
        Ok(())
    }
}

/// A key pair: how to sign with it, and its public JWK without a name.
pub struct Pair {
    pub alg: jsonwebtoken::Algorithm,
    pub private: EncodingKey,
    pub pem: String,
    pub jwk: Value,
}

impl Pair {
    pub fn named(&self, kid: &str) -> Value {
        let mut jwk = self.jwk.clone();
        jwk["kid"] = json!(kid);
        jwk
    }
}

pub fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The P-256 pair whose secret is `number`.
pub fn p256_pair(number: u8) -> Pair {
    let secret = p256::SecretKey::from_slice(&[number; 32]).unwrap();
    let point = secret.public_key().to_encoded_point(false);
    let der = secret.to_pkcs8_der().unwrap();
    Pair {
        alg: jsonwebtoken::Algorithm::ES256,
        private: EncodingKey::from_ec_der(der.as_bytes()),
        pem: secret.to_pkcs8_pem(LineEnding::LF).unwrap().to_string(),
        jwk: json!({"kty": "EC", "crv": "P-256", "x": b64(point.x().unwrap()), "y": b64(point.y().unwrap())}),
    }
}

/// The first Ed25519 test vector of RFC 8032, section 7.1.
pub fn ed25519_pair() -> Pair {
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(hex.get(at..at + 2).unwrap(), 16).unwrap())
            .collect()
    };
    let mut der = bytes("302e020100300506032b657004220420");
    der.extend(bytes(seed));
    Pair {
        alg: jsonwebtoken::Algorithm::EdDSA,
        private: EncodingKey::from_ed_der(&der),
        pem: String::new(),
        jwk: json!({"kty": "OKP", "crv": "Ed25519", "x": b64(&bytes(public))}),
    }
}

fn make_rsa(bits: usize) -> Pair {
    let key = rsa::RsaPrivateKey::new(&mut TestRng(Seeded::new(7)), bits).unwrap();
    let der = key.to_pkcs1_der().unwrap();
    Pair {
        alg: jsonwebtoken::Algorithm::RS256,
        private: EncodingKey::from_rsa_der(der.as_bytes()),
        pem: String::new(),
        jwk: json!({"kty": "RSA", "n": b64(&key.n().to_bytes_be()), "e": b64(&key.e().to_bytes_be())}),
    }
}

pub fn rsa_pair() -> &'static Pair {
    static PAIR: OnceLock<Pair> = OnceLock::new();
    PAIR.get_or_init(|| make_rsa(2_048))
}

pub fn short_rsa_pair() -> Pair {
    make_rsa(1_024)
}

/// Signs any header and claims, whatever they say.
pub fn forge(header: &Value, claims: &Value, pair: &Pair) -> String {
    let signed = format!(
        "{}.{}",
        b64(header.to_string().as_bytes()),
        b64(claims.to_string().as_bytes())
    );
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &pair.private, pair.alg).unwrap();
    format!("{signed}.{signature}")
}

/// A key set document of P-256 pairs: name, status, number.
pub fn set_json(keys: &[(&str, &str, u8)]) -> Value {
    let key = |&(kid, status, number): &(&str, &str, u8)| {
        let pair = p256_pair(number);
        json!({"kid": kid, "status": status, "private_pkcs8": pair.pem, "public_jwk": pair.jwk})
    };
    json!({ "keys": keys.iter().map(key).collect::<Vec<_>>() })
}

/// `k2` signs, `k1` verifies, `k0` is retired.
pub fn keys() -> KeySet {
    KeySet::parse(&set_json(&[("k2", "signing", 2), ("k1", "verifying", 1), ("k0", "retired", 3)]).to_string()).unwrap()
}
