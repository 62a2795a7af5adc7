//! A provider that takes only so many calls at once, so that a slow one cannot fill the whole service.

use domain::http::admission::Bulkhead;
use domain::model::{Completion, Halt, ModelError, Prompt};
use domain::ports::Clock;
use domain::time::Millis;

use super::Model;

/// A model behind a bulkhead. A call that finds no place is refused at once.
pub struct Limited<M, C> {
    inner: M,
    clock: C,
    places: Bulkhead,
}

impl<M, C> Limited<M, C> {
    /// Lets as many calls through as `places` has room for; clones of a bulkhead share their places.
    pub fn new(inner: M, clock: C, places: Bulkhead) -> Self {
        Self { inner, clock, places }
    }
}

impl<M: Model, C: Clock> Model for Limited<M, C> {
    async fn generate(
        &self,
        prompt: &Prompt,
        timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError> {
        let Some(_place) = self.places.enter(self.clock.now(), timeout) else {
            return Err(ModelError::RateLimited { retry_after: None });
        };
        self.inner.generate(prompt, timeout, on_delta).await
    }
}
