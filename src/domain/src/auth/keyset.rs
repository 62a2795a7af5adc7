//! The service's own signing keys: a versioned set in which one signs, several verify and retired ones are refused.

use std::fmt;

use jsonwebtoken::EncodingKey;
use p256::elliptic_curve::sec1::ToEncodedPoint as _;
use p256::pkcs8::{DecodePrivateKey as _, EncodePrivateKey as _};
use serde::Deserialize;
use serde_json::{Value, json};

use super::jwk::PublicKey;
use super::jws::{self, Algorithm};

/// The most keys one set may hold.
pub const KEYS_MAX: usize = 16;

const NAME_MAX: usize = 64;

/// Why a configured key set was refused. Says which rule, never anything of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySetError {
    /// Not `{"keys":[{"kid","status","private_pkcs8"?,"public_jwk"}]}` or more than [`KEYS_MAX`] keys.
    Malformed,
    /// A `kid` that is empty, longer than 64 or not of `0-9 A-Z a-z . _ -`, or that its JWK contradicts.
    BadKid,
    /// Two keys of one name.
    DuplicateKid,
    /// A public key that is not a P-256 verification key.
    BadPublicKey,
    /// The signing key's private half is missing, unreadable or belongs to another public key.
    BadPrivateKey,
    /// Not exactly one key is `signing`.
    NotOneSigningKey,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Status {
    Signing,
    Verifying,
    Retired,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSet {
    keys: Vec<RawKey>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    kid: String,
    status: Status,
    private_pkcs8: Option<String>,
    public_jwk: Value,
}

struct Entry {
    kid: String,
    status: Status,
    public: PublicKey,
}

/// What the set says of a key name.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// The key signs or verifies.
    Usable(&'a PublicKey),
    /// The key is known and no longer accepted.
    Retired,
    Unknown,
}

/// The service's signing keys.
pub struct KeySet {
    entries: Vec<Entry>,
    signing_kid: String,
    signing: EncodingKey,
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeySet")
            .field("keys", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl KeySet {
    /// Reads the set from its JSON form.
    pub fn parse(text: &str) -> Result<Self, KeySetError> {
        let raw: RawSet = serde_json::from_str(text).map_err(|_| KeySetError::Malformed)?;
        if raw.keys.len() > KEYS_MAX {
            return Err(KeySetError::Malformed);
        }
        let mut entries: Vec<Entry> = Vec::new();
        let mut signing = None;
        for key in raw.keys {
            let entry = read_entry(&key)?;
            if entries.iter().any(|known| known.kid == entry.kid) {
                return Err(KeySetError::DuplicateKid);
            }
            if entry.status == Status::Signing {
                let private = read_private(key.private_pkcs8.as_deref(), &entry.public)?;
                if signing.replace((entry.kid.clone(), private)).is_some() {
                    return Err(KeySetError::NotOneSigningKey);
                }
            }
            entries.push(entry);
        }
        let (signing_kid, signing) = signing.ok_or(KeySetError::NotOneSigningKey)?;
        Ok(Self {
            entries,
            signing_kid,
            signing,
        })
    }

    /// The key of exactly this name. A name is only ever compared: it opens no file and no URL.
    pub fn find(&self, kid: &str) -> Lookup<'_> {
        match self.entries.iter().find(|entry| entry.kid == kid) {
            Some(Entry {
                status: Status::Signing | Status::Verifying,
                public,
                ..
            }) => Lookup::Usable(public),
            Some(Entry {
                status: Status::Retired,
                ..
            }) => Lookup::Retired,
            None => Lookup::Unknown,
        }
    }

    /// The public half of every key that is accepted, as `/.well-known/jwks.json` publishes it.
    pub fn to_jwks(&self) -> Value {
        let accepted = self.entries.iter().filter(|entry| entry.status != Status::Retired);
        json!({ "keys": accepted.map(|entry| entry.public.to_jwk()).collect::<Vec<_>>() })
    }

    pub(super) fn sign(&self, claims: &impl serde::Serialize, typ: &str) -> Result<String, jws::SignError> {
        jws::sign(claims, typ, &self.signing_kid, Algorithm::Es256, &self.signing)
    }
}

fn read_entry(key: &RawKey) -> Result<Entry, KeySetError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if key.kid.is_empty() || key.kid.len() > NAME_MAX || !key.kid.bytes().all(plain) {
        return Err(KeySetError::BadKid);
    }
    let mut jwk = key.public_jwk.clone();
    let members = jwk.as_object_mut().ok_or(KeySetError::BadPublicKey)?;
    let named = members.insert("kid".to_owned(), json!(key.kid));
    if named.is_some_and(|name| name != json!(key.kid)) {
        return Err(KeySetError::BadKid);
    }
    let public = PublicKey::from_value(jwk).map_err(|_| KeySetError::BadPublicKey)?;
    if public.algorithm() != Algorithm::Es256 {
        return Err(KeySetError::BadPublicKey);
    }
    Ok(Entry {
        kid: key.kid.clone(),
        status: key.status,
        public,
    })
}

fn read_private(pem: Option<&str>, public: &PublicKey) -> Result<EncodingKey, KeySetError> {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let bad = |_| KeySetError::BadPrivateKey;
    let private = p256::SecretKey::from_pkcs8_pem(pem.ok_or(KeySetError::BadPrivateKey)?).map_err(bad)?;
    let point = private.public_key().to_encoded_point(false);
    let coordinate = |bytes: Option<&p256::FieldBytes>| bytes.map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
    let own = json!({"kty": "EC", "crv": "P-256", "x": coordinate(point.x()), "y": coordinate(point.y())});
    match PublicKey::from_value(own) {
        Ok(own) if own.same_key(public) => {}
        Ok(_) | Err(_) => return Err(KeySetError::BadPrivateKey),
    }
    let der = private.to_pkcs8_der().map_err(bad)?;
    Ok(EncodingKey::from_ec_der(der.as_bytes()))
}
