//! Language model providers behind one trait.

use domain::model::{Completion, Halt, ModelError, Prompt};
use domain::time::Millis;

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
