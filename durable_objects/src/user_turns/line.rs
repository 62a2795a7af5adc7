//! The user's line: what this incarnation still has to do, in order.

use std::collections::VecDeque;

use domain::ids::TurnId;
use domain::time::Timestamp;

use crate::user_turns::Listener;

/// A turn that this incarnation accepted, and who waits for it.
pub struct Waiting {
    pub turn_id: TurnId,
    pub deadline_at: Timestamp,
    pub listener: Listener,
}

/// One piece of work.
pub enum Work {
    Turn(Waiting),
    /// Look into the ledger for what was left unfinished.
    Recover,
}

/// Work in arrival order.
#[derive(Default)]
pub struct Line(VecDeque<Work>);

impl Line {
    /// How many turns wait.
    pub fn waiting(&self) -> usize {
        self.0.iter().filter(|work| matches!(work, Work::Turn(_))).count()
    }

    pub fn push(&mut self, waiting: Waiting) {
        self.0.push_back(Work::Turn(waiting));
    }

    /// Looking once finds everything, so one such piece of work is enough.
    pub fn push_recovery(&mut self) {
        if !self.0.iter().any(|work| matches!(work, Work::Recover)) {
            self.0.push_back(Work::Recover);
        }
    }

    pub fn take_next(&mut self) -> Option<Work> {
        self.0.pop_front()
    }

    /// Takes a turn out that is still waiting.
    pub fn leave(&mut self, turn: &TurnId) -> Option<Waiting> {
        let at = self.0.iter().position(|work| match work {
            Work::Turn(waiting) => waiting.turn_id == *turn,
            Work::Recover => false,
        })?;
        match self.0.remove(at)? {
            Work::Turn(waiting) => Some(waiting),
            Work::Recover => None,
        }
    }
}
