//! Whether there is room for more work: a breaker for the database and a bound for each outside dependency.

use std::cell::Cell;
use std::rc::Rc;

use crate::sql::{NotStarted, Outcome};
use crate::time::{Millis, Timestamp};

/// How long after the first report of overload requests are turned away.
const PAUSE_MIN: Millis = Millis::from_secs(1);
/// The longest pause after repeated reports.
const PAUSE_MAX: Millis = Millis::from_secs(16);

/// Remembers that the database said it was overloaded. While it is open, requests are answered early; when the pause
/// is over they are let through again, and a further report doubles the pause.
#[derive(Debug, Clone, Copy, Default)]
pub struct Breaker {
    open_until: Timestamp,
    pause: Millis,
}

impl Breaker {
    /// How long a caller should stay away; `None` when requests may go on.
    pub fn turned_away(&self, now: Timestamp) -> Option<Millis> {
        // A clock that went back must not keep the breaker open for longer than any pause.
        let wait = self.open_until.since(now);
        (wait > Millis::ZERO && wait <= PAUSE_MAX).then_some(wait)
    }

    /// Learns from what became of a batch.
    pub fn observe(&mut self, outcome: &Outcome, now: Timestamp) {
        match outcome {
            Outcome::NotStarted(NotStarted::Overloaded) => {
                // Requests that were under way together report one overload, not many.
                if self.turned_away(now).is_none() {
                    let doubled = self.pause.saturating_add(self.pause);
                    self.pause = doubled.max(PAUSE_MIN).min(PAUSE_MAX);
                    self.open_until = now.plus(self.pause);
                }
            }
            Outcome::Committed(_) | Outcome::Refused(_) => self.pause = Millis::ZERO,
            Outcome::NotStarted(NotStarted::Unavailable) | Outcome::Unknown => {}
        }
    }
}

/// How many calls to one dependency may be under way at once, so that a slow one cannot hold everything.
#[derive(Debug, Clone)]
pub struct Bulkhead {
    free: Rc<Cell<u32>>,
}

/// One place; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    free: Rc<Cell<u32>>,
}

impl Bulkhead {
    pub fn new(places: u32) -> Self {
        Self {
            free: Rc::new(Cell::new(places)),
        }
    }

    /// A place, if one is free. Nobody waits for one.
    pub fn enter(&self) -> Option<Permit> {
        let left = self.free.get().checked_sub(1)?;
        self.free.set(left);
        Some(Permit {
            free: Rc::clone(&self.free),
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.free.set(self.free.get().saturating_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OVERLOADED: Outcome = Outcome::NotStarted(NotStarted::Overloaded);

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_783_728_000_000).plus(Millis::new(millis))
    }

    #[test]
    fn an_overload_turns_requests_away_for_a_while() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.turned_away(at(0)), None);
        breaker.observe(&OVERLOADED, at(0));
        assert_eq!(breaker.turned_away(at(0)), Some(Millis::from_secs(1)));
        assert_eq!(breaker.turned_away(at(999)), Some(Millis::new(1)));
        assert_eq!(breaker.turned_away(at(1_000)), None);
    }

    #[test]
    fn repeated_overloads_pause_for_longer_up_to_a_bound() {
        let mut breaker = Breaker::default();
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            breaker.observe(&OVERLOADED, now);
            breaker.observe(&OVERLOADED, now);
            let pause = breaker.turned_away(now).unwrap();
            pauses.push(pause.get());
            now = now.plus(pause);
        }
        assert_eq!(pauses, [1_000, 2_000, 4_000, 8_000, 16_000, 16_000]);
        breaker.observe(&Outcome::Committed(vec![]), now);
        breaker.observe(&OVERLOADED, now);
        assert_eq!(breaker.turned_away(now), Some(Millis::from_secs(1)));
    }

    #[test]
    fn lost_replies_and_a_jumping_clock_open_nothing() {
        let mut breaker = Breaker::default();
        breaker.observe(&Outcome::Unknown, at(0));
        breaker.observe(&Outcome::NotStarted(NotStarted::Unavailable), at(0));
        assert_eq!(breaker.turned_away(at(0)), None);
        breaker.observe(&OVERLOADED, at(100_000));
        assert_eq!(breaker.turned_away(at(0)), None);
    }

    #[test]
    fn a_full_bulkhead_refuses_until_a_place_is_given_back() {
        let bulkhead = Bulkhead::new(2);
        let first = bulkhead.enter();
        let second = bulkhead.enter();
        assert!(first.is_some() && second.is_some());
        assert!(bulkhead.enter().is_none());
        drop(first);
        assert!(bulkhead.enter().is_some());
    }
}
