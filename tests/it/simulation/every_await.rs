//! One turn, and a death or a fault at each place where there can be one, none left out.

use harness::world::plan::{Act, Plan, Step};
use harness::world::run;

use super::reproduction::{calm, message};

/// More steps than the one turn of these worlds takes.
const STEPS: u32 = 80;

fn streamed(mut step: Step) -> Step {
    if let Act::Send(send) = &mut step.act {
        send.stream = true;
        send.retries = 5;
    }
    step
}

fn with(act: Act) -> Plan {
    calm(vec![streamed(message(0, 1)), Step { at: 0, act }])
}

#[test]
fn the_object_dies_at_every_await_of_a_turn() {
    let mut lost = 0;
    for after in 0..STEPS {
        let plan = with(Act::Kill { user: 0, after });
        for seed in 0..10 {
            let report = run(&Plan { seed, ..plan.clone() }, None);
            assert!(
                report.violations.is_empty(),
                "await {after}, seed {seed}: {}",
                report.violations[0]
            );
            assert!(report.turns <= 1, "await {after}, seed {seed}: {} turns", report.turns);
            lost += report.request_endings.get("(connection lost)").copied().unwrap_or(0);
        }
    }
    assert!(
        lost > 100,
        "the deaths came too early or too late: only {lost} connections broke"
    );
}

#[test]
fn a_second_copy_comes_to_life_at_every_moment_of_a_turn() {
    for at in 0..60 {
        let both = [Act::Split { user: 0 }, Act::Wake { user: 0 }];
        let mut plan = calm(vec![streamed(message(0, 1)), streamed(message(1, 1)), message(2, 2)]);
        plan.slowest = 5;
        plan.steps.extend(both.map(|act| Step { at, act }));
        for seed in 0..10 {
            let report = run(&Plan { seed, ..plan.clone() }, None);
            assert!(
                report.violations.is_empty(),
                "at {at}, seed {seed}: {}",
                report.violations[0]
            );
            assert_eq!(report.turns, 2, "at {at}, seed {seed}");
        }
    }
}
