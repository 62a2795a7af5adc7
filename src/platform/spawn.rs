//! Work that outlives the answer, kept alive by `waitUntil` for as long as the platform allows.

use std::rc::Rc;

use domain::ports::{LocalFuture, Spawn};

/// Tasks of one request.
#[derive(Debug, Clone)]
pub struct RequestSpawn(Rc<worker::Context>);

impl RequestSpawn {
    pub fn new(context: worker::Context) -> Self {
        Self(Rc::new(context))
    }
}

impl Spawn for RequestSpawn {
    fn spawn(&self, task: LocalFuture<()>) {
        self.0.wait_until(task);
    }
}

/// Tasks of one Durable Object.
#[derive(Clone)]
pub struct ObjectSpawn(Rc<worker::durable::State>);

impl ObjectSpawn {
    pub fn new(state: Rc<worker::durable::State>) -> Self {
        Self(state)
    }
}

impl Spawn for ObjectSpawn {
    fn spawn(&self, task: LocalFuture<()>) {
        self.0.wait_until(task);
    }
}
