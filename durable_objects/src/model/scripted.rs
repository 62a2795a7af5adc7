//! The built-in provider: deterministic, needs no key, and says that it is scripted.

use domain::model::{Completion, Halt, ModelError, Prompt, script};
use domain::ports::Clock;
use domain::settings::Prices;
use domain::time::Millis;

use super::Model;

/// Answers by [`script::answer`], in several deltas, each after a configured delay.
pub struct Scripted<C> {
    delay_per_delta: Millis,
    prices: Prices,
    clock: C,
}

impl<C: Clock> Scripted<C> {
    pub const fn new(delay_per_delta: Millis, prices: Prices, clock: C) -> Self {
        Self {
            delay_per_delta,
            prices,
            clock,
        }
    }
}

impl<C: Clock> Model for Scripted<C> {
    async fn generate(
        &self,
        prompt: &Prompt,
        timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError> {
        let deadline = self.clock.now().plus(timeout);
        let text = script::answer(prompt);
        for piece in script::pieces(&text) {
            let left = deadline.remaining_from(self.clock.now());
            if self.delay_per_delta > left {
                self.clock.sleep(left).await;
                return Err(ModelError::Timeout);
            }
            if self.delay_per_delta > Millis::ZERO {
                self.clock.sleep(self.delay_per_delta).await;
            }
            on_delta(piece).await?;
        }
        let (given, answered) = script::words(prompt, &text);
        Ok(Completion {
            usage: self.prices.usage(given, answered),
            text,
            provider: "scripted",
            model: "scripted-1".to_owned(),
        })
    }
}
