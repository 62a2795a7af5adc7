//! The key of one user's or one family's content.

use std::fmt;

use super::aead::{self, OpenError, SealError, frame};
use super::hash::hmac_text;
use crate::ids::{DataKeyId, FamilyId, UserId};
use crate::ports::Entropy;

/// Whose content a data key seals.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeySubject {
    User(UserId),
    Family(FamilyId),
}

impl KeySubject {
    /// `user` or `family`, as the `subject_kind` column has it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Family(_) => "family",
        }
    }

    /// The user's or family's id.
    pub fn id(&self) -> &str {
        match self {
            Self::User(id) => id.as_str(),
            Self::Family(id) => id.as_str(),
        }
    }
}

/// The place a sealed value belongs to. It opens nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aad<'a> {
    pub table: &'a str,
    /// The primary key of the row.
    pub row: &'a str,
    pub column: &'a str,
}

/// A data key in the clear. It is never printed and never leaves the process unwrapped.
#[derive(Clone, PartialEq, Eq)]
pub struct DataKey {
    id: DataKeyId,
    subject: KeySubject,
    key: [u8; 32],
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl DataKey {
    /// A new random key of `subject`.
    pub fn generate(id: DataKeyId, subject: KeySubject, entropy: &impl Entropy) -> Self {
        let mut key = [0_u8; 32];
        entropy.fill(&mut key);
        Self { id, subject, key }
    }

    pub(super) fn from_bytes(id: DataKeyId, subject: KeySubject, key: [u8; 32]) -> Self {
        Self { id, subject, key }
    }

    pub(super) const fn bytes(&self) -> &[u8; 32] {
        &self.key
    }

    /// The row that holds this key; stored beside every value it seals.
    pub const fn id(&self) -> &DataKeyId {
        &self.id
    }

    /// Whose content it seals.
    pub const fn subject(&self) -> &KeySubject {
        &self.subject
    }

    fn associated(&self, place: &Aad<'_>) -> Vec<u8> {
        let parts = [
            place.table,
            place.row,
            place.column,
            self.subject.kind(),
            self.subject.id(),
            self.id.as_str(),
        ];
        frame("hermod content 1", &parts.map(str::as_bytes))
    }

    /// Encrypts `plaintext` for exactly `place`.
    pub fn seal(&self, place: &Aad<'_>, plaintext: &[u8], entropy: &impl Entropy) -> Result<Vec<u8>, SealError> {
        aead::seal(&self.key, &self.associated(place), plaintext, entropy)
    }

    /// Decrypts what [`Self::seal`] gave for the same place.
    pub fn open(&self, place: &Aad<'_>, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        aead::open(&self.key, &self.associated(place), sealed)
    }

    /// A hash of content under this key: once the key is destroyed, not even equality can be tested any more.
    pub fn content_hash(&self, content: &[u8]) -> String {
        hmac_text(&self.key, "hermod content hash 1", &[content])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up, so that every draw differs.
    #[derive(Default)]
    struct Counting(std::cell::Cell<u8>);
    impl Entropy for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0.replace(self.0.get().wrapping_add(1));
            }
        }
    }

    fn key(id: &str, subject: KeySubject) -> DataKey {
        DataKey::from_bytes(DataKeyId::parse(id).unwrap(), subject, [3; 32])
    }

    fn user(id: &str) -> KeySubject {
        KeySubject::User(UserId::parse(id).unwrap())
    }

    const PLACE: Aad<'_> = Aad {
        table: "messages",
        row: "turn_00a",
        column: "sealed",
    };

    #[test]
    fn a_value_opens_only_in_its_own_place_and_under_its_own_key() {
        let mine = key("key_00a", user("user_00a"));
        let sealed = mine.seal(&PLACE, "grüße".as_bytes(), &Counting::default()).unwrap();
        assert_eq!(mine.open(&PLACE, &sealed), Ok("grüße".as_bytes().to_vec()));
        let elsewhere = [
            Aad { table: "jobs", ..PLACE },
            Aad {
                row: "turn_00b",
                ..PLACE
            },
            Aad {
                column: "other",
                ..PLACE
            },
            Aad {
                table: "message",
                row: "sturn_00a",
                column: "sealed",
            },
        ];
        for place in elsewhere {
            assert_eq!(mine.open(&place, &sealed), Err(OpenError::Authentication), "{place:?}");
        }
        let family = KeySubject::Family(FamilyId::parse("family_00a").unwrap());
        for other in [
            key("key_00b", user("user_00a")),
            key("key_00a", user("user_00b")),
            key("key_00a", family),
        ] {
            assert_eq!(
                other.open(&PLACE, &sealed),
                Err(OpenError::Authentication),
                "{:?}",
                other.subject()
            );
        }
    }

    #[test]
    fn sealing_twice_gives_two_values() {
        let entropy = Counting::default();
        let mine = key("key_00a", user("user_00a"));
        assert_ne!(mine.seal(&PLACE, b"x", &entropy), mine.seal(&PLACE, b"x", &entropy));
        let (first, second) = (
            DataKey::generate(mine.id.clone(), mine.subject.clone(), &entropy),
            DataKey::generate(mine.id.clone(), mine.subject.clone(), &entropy),
        );
        assert_ne!(first.bytes(), second.bytes());
    }

    #[test]
    fn content_hashes_differ_by_key() {
        let mine = key("key_00a", user("user_00a"));
        let other = DataKey::from_bytes(mine.id.clone(), mine.subject.clone(), [4; 32]);
        assert_eq!(mine.content_hash(b"x"), mine.content_hash(b"x"));
        assert_ne!(mine.content_hash(b"x"), mine.content_hash(b"y"));
        assert_ne!(mine.content_hash(b"x"), other.content_hash(b"x"));
    }

    #[test]
    fn printing_a_key_shows_no_key() {
        assert_eq!(
            format!("{:?}", key("key_00a", user("user_00a"))),
            r#"DataKey { id: DataKeyId("key_00a"), .. }"#
        );
    }
}
