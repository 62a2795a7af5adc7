//! Making a plan that breaks a rule as small as it gets.

/// A plan of a world that parts can be taken out of.
pub trait Smaller: Clone + PartialEq {
    fn seed(&self) -> u64;
    /// The same under another seed.
    fn seeded(&self, seed: u64) -> Self;
    /// How many steps it has.
    fn length(&self) -> usize;
    /// The same without `count` steps from `at` on.
    fn without(&self, at: usize, count: usize) -> Self;
    /// The same with one kind of trouble less, in every way there is.
    fn calmer(&self) -> Vec<Self>;
}

/// Under how many other seeds a smaller plan is tried: what is taken out changes what the seed decides for the rest.
const SEEDS: u64 = 40;

/// Makes `plan` smaller for as long as it still breaks, under its own seed or another.
pub fn shrink<P: Smaller>(plan: &P, breaks: impl Fn(&P) -> bool) -> P {
    let mut best = plan.clone();
    loop {
        let length = best.length();
        let cuts = [length / 2, length / 4, 1]
            .into_iter()
            .filter(|count| *count > 0)
            .flat_map(|count| (0..length).step_by(count).map(move |at| (at, count)));
        let smaller: Vec<P> = cuts
            .map(|(at, count)| best.without(at, count.min(length - at)))
            .chain(best.calmer())
            .filter(|smaller| smaller.seeded(best.seed()) != best)
            .collect();
        let seeded = |smaller: P| {
            std::iter::once(smaller.seed())
                .chain(0..SEEDS)
                .map(|seed| smaller.seeded(seed))
                .find(|one| breaks(one))
        };
        match smaller.into_iter().find_map(seeded) {
            Some(found) => best = found,
            None => return best,
        }
    }
}
