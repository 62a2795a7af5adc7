//! Identifiers. Each is its own type, so one can never stand in for another.
//!
//! An id is `{prefix}_{shard}{rest}`: two lower-case hex digits name the shard that owns the row, then 1 to 40
//! characters out of `0-9 A-Z a-z _ -`. Minted ids continue with a time part and 80 random bits in Crockford's
//! alphabet, so they sort by creation and cannot be guessed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ports::Entropy;
use crate::sql::{Shard, Value};
use crate::time::Timestamp;

/// The shard that new users are placed on.
pub const HOME_SHARD: u8 = 0;

const REST_MAX: usize = 40;
const CROCKFORD: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// The text is not an id of the wanted kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidId;

fn parse(prefix: &str, text: &str) -> Result<u8, InvalidId> {
    let tail = text
        .strip_prefix(prefix)
        .and_then(|tail| tail.strip_prefix('_'))
        .ok_or(InvalidId)?;
    let (shard, rest) = tail.split_at_checked(2).ok_or(InvalidId)?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if rest.is_empty() || rest.len() > REST_MAX || !rest.bytes().all(plain) {
        return Err(InvalidId);
    }
    if !shard
        .bytes()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    {
        return Err(InvalidId);
    }
    match u8::from_str_radix(shard, 16) {
        // One shard today; an id of another is not ours.
        Ok(HOME_SHARD) => Ok(HOME_SHARD),
        Ok(_) | Err(_) => Err(InvalidId),
    }
}

fn crockford(value: u128, digits: u32) -> String {
    (0..digits)
        .rev()
        .filter_map(|digit| {
            let five_bits = (value >> digit.saturating_mul(5)) & 31;
            usize::try_from(five_bits).ok().and_then(|at| CROCKFORD.get(at))
        })
        .map(|byte| char::from(*byte))
        .collect()
}

fn mint(prefix: &str, shard: u8, now: Timestamp, entropy: &impl Entropy) -> String {
    let time = u128::try_from(now.as_millis().max(0)).unwrap_or(0);
    let mut random = [0_u8; 16];
    entropy.fill(random.split_at_mut(10).0);
    let random = u128::from_be_bytes(random) >> 48;
    format!("{prefix}_{shard:02x}{}{}", crockford(time, 10), crockford(random, 16))
}

/// Draws zeros only.
struct Nothing;

impl Entropy for Nothing {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident = $prefix:literal;)+) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// Reads an id of this kind.
            pub fn parse(text: &str) -> Result<Self, InvalidId> {
                parse($prefix, text).map(|_| Self(text.to_owned()))
            }

            /// A new id that no one can guess.
            pub fn mint(now: Timestamp, entropy: &impl Entropy) -> Self {
                Self(mint($prefix, HOME_SHARD, now, entropy))
            }

            /// Sorts before every id minted at `at` or later, and behind every one minted earlier.
            pub fn first_of(at: Timestamp) -> Self {
                Self::mint(at, &Nothing)
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The shard whose tables hold this row.
            pub fn shard(&self) -> Shard {
                parse($prefix, &self.0).map_or(Shard::Directory, Shard::User)
            }
        }

        impl TryFrom<String> for $name {
            type Error = &'static str;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::parse(&text).map_err(|InvalidId| concat!("not an id of the form ", $prefix, "_00…"))
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&$name> for Value {
            fn from(id: &$name) -> Self {
                Self::Text(id.0.clone())
            }
        }
    )+ };
}

ids! {
    /// A family: the boundary that nothing crosses.
    FamilyId = "family";
    /// A person in a family.
    UserId = "user";
    /// One accepted message and all that becomes of it.
    TurnId = "turn";
    /// One HTTP request; minted by the server.
    RequestId = "req";
    /// A thread of messages of one user on one channel.
    ConversationId = "conv";
    /// A run of messages without a gap of 30 minutes.
    SessionId = "session";
    /// A service that speaks for a channel, such as a Telegram bot or a Hermes agent.
    GatewayId = "gateway";
    /// The address of a user on a channel.
    AddressId = "address";
    /// A data key that encrypts one subject's content.
    DataKeyId = "key";
    /// A caller-minted proof of holding a run or a lease; what an unanswered batch is looked up by.
    LeaseToken = "lease";
    /// One message to a provider, in the outbox.
    OutboxId = "out";
    /// The `jti` of an access token.
    TokenId = "jwt";
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Ones;
    impl Entropy for Ones {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(0xff);
        }
    }

    #[test]
    fn minted_ids_parse_and_sort_by_time() {
        let early = TurnId::mint(Timestamp::from_millis(1_783_728_000_000), &Ones);
        let late = TurnId::mint(Timestamp::from_millis(1_783_728_000_001), &Ones);
        assert_eq!(early.as_str(), "turn_0001kx77jk00zzzzzzzzzzzzzzzz");
        assert_eq!(TurnId::parse(early.as_str()), Ok(early.clone()));
        assert!(early < late);
        let between = TurnId::first_of(Timestamp::from_millis(1_783_728_000_001));
        assert!(early < between && between < late);
        assert_eq!(early.shard(), Shard::User(0));
    }

    #[test]
    fn foreign_shapes_are_refused() {
        for text in [
            "",
            "turn_",
            "turn_00",
            "user_00x",
            "turn_zzabc",
            "turn_01abc",
            "turn_00a/b",
            "turn_00a b",
            "turn_0Fx",
        ] {
            assert_eq!(TurnId::parse(text), Err(InvalidId), "{text}");
        }
        assert_eq!(TurnId::parse(&format!("turn_00{}", "a".repeat(41))), Err(InvalidId));
        assert_eq!(TurnId::parse("turn_00é"), Err(InvalidId));
    }
}
