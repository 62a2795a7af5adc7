//! One-time codes with which a signed-in person shows that a chat is theirs.
//!
//! A code is not kept anywhere: it is made out of who asked for it and under which idempotency key, so that the same
//! request gives the same code again, and only a keyed hash of it is stored.

use std::fmt;

use crate::ids::UserId;
use crate::keys::{HashLabel, MasterSecrets};
use crate::time::Millis;

/// How long a code can be used.
pub const LINK_CODE_LIFE: Millis = Millis::from_mins(15);

/// Digits of five bits each: 80 bits cannot be guessed.
const DIGITS: usize = 16;
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A code in the clear. Printing it shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct LinkCode(String);

impl fmt::Debug for LinkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkCode(..)")
    }
}

impl LinkCode {
    /// The code that `user` gets for `channel` under an idempotency key, of which `key_hash` is the keyed hash.
    pub fn of(master: &MasterSecrets, user: &UserId, channel: &str, key_hash: &str) -> Self {
        let parts = [user.as_str().as_bytes(), channel.as_bytes(), key_hash.as_bytes()];
        let bytes = master.keyed_bytes_of(HashLabel::LinkCodeSource, &parts);
        // A byte a digit: its lower five bits are as good as any others.
        let digit = |byte: &u8| CROCKFORD.get(usize::from(byte & 31)).copied().map(char::from);
        Self(bytes.iter().take(DIGITS).filter_map(digit).collect())
    }

    /// Reads what a person typed: case, hyphens and the letters that look like digits do not matter.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.chars().filter(|char| *char != '-');
        let read = |char: char| match char.to_ascii_uppercase() {
            'O' => Some('0'),
            'I' | 'L' => Some('1'),
            upper if u8::try_from(upper).is_ok_and(|byte| CROCKFORD.contains(&byte)) => Some(upper),
            _ => None,
        };
        let code = plain
            .map(read)
            .take(DIGITS.saturating_add(1))
            .collect::<Option<String>>()?;
        (code.len() == DIGITS).then_some(Self(code))
    }

    /// What it is stored and looked up as.
    pub fn hash(&self, master: &MasterSecrets) -> String {
        master.keyed_hash(HashLabel::LinkCode, self.0.as_bytes())
    }

    /// The code itself, for the person it was made for.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn master() -> MasterSecrets {
        let text = r#"{"current":1,"versions":{"1":"AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI="},"hash_version":1}"#;
        MasterSecrets::from_json(text).unwrap()
    }

    fn code(user: &str, channel: &str, key: &str) -> LinkCode {
        LinkCode::of(&master(), &UserId::parse(user).unwrap(), channel, key)
    }

    #[test]
    fn the_same_request_gets_the_same_code_and_no_other_request_does() {
        let mine = code("user_00ann", "telegram", "k1");
        assert_eq!(mine.reveal().len(), 16);
        assert_eq!(mine, code("user_00ann", "telegram", "k1"));
        for other in [
            code("user_00bob", "telegram", "k1"),
            code("user_00ann", "imessage", "k1"),
            code("user_00ann", "telegram", "k2"),
        ] {
            assert_ne!(mine, other);
            assert_ne!(mine.hash(&master()), other.hash(&master()));
        }
        assert!(!mine.hash(&master()).contains(mine.reveal()));
        assert_eq!(format!("{mine:?}"), "LinkCode(..)");
    }

    #[test]
    fn a_code_may_be_typed_as_people_type() {
        let mine = code("user_00ann", "telegram", "k1");
        assert_eq!(LinkCode::parse(&mine.reveal().to_lowercase()), Some(mine));
        let typed = LinkCode::parse("o0il-23ab-CDEF-ghjk").unwrap();
        assert_eq!(typed.reveal(), "0011".to_owned() + "23ABCDEFGHJK");
    }

    #[test]
    fn other_texts_are_no_codes() {
        for text in [
            "",
            "-",
            "0123456789ABCDE",
            "0123456789ABCDEFG",
            "0123456789ABCDEU",
            "0123456789ABCDE ",
            "é",
        ] {
            assert_eq!(LinkCode::parse(text), None, "{text}");
        }
        assert_eq!(LinkCode::parse(&"é".repeat(100_000)), None);
    }
}
