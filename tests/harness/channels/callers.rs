//! Whoever sends batches to the database and requests to the provider.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Whoever sends batches and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Caller {
    /// The epoch that its order to send came from, if it has one.
    pub epoch: Option<i64>,
    /// How far its clock is off now, and how far behind it was at most.
    pub skew: i64,
    pub behind: i64,
    /// It sends for gateways that the service does not send for.
    pub outside: bool,
}

/// All callers, by number. Clones are the same.
#[derive(Clone)]
pub struct Callers(Rc<Inner>);

struct Inner {
    all: RefCell<Vec<Caller>>,
    /// Some clock was off, so a lease may be taken over while it lasts.
    skewed: Cell<bool>,
}

impl Callers {
    /// Only the world itself, under the number 0.
    pub fn new() -> Self {
        Self(Rc::new(Inner {
            all: RefCell::new(vec![Caller::default()]),
            skewed: Cell::new(false),
        }))
    }

    /// A number for one more caller.
    pub fn add(&self, caller: Caller) -> u64 {
        let mut all = self.0.all.borrow_mut();
        all.push(Caller { skew: 0, ..caller });
        let number = all.len() as u64 - 1;
        drop(all);
        self.skew(number, caller.skew);
        number
    }

    /// The caller's clock jumps.
    pub fn skew(&self, number: u64, millis: i64) {
        self.0.skewed.set(self.0.skewed.get() || millis != 0);
        let caller = &mut self.0.all.borrow_mut()[number as usize];
        (caller.skew, caller.behind) = (millis, caller.behind.min(millis));
    }

    pub fn get(&self, number: u64) -> Caller {
        self.0.all.borrow()[number as usize]
    }

    /// Whether any clock was off so far.
    pub fn is_skewed(&self) -> bool {
        self.0.skewed.get()
    }
}
