//! Each guard is needed: without it, some world breaks a rule.

use domain::guard::Guard;
use harness::world::many::failing_seed;

/// How many worlds may go by without missing a guard.
const SEEDS: u64 = 4_000;

#[test]
fn without_any_one_guard_a_rule_breaks() {
    let mut unneeded = Vec::new();
    for guard in Guard::ALL {
        match failing_seed(0..SEEDS, *guard) {
            Some((seed, rule)) => println!("guard {}: failing seed {seed} ({rule})", guard.label()),
            None => unneeded.push(guard.label()),
        }
    }
    assert!(unneeded.is_empty(), "no world of {SEEDS} misses {unneeded:?}");
}
