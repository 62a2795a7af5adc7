//! Randomness for tests, replayed from its seed.

use std::cell::Cell;

use crate::ports::Entropy;

/// Draws that follow from a seed (splitmix64).
pub struct Draws(Cell<u64>);

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed))
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to before `end`.
    pub fn below(&self, end: i64) -> i64 {
        i64::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }
}

impl Entropy for Draws {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill_with(|| self.next().to_be_bytes()[0]);
    }
}

/// The same number, big-endian, again and again.
pub struct Same(pub u32);

impl Entropy for Same {
    fn fill(&self, bytes: &mut [u8]) {
        let number = self.0.to_be_bytes();
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = number[at % 4];
        }
    }
}
