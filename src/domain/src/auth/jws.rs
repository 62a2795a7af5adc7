//! Compact JSON Web Signatures (RFC 7515), reduced to what is accepted here.
//!
//! The key alone fixes the algorithm. Headers that point elsewhere or bring a key along (`jku`, `x5u`, `x5c`, `jwk`)
//! are not even read; `crit` is refused, because no extension is understood here.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::jwk::PublicKey;

/// The longest token that is looked at, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// The longest `kid`, in bytes.
pub const KID_MAX: usize = 256;

const TYP_MAX: usize = 32;

/// The signature algorithms that keys may be for. HMAC and `none` are not among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    #[serde(rename = "ES256")]
    Es256,
    #[serde(rename = "RS256")]
    Rs256,
    /// Ed25519 only.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    /// The name in the `alg` header.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Rs256 => "RS256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The algorithm of this name; `None` for every other one, `none` and HMAC included.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "ES256" => Some(Self::Es256),
            "RS256" => Some(Self::Rs256),
            "EdDSA" => Some(Self::EdDsa),
            _ => None,
        }
    }

    pub(super) const fn library(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        }
    }
}

/// Why a token's form or signature was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwsError {
    /// Too long, not three base64url parts, or not the expected JSON.
    Malformed,
    /// An algorithm that is never accepted, or not the one of the key.
    WrongAlgorithm,
    /// The signature does not fit.
    BadSignature,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    typ: Option<String>,
    crit: Option<IgnoredAny>,
}

/// A token that was taken apart and not yet believed.
pub struct Unverified<'a> {
    algorithm: Algorithm,
    kid: Option<String>,
    typ: Option<String>,
    signed: &'a str,
    signature: &'a str,
    payload: Vec<u8>,
}

// The parts are a credential: nothing of them belongs in a log.
impl fmt::Debug for Unverified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unverified")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

fn decode(part: &str) -> Result<Vec<u8>, JwsError> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| JwsError::Malformed)
}

/// Reads a JSON object. The reader alone would also take a struct's members in a row, as an array.
fn object<T: DeserializeOwned>(json: &[u8]) -> Result<T, JwsError> {
    let first = json.iter().find(|byte| !byte.is_ascii_whitespace());
    if first != Some(&b'{') {
        return Err(JwsError::Malformed);
    }
    serde_json::from_slice(json).map_err(|_| JwsError::Malformed)
}

impl<'a> Unverified<'a> {
    /// Takes a compact token apart.
    pub fn parse(token: &'a str) -> Result<Self, JwsError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(JwsError::Malformed);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(JwsError::Malformed)?;
        let (header, payload) = signed.split_once('.').ok_or(JwsError::Malformed)?;
        if payload.contains('.') {
            return Err(JwsError::Malformed);
        }
        let header: Header = object(&decode(header)?)?;
        let too_long = |text: &Option<String>, max: usize| text.as_ref().is_some_and(|text| text.len() > max);
        if header.crit.is_some() || too_long(&header.kid, KID_MAX) || too_long(&header.typ, TYP_MAX) {
            return Err(JwsError::Malformed);
        }
        let algorithm = Algorithm::from_name(&header.alg).ok_or(JwsError::WrongAlgorithm)?;
        Ok(Self {
            algorithm,
            kid: header.kid,
            typ: header.typ,
            signed,
            signature,
            payload: decode(payload)?,
        })
    }

    /// The key the token claims to be signed with: a name to look up, nothing more.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The media type the token claims to have.
    pub fn typ(&self) -> Option<&str> {
        self.typ.as_deref()
    }

    /// The algorithm the token claims; it must turn out to be the key's.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Reads claims before they are proven, to find out whose keys to ask.
    pub fn peek<T: DeserializeOwned>(&self) -> Result<T, JwsError> {
        object(&self.payload)
    }

    /// The claims, once `key` has proven them.
    pub fn verify<T: DeserializeOwned>(&self, key: &PublicKey) -> Result<T, JwsError> {
        if key.algorithm() != self.algorithm {
            return Err(JwsError::WrongAlgorithm);
        }
        let proven = jsonwebtoken::crypto::verify(
            self.signature,
            self.signed.as_bytes(),
            key.library(),
            key.algorithm().library(),
        );
        match proven {
            Ok(true) => self.peek(),
            Ok(false) | Err(_) => Err(JwsError::BadSignature),
        }
    }
}

#[derive(Serialize)]
struct OutHeader<'a> {
    alg: &'static str,
    typ: &'a str,
    kid: &'a str,
}

/// The claims could not be written or the key could not sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignError;

/// Signs `claims` into a compact token.
pub fn sign(
    claims: &impl Serialize,
    typ: &str,
    kid: &str,
    algorithm: Algorithm,
    key: &EncodingKey,
) -> Result<String, SignError> {
    let header = serde_json::to_vec(&OutHeader {
        alg: algorithm.as_str(),
        typ,
        kid,
    })
    .map_err(|_| SignError)?;
    let payload = serde_json::to_vec(claims).map_err(|_| SignError)?;
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(payload));
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), key, algorithm.library()).map_err(|_| SignError)?;
    Ok(format!("{signed}.{signature}"))
}
