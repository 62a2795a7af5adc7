//! Named places where a test configuration may hold or kill the service. Without the binding nothing happens.

use domain::ports::Checkpoint;
use worker::{Env, Fetcher};

pub const BINDING: &str = "CHECKPOINT";

#[derive(Debug, Clone, Default)]
pub struct ServiceCheckpoint(Option<Fetcher>);

impl ServiceCheckpoint {
    pub fn new(env: &Env) -> Self {
        Self(env.service(BINDING).ok())
    }

    /// Whether something is bound there, which production refuses.
    pub fn is_bound(&self) -> bool {
        self.0.is_some()
    }
}

impl Checkpoint for ServiceCheckpoint {
    async fn reach(&self, name: &'static str) {
        if let Some(service) = &self.0 {
            // Whatever it answers, the service goes on.
            let answer = service.fetch(format!("http://checkpoint/{name}"), None).await;
            #[cfg(feature = "probes")]
            crate::probes::panic_if_told(answer).await;
            #[cfg(not(feature = "probes"))]
            drop(answer);
        }
    }
}
