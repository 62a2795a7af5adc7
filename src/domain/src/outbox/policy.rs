//! How a channel's messages are sent: leases, pace, retries and their ends.

use crate::outbox::{Origin, SendChannel};
use crate::ports::Entropy;
use crate::time::{Millis, Timestamp};

/// What a channel allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How long a claimed row is held.
    pub lease: Millis,
    /// The longest one send may take.
    pub deadline: Millis,
    /// Attempts in all.
    pub attempts_max: i64,
    /// Attempts of which nobody knows whether the provider took them (no answer in time, a crash): each may show the
    /// person the message once more, so there are few.
    pub ambiguous_max: i64,
    /// Between two messages to one destination.
    pub lane_interval: Millis,
    /// Between two messages of one gateway, on average.
    pub gateway_interval: Millis,
}

/// The most rows that are claimed, sent at once and settled together.
pub const WAVE_MAX: u32 = 6;

/// What must remain of a lease after a send's deadline.
pub const LEASE_MARGIN: Millis = Millis::from_secs(2);

/// Telegram: one message a second for a chat; of a bot at most 30 in any second, which a wave of six and 42 ms for each
/// message keep (6 + 1,000 / 42 = 29).
pub const TELEGRAM: Policy = Policy {
    lease: Millis::from_secs(60),
    deadline: Millis::from_secs(10),
    attempts_max: 12,
    ambiguous_max: 4,
    lane_interval: Millis::from_secs(1),
    gateway_interval: Millis::new(42),
};

/// What outside senders are held to.
pub const OUTSIDE: Policy = Policy {
    gateway_interval: Millis::ZERO,
    ..TELEGRAM
};

/// The wait after the first, second, … attempt; the last goes on for all later ones.
pub const SCHEDULE: [Millis; 11] = [
    Millis::from_secs(5),
    Millis::from_secs(15),
    Millis::from_secs(30),
    Millis::from_secs(60),
    Millis::from_mins(2),
    Millis::from_mins(5),
    Millis::from_mins(10),
    Millis::from_mins(20),
    Millis::from_mins(30),
    Millis::from_mins(60),
    Millis::from_mins(120),
];
