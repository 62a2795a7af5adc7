//! Native stand-ins for everything around the service, and the simulated world built from them.

pub mod alarm;
pub mod channels;
pub mod executor;
pub mod http;
pub mod kinds;
pub mod network;
pub mod queue;
pub mod rng;
pub mod shrink;
pub mod sqlite;
pub mod world;

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Runs a future that never has to wait for anything outside itself; panics when it does not get anywhere.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..100_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("the future waits for something that nothing here provides");
}
