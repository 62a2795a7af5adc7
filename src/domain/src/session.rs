//! Sessions: who decides where one begins, and the boundary of 30 minutes.

use serde::{Deserialize, Serialize};

use crate::time::{Millis, Timestamp};

/// A message this long after the user's previous one in the conversation starts a new session.
pub const SESSION_GAP: Millis = Millis::from_mins(30);

/// Who decides where a session begins and ends. No client can choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionAuthority {
    /// Hermod itself, by the gap between messages.
    EngineGap,
    /// A Hermes agent, for its own sessions.
    Hermes,
}

impl SessionAuthority {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EngineGap => "engine_gap",
            Self::Hermes => "hermes",
        }
    }
}

/// Whether a message at `now` continues the session in which the user last spoke at `previous`.
///
/// Less than 30:00.000 continues; 30:00.000 or more starts anew. A clock that went back continues.
pub fn continues(previous: Timestamp, now: Timestamp) -> bool {
    now.since(previous) < SESSION_GAP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_is_exactly_thirty_minutes() {
        let previous = Timestamp::from_millis(1_783_728_000_000);
        let after = |ms| continues(previous, previous.plus(Millis::new(ms)));
        assert!(after(0));
        assert!(after(1_799_999));
        assert!(!after(1_800_000));
        assert!(!after(1_800_001));
        assert!(after(-60_000), "a clock that went back does not cut a session");
    }
}
