//! The one source of chance in a simulated world: the same seed gives the same world.

use std::cell::Cell;
use std::rc::Rc;

use domain::ports::Entropy;

/// A small generator (SplitMix64). Clones share their state.
#[derive(Debug, Clone)]
pub struct Rng(Rc<Cell<u64>>);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(Rc::new(Cell::new(seed)))
    }

    /// A generator that goes its own way from here.
    pub fn fork(&self) -> Self {
        Self::new(self.next())
    }

    pub fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be zero.
    pub fn below(&self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True in `permille` of 1,000 cases.
    pub fn chance(&self, permille: u32) -> bool {
        self.next() % 1_000 < u64::from(permille)
    }

    /// One of `items`, which must not be empty.
    pub fn pick<'a, T>(&self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}

impl Entropy for Rng {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let draw = |seed| {
            let rng = Rng::new(seed);
            (rng.next(), rng.between(-2, 2), rng.chance(500), rng.below(10))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7).0, draw(8).0);
    }

    #[test]
    fn bounds_are_kept() {
        let rng = Rng::new(1);
        for _ in 0..1_000 {
            assert!((3..=5).contains(&rng.between(3, 5)));
            assert!(rng.below(4) < 4);
        }
        assert!(!rng.chance(0));
        assert!(rng.chance(1_000));
    }
}
