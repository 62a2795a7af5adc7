//! JSON Web Keys (RFC 7517): public keys that may verify signatures, and nothing else.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::jws::{Algorithm, KID_MAX};

/// RSA moduli must have at least this many bits …
pub const RSA_BITS_MIN: usize = 2_048;
/// … and at most this many, so that one signature cannot keep the processor busy.
pub const RSA_BITS_MAX: usize = 4_096;
/// The largest key set document that is read, in bytes.
pub const JWKS_BYTES_MAX: usize = 64 * 1024;
/// The most keys that are taken from one document.
pub const JWKS_KEYS_MAX: usize = 64;

/// Why a key cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwkError {
    /// Not a JSON object with the members of its key type.
    Malformed,
    /// A key type, curve or algorithm that is not accepted.
    Unsupported,
    /// `use` or `key_ops` says that the key is not for verifying signatures.
    NotForVerifying,
    /// It carries private or symmetric key material, which has no business here.
    NotPublic,
    /// The point is not on the curve, or the modulus is too short, too long or even.
    BadParameters,
}

#[derive(Deserialize)]
struct RawJwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
    n: Option<String>,
    e: Option<String>,
    d: Option<IgnoredAny>,
    k: Option<IgnoredAny>,
}

#[derive(Clone, PartialEq, Eq)]
enum Parameters {
    P256 { x: String, y: String },
    Ed25519 { x: String },
    Rsa { n: String, e: String },
}

/// A public key that verifies signatures of exactly one algorithm.
#[derive(Clone)]
pub struct PublicKey {
    kid: Option<String>,
    parameters: Parameters,
    library: DecodingKey,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey")
            .field("kid", &self.kid)
            .field("algorithm", &self.algorithm())
            .finish()
    }
}

impl PublicKey {
    /// Reads one JWK.
    pub fn parse(jwk: &str) -> Result<Self, JwkError> {
        if jwk.len() > JWKS_BYTES_MAX {
            return Err(JwkError::Malformed);
        }
        let value: Value = serde_json::from_str(jwk).map_err(|_| JwkError::Malformed)?;
        Self::from_value(value)
    }

    /// Reads one JWK that was already parsed as JSON.
    pub fn from_value(jwk: Value) -> Result<Self, JwkError> {
        if !jwk.is_object() {
            return Err(JwkError::Malformed);
        }
        let raw: RawJwk = serde_json::from_value(jwk).map_err(|_| JwkError::Malformed)?;
        if raw.d.is_some() || raw.k.is_some() {
            return Err(JwkError::NotPublic);
        }
        if raw
            .kid
            .as_ref()
            .is_some_and(|kid| kid.is_empty() || kid.len() > KID_MAX)
        {
            return Err(JwkError::Malformed);
        }
        if raw.usage.as_ref().is_some_and(|usage| usage != "sig") {
            return Err(JwkError::NotForVerifying);
        }
        if raw
            .key_ops
            .as_ref()
            .is_some_and(|ops| !ops.iter().any(|op| op == "verify"))
        {
            return Err(JwkError::NotForVerifying);
        }
        let (parameters, library) = parameters(&raw)?;
        let key = Self {
            kid: raw.kid,
            parameters,
            library,
        };
        match raw.alg {
            Some(alg) if alg != key.algorithm().as_str() => Err(JwkError::Unsupported),
            Some(_) | None => Ok(key),
        }
    }

    /// The key's name in its set.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The one algorithm this key is for.
    pub const fn algorithm(&self) -> Algorithm {
        match self.parameters {
            Parameters::P256 { .. } => Algorithm::Es256,
            Parameters::Ed25519 { .. } => Algorithm::EdDsa,
            Parameters::Rsa { .. } => Algorithm::Rs256,
        }
    }

    /// Whether both are the same key, whatever they are called.
    pub fn same_key(&self, other: &Self) -> bool {
        self.parameters == other.parameters
    }

    /// The public JWK, for a published key set.
    pub fn to_jwk(&self) -> Value {
        let mut jwk = match &self.parameters {
            Parameters::P256 { x, y } => json!({"kty": "EC", "crv": "P-256", "x": x, "y": y}),
            Parameters::Ed25519 { x } => json!({"kty": "OKP", "crv": "Ed25519", "x": x}),
            Parameters::Rsa { n, e } => json!({"kty": "RSA", "n": n, "e": e}),
        };
        if let Some(members) = jwk.as_object_mut() {
            members.insert("use".to_owned(), json!("sig"));
            members.insert("alg".to_owned(), json!(self.algorithm().as_str()));
            if let Some(kid) = &self.kid {
                members.insert("kid".to_owned(), json!(kid));
            }
        }
        jwk
    }

    pub(super) const fn library(&self) -> &DecodingKey {
        &self.library
    }
}

fn decode(text: Option<&String>) -> Result<(String, Vec<u8>), JwkError> {
    let text = text.ok_or(JwkError::Malformed)?;
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| JwkError::Malformed)?;
    Ok((text.clone(), bytes))
}

// Every length is checked here, because the library slices what it is given.
fn parameters(raw: &RawJwk) -> Result<(Parameters, DecodingKey), JwkError> {
    match (raw.kty.as_str(), raw.crv.as_deref()) {
        ("EC", Some("P-256")) => {
            let ((x, x_bytes), (y, y_bytes)) = (decode(raw.x.as_ref())?, decode(raw.y.as_ref())?);
            if x_bytes.len() != 32 || y_bytes.len() != 32 {
                return Err(JwkError::BadParameters);
            }
            let mut point = vec![4_u8];
            point.extend_from_slice(&x_bytes);
            point.extend_from_slice(&y_bytes);
            // Also refuses points that are not on the curve.
            p256::PublicKey::from_sec1_bytes(&point).map_err(|_| JwkError::BadParameters)?;
            Ok((Parameters::P256 { x, y }, DecodingKey::from_ec_der(&point)))
        }
        ("OKP", Some("Ed25519")) => {
            let (x, bytes) = decode(raw.x.as_ref())?;
            if bytes.len() != 32 {
                return Err(JwkError::BadParameters);
            }
            Ok((Parameters::Ed25519 { x }, DecodingKey::from_ed_der(&bytes)))
        }
        ("RSA", None) => {
            let ((n, modulus), (e, exponent)) = (decode(raw.n.as_ref())?, decode(raw.e.as_ref())?);
            let bits = bit_length(&modulus);
            let odd = modulus.last().is_some_and(|byte| byte & 1 == 1);
            let exponent_fits = exponent.len() <= 4 && exponent.last().is_some_and(|byte| byte & 1 == 1);
            if !(RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) || !odd || !exponent_fits || bit_length(&exponent) < 2 {
                return Err(JwkError::BadParameters);
            }
            Ok((
                Parameters::Rsa { n, e },
                DecodingKey::from_rsa_raw_components(&modulus, &exponent),
            ))
        }
        _ => Err(JwkError::Unsupported),
    }
}

fn bit_length(big_endian: &[u8]) -> usize {
    let Some(first) = big_endian.iter().position(|byte| *byte != 0) else {
        return 0;
    };
    let rest = big_endian.get(first..).unwrap_or_default();
    let leading = rest.first().map_or(0, |byte| byte.leading_zeros());
    rest.len()
        .saturating_mul(8)
        .saturating_sub(usize::try_from(leading).unwrap_or(0))
}

/// The usable keys of a key set document.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Vec<PublicKey>,
}

#[derive(Deserialize)]
struct RawSet {
    keys: Vec<Value>,
}

impl KeyRing {
    /// Reads a key set (RFC 7517 section 5). Keys that cannot be used here are passed over, as that section asks;
    /// of two keys with one name the first counts. An oversized document or one without a usable key is an error.
    pub fn parse(document: &[u8]) -> Result<Self, JwkError> {
        if document.len() > JWKS_BYTES_MAX {
            return Err(JwkError::Malformed);
        }
        let raw: RawSet = serde_json::from_slice(document).map_err(|_| JwkError::Malformed)?;
        if raw.keys.len() > JWKS_KEYS_MAX {
            return Err(JwkError::Malformed);
        }
        let mut keys: Vec<PublicKey> = Vec::new();
        for key in raw
            .keys
            .into_iter()
            .filter_map(|value| PublicKey::from_value(value).ok())
        {
            if key.kid.is_none() || !keys.iter().any(|known| known.kid == key.kid) {
                keys.push(key);
            }
        }
        if keys.is_empty() {
            Err(JwkError::Unsupported)
        } else {
            Ok(Self { keys })
        }
    }

    /// The key of exactly this name. A token that names none is accepted only where there is but one key.
    pub fn find(&self, kid: Option<&str>) -> Option<&PublicKey> {
        match (kid, self.keys.as_slice()) {
            (Some(kid), keys) => keys.iter().find(|key| key.kid() == Some(kid)),
            (None, [only]) => Some(only),
            (None, _) => None,
        }
    }

    /// Whether some key is for `algorithm`.
    pub fn has(&self, algorithm: Algorithm) -> bool {
        self.keys.iter().any(|key| key.algorithm() == algorithm)
    }

    /// How many keys can be used.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is no key at all.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}
