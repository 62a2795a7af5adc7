//! Any provider that speaks OpenAI's `chat/completions`.

use domain::model::openai::{Answer, refusal, request_body};
use domain::model::{Completion, Halt, ModelError, Prompt};
use domain::ports::{Clock, Http, HttpBody, HttpError, Method, OutboundRequest};
use domain::settings::{Prices, Secret};
use domain::time::Millis;

use super::Model;

/// Streams answers from the configured address.
pub struct OpenAi<H, C> {
    /// The full address that requests are posted to.
    pub(super) url: String,
    pub(super) model: String,
    pub(super) api_key: Secret,
    pub(super) prices: Prices,
    pub(super) http: H,
    pub(super) clock: C,
}

impl<H: Http, C: Clock> OpenAi<H, C> {
    fn request(&self, prompt: &Prompt, timeout: Millis) -> OutboundRequest {
        let headers = vec![
            ("content-type", "application/json".to_owned()),
            ("accept", "text/event-stream, application/json".to_owned()),
            ("authorization", format!("Bearer {}", self.api_key.reveal())),
        ];
        OutboundRequest {
            method: Method::Post,
            url: self.url.clone(),
            headers,
            body: request_body(prompt, &self.model),
            timeout,
        }
    }
}

impl<H: Http, C: Clock> Model for OpenAi<H, C> {
    async fn generate(
        &self,
        prompt: &Prompt,
        timeout: Millis,
        on_delta: &mut impl AsyncFnMut(&str) -> Result<(), Halt>,
    ) -> Result<Completion, ModelError> {
        let mut response = self.http.send(self.request(prompt, timeout)).await.map_err(broken)?;
        if response.status != 200 {
            return Err(refusal(
                response.status,
                response.retry_after.as_deref(),
                self.clock.now(),
            ));
        }
        let mut answer = Answer::default();
        loop {
            let piece = match response.body.chunk().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // The whole text has come; that its usage never will is no reason to lose it.
                Err(_) if answer.is_finished() => break,
                Err(error) => return Err(broken(error)),
            };
            let delta = answer.push(&piece)?.concat();
            if !delta.is_empty() {
                on_delta(&delta).await?;
            }
            if answer.is_complete() {
                break;
            }
        }
        let (finished, rest) = answer.finish(self.prices)?;
        if let Some(rest) = rest {
            on_delta(&rest).await?;
        }
        Ok(Completion {
            text: finished.text,
            usage: finished.usage,
            provider: "openai",
            model: finished.model.unwrap_or_else(|| self.model.clone()),
        })
    }
}

const fn broken(error: HttpError) -> ModelError {
    match error {
        HttpError::Timeout => ModelError::Timeout,
        HttpError::Transport => ModelError::Unavailable,
    }
}
