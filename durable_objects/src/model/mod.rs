//! Language model providers behind one trait.

mod limited;
mod openai;
mod scripted;
#[cfg(test)]
mod tests;

use domain::model::openai::endpoint;
use domain::model::{Completion, Halt, ModelError, Prompt};
use domain::ports::{Clock, Http};
use domain::settings::{ModelProvider, Prices};
use domain::time::Millis;

pub use limited::Limited;
pub use openai::OpenAi;
pub use scripted::Scripted;

/// Something that answers prompts.
pub trait Model {
    /// Answers `prompt` within `timeout`, giving the text piece by piece to `on_delta` as it comes.
    ///
    /// The call waits for `on_delta` before it goes on, because the first piece may be shown only after that it was
    /// shown is on record; when `on_delta` halts, the call ends with [`ModelError::Halted`]. The pieces put together
    /// are the text of the completion. The timeout covers the waits for `on_delta` too.
    async fn generate(
        &self,
        prompt: &Prompt,
        timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError>;
}

/// The provider that the configuration names.
pub enum Provider<H, C> {
    Scripted(Scripted<C>),
    OpenAi(OpenAi<H, C>),
}

impl<H: Http, C: Clock> Provider<H, C> {
    pub fn new(provider: ModelProvider, http: H, clock: C) -> Self {
        match provider {
            ModelProvider::Scripted { delay } => Self::Scripted(Scripted::new(delay, Prices::default(), clock)),
            ModelProvider::OpenAi {
                base_url,
                model,
                api_key,
                prices,
            } => Self::OpenAi(OpenAi {
                url: endpoint(&base_url),
                model,
                api_key,
                prices,
                http,
                clock,
            }),
        }
    }
}

impl<H: Http, C: Clock> Model for Provider<H, C> {
    async fn generate(
        &self,
        prompt: &Prompt,
        timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError> {
        match self {
            Self::Scripted(scripted) => scripted.generate(prompt, timeout, on_delta).await,
            Self::OpenAi(openai) => openai.generate(prompt, timeout, on_delta).await,
        }
    }
}
