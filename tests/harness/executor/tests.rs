use std::cell::RefCell;
use std::rc::Rc;

use domain::ports::{Clock, Spawn};
use domain::time::Millis;

use super::Executor;
use crate::rng::Rng;

/// Three tasks write their names at each of three awaits; the order is what the seed makes of it.
fn trace(seed: u64) -> String {
    let executor = Executor::new(Rng::new(seed));
    let written = Rc::new(RefCell::new(String::new()));
    for name in ['a', 'b', 'c'] {
        let (executor_, written) = (executor.clone(), Rc::clone(&written));
        executor.spawn(async move {
            for _ in 0..3 {
                written.borrow_mut().push(name);
                executor_.pause().await;
            }
        });
    }
    executor.run(1_000);
    written.borrow().clone()
}

#[test]
fn the_seed_decides_the_order_and_nothing_else_does() {
    assert_eq!(trace(3), trace(3));
    assert!((0..20).any(|seed| trace(seed) != trace(3)));
}

#[test]
fn time_moves_only_when_everything_waits() {
    let executor = Executor::new(Rng::new(1));
    let clock = executor.process().clock();
    let start = clock.now();
    let order = Rc::new(RefCell::new(Vec::new()));
    for delay in [30, 10, 20] {
        let (clock, order) = (clock.clone(), Rc::clone(&order));
        executor.spawn(async move {
            clock.sleep(Millis::new(delay)).await;
            order.borrow_mut().push((delay, clock.now().since(start).get()));
        });
    }
    executor.run(1_000);
    assert_eq!(*order.borrow(), [(10, 10), (20, 20), (30, 30)]);
}

#[test]
fn a_killed_process_stops_where_it_stands_and_others_go_on() {
    let executor = Executor::new(Rng::new(1));
    let (doomed, other) = (executor.process(), executor.process());
    let done = Rc::new(RefCell::new(Vec::new()));
    for (name, process) in [("doomed", &doomed), ("other", &other)] {
        let (executor, done) = (executor.clone(), Rc::clone(&done));
        process.spawn(Box::pin(async move {
            done.borrow_mut().push((name, 1));
            executor.sleep(10).await;
            done.borrow_mut().push((name, 2));
        }));
    }
    executor.block_on({
        let executor = executor.clone();
        async move { executor.sleep(5).await }
    });
    doomed.kill();
    doomed.spawn(Box::pin(async { panic!("a dead process runs nothing") }));
    executor.run(1_000);
    let mut done = done.borrow().clone();
    done.sort_unstable();
    assert_eq!(done, [("doomed", 1), ("other", 1), ("other", 2)]);
    assert!(!doomed.is_alive());
}

#[test]
fn a_clock_that_jumps_does_not_move_the_waits() {
    let executor = Executor::new(Rng::new(1));
    let process = executor.process();
    let clock = process.clock();
    let before = clock.now();
    process.set_skew(-5_000);
    assert_eq!(clock.now().since(before), Millis::new(-5_000));
    let waiting = clock.clone();
    executor.block_on(async move { waiting.sleep(Millis::new(100)).await });
    assert_eq!(clock.now().since(before), Millis::new(-4_900));
}
