//! How a channel's messages are sent: leases, pace, retries and their ends.

use crate::outbox::Origin;
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

/// How far a wait may be off its schedule, in millionths of it.
const JITTER: i64 = 200_000;
const WHOLE: i64 = 1_000_000;

/// The longest time for which a provider's word holds up more than the one row: nothing that waits now lives longer.
pub const HOLD_MAX: Millis = Millis::from_mins(24 * 60);

/// The longest time for which a provider holds up more than the one row that does not say for how long: a row that has
/// been tried often waits for hours, and must not silence everything else meanwhile.
pub const HOLD_UNSTATED_MAX: Millis = Millis::from_secs(60);

/// The wait that the schedule has after so many attempts, without jitter: none before the first.
pub fn wait_after(attempts_made: i64) -> Millis {
    let Some(at) = attempts_made.checked_sub(1).and_then(|at| usize::try_from(at).ok()) else {
        return Millis::ZERO;
    };
    SCHEDULE.get(at).or(SCHEDULE.last()).copied().unwrap_or(Millis::ZERO)
}

/// When a row is tried again that was tried `attempts_made` times: the schedule with up to 20 % of jitter either way,
/// and never before the time that the provider asked for (`after`).
pub fn retry_at(attempts_made: i64, now: Timestamp, after: Option<Millis>, entropy: &impl Entropy) -> Timestamp {
    let jittered = jitter(wait_after(attempts_made), entropy);
    now.plus(jittered.max(after.unwrap_or(Millis::ZERO)))
}

fn jitter(wait: Millis, entropy: &impl Entropy) -> Millis {
    let mut random = [0_u8; 4];
    entropy.fill(&mut random);
    let span = JITTER.saturating_mul(2).saturating_add(1);
    // The span is not zero and the remainder far from any limit.
    let drawn = i64::from(u32::from_be_bytes(random))
        .checked_rem(span)
        .unwrap_or(JITTER);
    let share = WHOLE.saturating_sub(JITTER).saturating_add(drawn);
    Millis::new(wait.get().saturating_mul(share).checked_div(WHOLE).unwrap_or(0))
}

/// Whether a send that may take `deadline` may be started now: it ends, with a margin, before the lease does, and the
/// row has not expired.
pub fn may_start(now: Timestamp, lease_until: Timestamp, expires_at: Timestamp, deadline: Millis) -> bool {
    now.plus(deadline).plus(LEASE_MARGIN) <= lease_until && now < expires_at
}

/// When a row that is made now expires. A reminder, or a proactive message with a window, passes its own end where
/// that comes earlier.
pub fn expiry(origin: Origin, now: Timestamp) -> Timestamp {
    now.plus(Millis::from_mins(match origin {
        Origin::Channel | Origin::Context | Origin::Notice => 24 * 60,
        Origin::Proactive | Origin::Reminder => 4 * 60,
        Origin::Event => 60,
        Origin::Challenge => 5,
    }))
}

/// Which rows of a gateway go first: the smaller number.
pub const fn priority(origin: Origin) -> u32 {
    match origin {
        Origin::Challenge => 10,
        Origin::Reminder => 20,
        Origin::Channel | Origin::Context => 30,
        Origin::Notice => 40,
        Origin::Event => 50,
        Origin::Proactive => 60,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::testing::{Draws, Same};
    use crate::retry::retry_after;

    const NOW: i64 = 1_783_728_000_000;

    fn now() -> Timestamp {
        Timestamp::from_millis(NOW)
    }

    #[test]
    fn the_schedule_is_exactly_this() {
        let waits: Vec<i64> = (0..13).map(|made| wait_after(made).get()).collect();
        let seconds = [0, 5, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 7_200];
        assert_eq!(waits, seconds.map(|second| second * 1_000));
        assert_eq!(wait_after(i64::MIN), Millis::ZERO);
        assert_eq!(wait_after(i64::MAX), Millis::from_mins(120));
        assert_eq!(TELEGRAM.attempts_max, 12);
    }

    #[test]
    fn jitter_reaches_both_its_bounds() {
        assert_eq!(retry_at(4, now(), None, &Same(0)), now().plus(Millis::from_secs(48)));
        let most = u32::try_from(2 * JITTER).unwrap();
        assert_eq!(retry_at(4, now(), None, &Same(most)), now().plus(Millis::from_secs(72)));
    }

    #[test]
    fn a_wait_stays_within_a_fifth_of_the_schedule_and_never_shrinks_from_one_attempt_to_the_next() {
        for seed in 0..20_000_u64 {
            let draws = Draws::new(seed);
            let made = 1 + draws.below(14);
            let wait = retry_at(made, now(), None, &draws).since(now()).get();
            let base = wait_after(made).get();
            assert!(
                (base * 4 / 5..=base * 6 / 5).contains(&wait),
                "seed {seed}: {wait} of {base}"
            );
            assert!(wait_after(made) <= wait_after(made + 1), "seed {seed}");
        }
    }

    #[test]
    fn what_a_provider_asks_for_only_ever_delays() {
        for seed in 0..20_000_u64 {
            let draws = Draws::new(seed);
            let made = 1 + draws.below(12);
            let text = any_retry_after(&draws);
            let after = retry_after(&text, now());
            let bytes = draws.next();
            let without = retry_at(made, now(), None, &Draws::new(bytes));
            let with = retry_at(made, now(), after, &Draws::new(bytes));
            let asked = now().plus(after.unwrap_or(Millis::ZERO));
            assert_eq!(with, without.max(asked), "seed {seed}: {text:?}");
        }
    }

    /// A header's value: seconds of any size, a date before or after now, or nonsense.
    fn any_retry_after(draws: &Draws) -> String {
        let number = draws.next();
        match draws.below(7) {
            0 => draws.below(100_000).to_string(),
            1 => number.to_string(),
            2 => format!("{number}{number}"),
            3 | 4 => {
                let secs = u64::try_from(NOW / 1_000 + draws.below(200_000) - 100_000).unwrap();
                httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(secs))
            }
            5 => format!("-{number}"),
            _ => char::from_u32(u32::try_from(draws.below(0xd000)).unwrap()).map_or_else(String::new, String::from),
        }
    }

    #[test]
    fn a_send_is_started_only_if_it_ends_before_its_lease_and_its_row_has_not_expired() {
        let at = |millis| now().plus(Millis::new(millis));
        let late = at(1_000_000);
        let start = |now, lease, expires| may_start(now, lease, expires, Millis::from_secs(10));
        assert!(start(now(), at(12_000), late));
        assert!(!start(now(), at(11_999), late));
        assert!(start(now(), at(12_000), at(1)));
        assert!(!start(now(), at(12_000), now()));
    }

    #[test]
    fn each_origin_has_its_own_end_and_place_in_the_line() {
        let table = Origin::ALL.iter().map(|origin| {
            let minutes = expiry(*origin, now()).since(now()).get() / 60_000;
            (origin.as_str(), minutes, priority(*origin))
        });
        let expected = [
            ("channel", 1_440, 30),
            ("context", 1_440, 30),
            ("proactive", 240, 60),
            ("reminder", 240, 20),
            ("event", 60, 50),
            ("challenge", 5, 10),
            ("notice", 1_440, 40),
        ];
        assert_eq!(table.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_telegram_pace_keeps_to_thirty_in_any_second() {
        let in_a_second = 1_000_i64.div_euclid(TELEGRAM.gateway_interval.get());
        assert!(i64::from(WAVE_MAX) + in_a_second <= 30);
        assert_eq!(TELEGRAM.lane_interval, Millis::from_secs(1));
        assert!(TELEGRAM.deadline.saturating_add(LEASE_MARGIN) < TELEGRAM.lease);
    }
}
