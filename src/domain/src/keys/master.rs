//! The versioned master secret: wraps data keys, keys the hashes.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::aead::{self, OpenError, SealError, frame};
use super::data_key::{DataKey, KeySubject};
use super::derive::derive;
use super::hash::{HashLabel, hmac_bytes, hmac_text};
use crate::ids::DataKeyId;
use crate::ports::Entropy;
use crate::sql::Value;

const SALT: &[u8] = b"hermod";

/// Which version of the master secret wrapped a data key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MasterVersion(u32);

impl MasterVersion {
    pub const fn new(version: u32) -> Self {
        Self(version)
    }

    pub const fn get(self) -> u32 {
        self.0
    }

    /// Reads what a column holds; `None` for what is no version.
    pub fn from_stored(version: i64) -> Option<Self> {
        u32::try_from(version).ok().map(Self)
    }
}

impl From<MasterVersion> for Value {
    fn from(version: MasterVersion) -> Self {
        Self::from(version.0)
    }
}

/// Why the configured secret was not taken. It never quotes the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MasterError {
    /// Not JSON of the documented shape.
    Form,
    /// A version's secret is not 32 bytes in base64.
    Secret,
    /// `current` or `hash_version` names a version that is not there.
    Version,
}

/// A data key as its row holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrappedKey {
    pub master_version: MasterVersion,
    /// Sealed under the wrapping key of that version.
    pub wrapped: Vec<u8>,
}

/// What remains of the master secret after start: derived keys only, the secret itself is not kept.
#[derive(Clone)]
pub struct MasterSecrets {
    pub(super) current: MasterVersion,
    wrapping: BTreeMap<MasterVersion, [u8; 32]>,
    /// What seals the service's own values.
    pub(super) own: BTreeMap<MasterVersion, [u8; 32]>,
    hashing: [u8; 32],
}

impl fmt::Debug for MasterSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterSecrets")
            .field("current", &self.current)
            .finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configured {
    current: MasterVersion,
    versions: BTreeMap<String, String>,
    hash_version: MasterVersion,
}

impl MasterSecrets {
    /// Reads `{"current": 2, "versions": {"1": "<base64 of 32 bytes>", "2": "…"}, "hash_version": 1}`.
    ///
    /// New data keys are wrapped under `current`; the others only unwrap. `hash_version` stays as it was first set:
    /// changing it makes every keyed hash in the database unfindable.
    pub fn from_json(text: &str) -> Result<Self, MasterError> {
        let configured: Configured = serde_json::from_str(text).map_err(|_| MasterError::Form)?;
        let (mut wrapping, mut own) = (BTreeMap::new(), BTreeMap::new());
        let mut hashing = None;
        for (version, secret) in configured.versions {
            let version = MasterVersion(version.parse().map_err(|_| MasterError::Form)?);
            let secret: [u8; 32] = STANDARD
                .decode(secret)
                .ok()
                .and_then(|bytes| bytes.try_into().ok())
                .ok_or(MasterError::Secret)?;
            let key_for = |purpose: &str| {
                let info = frame(purpose, &[&version.0.to_be_bytes()]);
                derive::<32>(SALT, &secret, &info).map_err(|_| MasterError::Secret)
            };
            if wrapping.insert(version, key_for("wrap data keys 1")?).is_some() {
                return Err(MasterError::Form);
            }
            own.insert(version, key_for("seal own values 1")?);
            if version == configured.hash_version {
                hashing = Some(key_for("keyed hashes 1")?);
            }
        }
        let hashing = hashing.ok_or(MasterError::Version)?;
        if !wrapping.contains_key(&configured.current) {
            return Err(MasterError::Version);
        }
        Ok(Self {
            current: configured.current,
            wrapping,
            own,
            hashing,
        })
    }

    /// The version that new data keys are wrapped under.
    pub const fn current(&self) -> MasterVersion {
        self.current
    }

    /// Wraps `key` for its row, under the current version.
    pub fn wrap(&self, key: &DataKey, entropy: &impl Entropy) -> Result<WrappedKey, SealError> {
        let wrapping = self.wrapping.get(&self.current).ok_or(SealError)?;
        let aad = row_identity(key.id(), key.subject(), self.current);
        let wrapped = aead::seal(wrapping, &aad, key.bytes(), entropy)?;
        Ok(WrappedKey {
            master_version: self.current,
            wrapped,
        })
    }

    /// The data key in the row `id` of `subject`. [`OpenError::Form`] also when the version is not configured.
    pub fn unwrap_key(&self, id: &DataKeyId, subject: &KeySubject, wrapped: &WrappedKey) -> Result<DataKey, OpenError> {
        let wrapping = self.wrapping.get(&wrapped.master_version).ok_or(OpenError::Form)?;
        let aad = row_identity(id, subject, wrapped.master_version);
        let bytes = aead::open(wrapping, &aad, &wrapped.wrapped)?;
        let key = bytes.try_into().map_err(|_| OpenError::Form)?;
        Ok(DataKey::from_bytes(id.clone(), subject.clone(), key))
    }

    /// A keyed hash of one value for one purpose.
    pub fn keyed_hash(&self, label: HashLabel, value: &[u8]) -> String {
        self.keyed_hash_of(label, &[value])
    }

    /// A keyed hash of several values, kept apart from each other.
    pub fn keyed_hash_of(&self, label: HashLabel, parts: &[&[u8]]) -> String {
        hmac_text(&self.hashing, label.as_str(), parts)
    }

    /// The same as 32 bytes, for what is made out of them.
    pub fn keyed_bytes_of(&self, label: HashLabel, parts: &[&[u8]]) -> [u8; 32] {
        hmac_bytes(&self.hashing, label.as_str(), parts)
    }
}

fn row_identity(id: &DataKeyId, subject: &KeySubject, version: MasterVersion) -> Vec<u8> {
    frame(
        "hermod data key 1",
        &[
            id.as_str().as_bytes(),
            subject.kind().as_bytes(),
            subject.id().as_bytes(),
            &version.0.to_be_bytes(),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FamilyId, UserId};

    struct Fives;
    impl Entropy for Fives {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(5);
        }
    }

    const ONE: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    const TWO: &str = "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

    fn secrets(current: u32) -> MasterSecrets {
        let text = format!(r#"{{"current":{current},"versions":{{"1":"{ONE}","2":"{TWO}"}},"hash_version":1}}"#);
        MasterSecrets::from_json(&text).unwrap()
    }

    fn data_key() -> DataKey {
        let subject = KeySubject::User(UserId::parse("user_00a").unwrap());
        DataKey::generate(DataKeyId::parse("key_00a").unwrap(), subject, &Fives)
    }

    #[test]
    fn a_wrapped_key_unwraps_only_as_the_same_row() {
        let secrets = secrets(1);
        let key = data_key();
        let wrapped = secrets.wrap(&key, &Fives).unwrap();
        assert_eq!(wrapped.wrapped.len(), 1 + 12 + 32 + 16);
        assert_eq!(secrets.unwrap_key(key.id(), key.subject(), &wrapped), Ok(key.clone()));

        let other_id = DataKeyId::parse("key_00b").unwrap();
        let other_user = KeySubject::User(UserId::parse("user_00b").unwrap());
        let family = KeySubject::Family(FamilyId::parse("family_00a").unwrap());
        let as_version_2 = WrappedKey {
            master_version: MasterVersion(2),
            ..wrapped.clone()
        };
        let as_version_3 = WrappedKey {
            master_version: MasterVersion(3),
            ..wrapped.clone()
        };
        let refused = Err(OpenError::Authentication);
        assert_eq!(secrets.unwrap_key(&other_id, key.subject(), &wrapped), refused);
        assert_eq!(secrets.unwrap_key(key.id(), &other_user, &wrapped), refused);
        assert_eq!(secrets.unwrap_key(key.id(), &family, &wrapped), refused);
        assert_eq!(secrets.unwrap_key(key.id(), key.subject(), &as_version_2), refused);
        assert_eq!(
            secrets.unwrap_key(key.id(), key.subject(), &as_version_3),
            Err(OpenError::Form)
        );
    }

    #[test]
    fn rotation_keeps_the_key_and_the_hashes() {
        let (before, after) = (secrets(1), secrets(2));
        let key = data_key();
        let old = before.wrap(&key, &Fives).unwrap();
        let new = after
            .wrap(&after.unwrap_key(key.id(), key.subject(), &old).unwrap(), &Fives)
            .unwrap();
        assert_eq!(new.master_version, MasterVersion(2));
        assert_ne!(new.wrapped, old.wrapped);
        assert_eq!(after.unwrap_key(key.id(), key.subject(), &new), Ok(key));
        assert_eq!(
            before.keyed_hash(HashLabel::Content, b"text"),
            after.keyed_hash(HashLabel::Content, b"text")
        );
    }

    #[test]
    fn hashes_differ_by_purpose_parts_and_secret() {
        let secrets = secrets(1);
        let base = secrets.keyed_hash_of(HashLabel::ExternalAddress, &[b"a", b"b"]);
        assert_eq!(base.len(), 43);
        assert_eq!(base, secrets.keyed_hash_of(HashLabel::ExternalAddress, &[b"a", b"b"]));
        assert_ne!(base, secrets.keyed_hash_of(HashLabel::ExternalAddress, &[b"ab", b""]));
        assert_ne!(base, secrets.keyed_hash_of(HashLabel::IdentitySubject, &[b"a", b"b"]));
        let other = format!(r#"{{"current":1,"versions":{{"1":"{TWO}"}},"hash_version":1}}"#);
        let other = MasterSecrets::from_json(&other).unwrap();
        assert_ne!(base, other.keyed_hash_of(HashLabel::ExternalAddress, &[b"a", b"b"]));
    }

    #[test]
    fn a_wrong_configuration_is_named_but_not_quoted() {
        let refuse = |text: &str| MasterSecrets::from_json(text).map(|_| ()).unwrap_err();
        assert_eq!(refuse("{"), MasterError::Form);
        assert_eq!(
            refuse(r#"{"current":1,"versions":{},"hash_version":1,"more":1}"#),
            MasterError::Form
        );
        assert_eq!(
            refuse(&format!(
                r#"{{"current":1,"versions":{{"x":"{ONE}"}},"hash_version":1}}"#
            )),
            MasterError::Form
        );
        assert_eq!(
            refuse(&format!(
                r#"{{"current":1,"versions":{{"1":"{ONE}","01":"{TWO}"}},"hash_version":1}}"#
            )),
            MasterError::Form
        );
        assert_eq!(
            refuse(r#"{"current":1,"versions":{"1":"AQEB"},"hash_version":1}"#),
            MasterError::Secret
        );
        assert_eq!(
            refuse(r#"{"current":1,"versions":{"1":"%%%"},"hash_version":1}"#),
            MasterError::Secret
        );
        assert_eq!(
            refuse(&format!(
                r#"{{"current":2,"versions":{{"1":"{ONE}"}},"hash_version":1}}"#
            )),
            MasterError::Version
        );
        assert_eq!(
            refuse(&format!(
                r#"{{"current":1,"versions":{{"1":"{ONE}"}},"hash_version":2}}"#
            )),
            MasterError::Version
        );
    }

    #[test]
    fn printing_the_secrets_shows_no_secret() {
        assert_eq!(
            format!("{:?}", secrets(1)),
            "MasterSecrets { current: MasterVersion(1), .. }"
        );
    }
}
