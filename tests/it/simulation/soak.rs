//! Each guard and each fence is needed: without it, some world breaks a rule.

use harness::kinds::{KINDS, conditions, failing_world, label};

/// How many worlds of each kind may go by without missing a condition.
const SEEDS: u64 = 4_000;

#[test]
fn without_any_one_condition_a_rule_breaks() {
    let mut unneeded = Vec::new();
    for condition in conditions() {
        match failing_world(&KINDS, 0..SEEDS, condition) {
            Some((kind, seed, rule)) => {
                println!(
                    "{}: failing seed {seed} of the world of {} ({rule})",
                    label(condition),
                    kind.name()
                );
            }
            None => unneeded.push(label(condition)),
        }
    }
    assert!(unneeded.is_empty(), "no world of {SEEDS} misses {unneeded:?}");
}
