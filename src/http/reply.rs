//! Answers on their way out.

use domain::http::routes::{Media, Method};
use domain::settings::Environment;
use serde::Serialize;
use worker::web_sys::ReadableStream;
use worker::{Headers, Response, ResponseBuilder};

use super::app::App;
use super::cors;
use super::request::Arrival;

/// The body of an answer.
pub enum Body {
    Empty,
    Bytes(Vec<u8>),
    /// As it comes; see [`crate::platform::body`].
    Stream(ReadableStream),
}

/// An answer.
pub struct Reply {
    pub status: u16,
    pub content_type: &'static str,
    pub headers: Vec<(&'static str, String)>,
    pub body: Body,
    /// `Cache-Control`; `no-store` unless the answer is the same for everyone.
    pub cache: &'static str,
}

impl Reply {
    /// An answer with `value` as JSON.
    pub fn json(status: u16, value: &impl Serialize) -> Self {
        // What handlers answer with are structs of text and numbers, which always serialize.
        Self::json_text(status, serde_json::to_vec(value).unwrap_or_default())
    }

    /// An answer with JSON that was written already.
    pub fn json_text(status: u16, text: impl Into<Vec<u8>>) -> Self {
        Self::of(status, Media::Json.as_str(), Body::Bytes(text.into()))
    }

    /// An answer whose body is still being written.
    pub fn stream(status: u16, media: Media, stream: ReadableStream) -> Self {
        Self::of(status, media.as_str(), Body::Stream(stream))
    }

    pub fn empty(status: u16) -> Self {
        Self::of(status, "", Body::Empty)
    }

    pub fn of(status: u16, content_type: &'static str, body: Body) -> Self {
        Self {
            status,
            content_type,
            headers: Vec::new(),
            body,
            cache: "no-store",
        }
    }

    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Says that everyone may be given this answer for a while.
    pub fn with_cache(mut self, cache: &'static str) -> Self {
        self.cache = cache;
        self
    }

    /// Marks the stored result of an earlier request.
    pub fn replayed(self) -> Self {
        self.with_header("Idempotency-Replayed", "true")
    }

    /// The answer as the runtime takes it, with the headers that every answer has.
    pub fn into_response(self, arrival: &Arrival) -> worker::Result<Response> {
        let headers = Headers::new();
        headers.set("Cache-Control", self.cache)?;
        headers.set("X-Content-Type-Options", "nosniff")?;
        headers.set("Referrer-Policy", "no-referrer")?;
        headers.set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")?;
        headers.set("X-Request-Id", arrival.request_id.as_str())?;
        headers.set("Traceparent", &arrival.trace.header())?;
        if !self.content_type.is_empty() {
            headers.set("Content-Type", self.content_type)?;
        }
        if let Ok(app) = App::of_isolate(&arrival.env) {
            if app.settings.environment != Environment::Dev {
                headers.set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")?;
            }
            if app.settings.expose_costs {
                headers.set("Hermod-D1-Trips", &arrival.costs.trips().to_string())?;
                headers.set("Hermod-D1-Rows-Written", &arrival.costs.rows_written().to_string())?;
            }
        }
        for (name, value) in cors::headers(arrival) {
            headers.append(name, &value)?;
        }
        for (name, value) in &self.headers {
            headers.append(name, value)?;
        }
        let builder = ResponseBuilder::new().with_status(self.status).with_headers(headers);
        Ok(match self.body {
            Body::Stream(stream) if arrival.method != Some(Method::Head) => builder.stream(stream),
            Body::Bytes(bytes) if arrival.method != Some(Method::Head) => builder.fixed(bytes),
            Body::Empty | Body::Bytes(_) | Body::Stream(_) => builder.empty(),
        })
    }
}
