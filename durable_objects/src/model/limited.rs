//! A provider that takes only so many calls at once, so that a slow one cannot fill the whole service.

use domain::http::admission::Bulkhead;
use domain::model::{Completion, Halt, ModelError, Prompt};
use domain::time::Millis;

use super::Model;

/// A model behind a bulkhead. A call that finds no place is refused at once.
pub struct Limited<M> {
    inner: M,
    places: Bulkhead,
}

impl<M> Limited<M> {
    /// Lets as many calls through as `places` has room for; clones of a bulkhead share their places.
    pub fn new(inner: M, places: Bulkhead) -> Self {
        Self { inner, places }
    }
}

impl<M: Model> Model for Limited<M> {
    async fn generate(
        &self,
        prompt: &Prompt,
        timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError> {
        let Some(_place) = self.places.enter() else {
            return Err(ModelError::RateLimited { retry_after: None });
        };
        self.inner.generate(prompt, timeout, on_delta).await
    }
}
