//! The `chat/completions` protocol of OpenAI and everyone compatible with it: requests out, answers in, pure.

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use super::sse::{Decoder, SseError};
use super::{ANSWER_BYTES_MAX, ModelError, Prompt, Usage};
use crate::retry::retry_after;
use crate::settings::Prices;
use crate::time::Timestamp;

/// The most bytes that are read of one answer: 48 KiB of text one character at a time, each in its own event.
const STREAM_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The most bytes of an answer in one document: 48 KiB of text, every byte escaped, and what stands around it.
const DOCUMENT_BYTES_MAX: usize = 512 * 1024;

const PATH: &str = "/chat/completions";

/// Where requests are posted to: the configured address, completed by `/chat/completions` if it lacks that.
pub fn endpoint(base: &Url) -> String {
    let base = base.as_str().trim_end_matches('/');
    base.strip_suffix(PATH).unwrap_or(base).to_owned() + PATH
}

/// The body of the request: the answer streamed, its usage told at the end.
pub fn request_body(prompt: &Prompt, model: &str) -> Vec<u8> {
    let system = json!({"role": "system", "content": prompt.system_text()});
    let said = prompt
        .messages
        .iter()
        .map(|message| json!({"role": message.role.as_str(), "content": message.text}));
    let messages: Vec<Value> = std::iter::once(system).chain(said).collect();
    json!({
        "model": model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    })
    .to_string()
    .into_bytes()
}

/// What a status other than 200 means.
pub fn refusal(status: u16, header: Option<&str>, now: Timestamp) -> ModelError {
    match status {
        429 => ModelError::RateLimited {
            retry_after: header.and_then(|text| retry_after(text, now)),
        },
        408 | 409 | 425 | 500..=599 => ModelError::Unavailable,
        // Redirects are never followed, so one is as final as a refusal.
        300..=499 => ModelError::Rejected,
        _ => ModelError::Malformed,
    }
}

/// Reads one answer, streamed or whole, from the pieces of a 200 response's body.
///
/// A provider that ignores `stream` sends one JSON document; it is told from a stream by its first character.
#[derive(Default)]
pub struct Answer {
    form: Form,
    received: usize,
    text: String,
    /// The whole text has come.
    finished: bool,
    /// So has everything else.
    complete: bool,
    model: Option<String>,
    tokens: Option<Tokens>,
}

#[derive(Default)]
enum Form {
    /// Nothing but white space so far.
    #[default]
    Undecided,
    Stream(Decoder),
    Document(Vec<u8>),
}

/// A finished answer as the provider told it.
#[derive(PartialEq, Eq)]
pub struct Finished {
    pub text: String,
    /// The model that answered, if the provider named it.
    pub model: Option<String>,
    /// Zero tokens where the provider did not count.
    pub usage: Usage,
}

impl Answer {
    /// Takes the next piece of the body and gives the new pieces of text.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<String>, ModelError> {
        self.received = self.received.saturating_add(piece.len());
        if self.received > STREAM_BYTES_MAX {
            return Err(ModelError::TooLong);
        }
        let piece = match self.form {
            Form::Undecided => piece.trim_ascii_start(),
            Form::Stream(_) | Form::Document(_) => piece,
        };
        let Some(first) = piece.first() else {
            return Ok(Vec::new());
        };
        if let Form::Undecided = self.form {
            self.form = if *first == b'{' {
                Form::Document(Vec::new())
            } else {
                Form::Stream(Decoder::default())
            };
        }
        match &mut self.form {
            Form::Undecided => Ok(Vec::new()),
            Form::Document(document) => {
                document.extend_from_slice(piece);
                if document.len() > DOCUMENT_BYTES_MAX {
                    return Err(ModelError::TooLong);
                }
                Ok(Vec::new())
            }
            Form::Stream(decoder) => {
                let events = decoder.push(piece)?;
                let mut deltas = Vec::new();
                for event in events {
                    deltas.extend(self.event(&event)?);
                }
                Ok(deltas)
            }
        }
    }

    /// The whole text is there; only its usage may still follow.
    pub const fn is_finished(&self) -> bool {
        self.finished
    }

    /// Nothing more is to come, whether or not the provider closes the stream.
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    fn event(&mut self, data: &str) -> Result<Option<String>, ModelError> {
        if data.trim() == "[DONE]" {
            self.finished = true;
            self.complete = true;
            return Ok(None);
        }
        if data.is_empty() {
            return Ok(None);
        }
        let chunk: Chunk = serde_json::from_str(data).map_err(|_| ModelError::Malformed)?;
        self.take(chunk)
    }

    fn take(&mut self, chunk: Chunk) -> Result<Option<String>, ModelError> {
        if let Some(error) = chunk.error {
            return Err(error.meaning());
        }
        let named = chunk.model.filter(|name| is_model_name(name));
        self.model = self.model.take().or(named);
        let counted = chunk.usage.is_some();
        self.tokens = chunk.usage.or(self.tokens);
        let choice = chunk.choices.into_iter().flatten().next();
        self.finished = self.finished || choice.as_ref().is_some_and(|choice| choice.finish_reason.is_some());
        // Some providers count in every event; only what comes with or behind the end is final.
        self.complete = self.complete || (self.finished && counted);
        let Some(choice) = choice else {
            return Ok(None);
        };
        let said = choice
            .delta
            .or(choice.message)
            .and_then(|said| said.content)
            .filter(|text| !text.is_empty());
        let Some(said) = said else { return Ok(None) };
        if self.text.len().saturating_add(said.len()) > ANSWER_BYTES_MAX {
            return Err(ModelError::TooLong);
        }
        self.text.push_str(&said);
        Ok(Some(said))
    }

    /// The body has ended: the whole answer, and the text that was not given as a piece before.
    pub fn finish(mut self, prices: Prices) -> Result<(Finished, Option<String>), ModelError> {
        let rest = match std::mem::take(&mut self.form) {
            Form::Document(document) => {
                let chunk: Chunk = serde_json::from_slice(&document).map_err(|_| ModelError::Malformed)?;
                let rest = self.take(chunk)?;
                self.finished = true;
                rest
            }
            Form::Undecided | Form::Stream(_) => None,
        };
        if !self.finished {
            // The stream broke off: what was read may be half a sentence.
            return Err(ModelError::Unavailable);
        }
        if self.text.trim().is_empty() {
            return Err(ModelError::Malformed);
        }
        let tokens = self.tokens.unwrap_or_default();
        let usage = prices.usage(tokens.prompt_tokens, tokens.completion_tokens);
        Ok((
            Finished {
                text: self.text,
                model: self.model,
                usage,
            },
            rest,
        ))
    }
}

impl From<SseError> for ModelError {
    fn from(error: SseError) -> Self {
        match error {
            SseError::TooLong => Self::TooLong,
            SseError::Encoding => Self::Malformed,
        }
    }
}

/// A piece of a stream, or a whole document: the two differ only in `delta` and `message`.
#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<Tokens>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    error: Option<Failure>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<Said>,
    #[serde(default)]
    message: Option<Said>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    content: Option<String>,
}

#[derive(Deserialize, Clone, Copy, Default)]
struct Tokens {
    #[serde(default, deserialize_with = "token_count")]
    prompt_tokens: u32,
    #[serde(default, deserialize_with = "token_count")]
    completion_tokens: u32,
}

/// A whole number, saturating; an answer is not lost because its count is odd.
fn token_count<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(value
        .as_u64()
        .map_or(0, |count| u32::try_from(count).unwrap_or(u32::MAX)))
}

/// A failure told inside a 200 response.
#[derive(Deserialize)]
#[serde(untagged)]
enum Failure {
    Told {
        #[serde(default, rename = "type")]
        kind: Value,
        #[serde(default)]
        code: Value,
    },
    /// Some providers send only a sentence.
    Other(serde::de::IgnoredAny),
}

impl Failure {
    fn meaning(&self) -> ModelError {
        let Self::Told { kind, code } = self else {
            return ModelError::Unavailable;
        };
        if code == &json!(429) || [kind, code].iter().any(|name| is(name, "rate_limit")) {
            return ModelError::RateLimited { retry_after: None };
        }
        let client_fault = code.as_u64().is_some_and(|code| (400..500).contains(&code));
        if client_fault || is(kind, "invalid_request") || is(code, "content_filter") {
            return ModelError::Rejected;
        }
        ModelError::Unavailable
    }
}

/// The name goes into the ledger and into answers, so it has to look like one.
fn is_model_name(name: &str) -> bool {
    (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn is(name: &Value, wanted: &str) -> bool {
    name.as_str().is_some_and(|name| name.contains(wanted))
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
