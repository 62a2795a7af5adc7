//! Whether there is room for more work: a breaker for the database and a bound for each outside dependency.

use std::cell::RefCell;
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
    places: usize,
    taken: Rc<RefCell<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    places: Vec<Place>,
}

#[derive(Debug)]
struct Place {
    number: u64,
    since: Timestamp,
    longest: Millis,
}

/// One place; given back when dropped.
#[derive(Debug)]
pub struct Permit {
    number: u64,
    taken: Rc<RefCell<Taken>>,
}

impl Bulkhead {
    pub fn new(places: u32) -> Self {
        Self {
            places: usize::try_from(places).unwrap_or(usize::MAX),
            taken: Rc::default(),
        }
    }

    /// A place for a call that lasts no longer than `longest`, if one is free. Nobody waits for one.
    ///
    /// A call that is still there after its time counts as gone: a request that the platform ends is never dropped,
    /// and would keep its place for as long as the isolate lives.
    pub fn enter(&self, now: Timestamp, longest: Millis) -> Option<Permit> {
        let mut taken = self.taken.borrow_mut();
        // A clock that went back must not keep a place taken either.
        taken.places.retain(|place| {
            let held = now.since(place.since);
            held >= Millis::ZERO && held < place.longest
        });
        if taken.places.len() >= self.places {
            return None;
        }
        let number = taken.next;
        taken.next = number.saturating_add(1);
        taken.places.push(Place {
            number,
            since: now,
            longest,
        });
        Some(Permit {
            number,
            taken: Rc::clone(&self.taken),
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.taken
            .borrow_mut()
            .places
            .retain(|place| place.number != self.number);
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
        let enter = |ms| bulkhead.enter(at(ms), Millis::from_secs(5));
        let first = enter(0);
        let second = enter(1);
        assert!(first.is_some() && second.is_some());
        assert!(enter(2).is_none());
        drop(first);
        assert!(enter(2).is_some());
    }

    #[test]
    fn a_place_whose_holder_was_lost_is_free_again_after_its_time() {
        let bulkhead = Bulkhead::new(1);
        let enter = |ms| bulkhead.enter(at(ms), Millis::from_secs(5));
        std::mem::forget(enter(0));
        assert!(enter(4_999).is_none());
        let late = enter(5_000);
        assert!(late.is_some() && enter(5_001).is_none());
        assert!(enter(0).is_some(), "a clock that went back");
    }
}
