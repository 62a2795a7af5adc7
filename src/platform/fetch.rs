//! Outbound HTTP by the runtime's `fetch`: redirects are handed back, one deadline covers head and body.

use domain::ports::{Http, HttpBody, HttpError, Method, OutboundRequest, OutboundResponse};
use domain::time::Millis;
use futures::StreamExt;
use worker::js_sys::Uint8Array;
use worker::{AbortSignal, ByteStream, Fetch, Headers, Request, RequestInit, RequestRedirect, web_sys};

#[derive(Debug, Clone, Copy, Default)]
pub struct WorkerHttp;

/// The body of an answer. An answer without one is empty.
pub struct FetchBody {
    stream: Option<ByteStream>,
    signal: AbortSignal,
}

fn timeout_signal(timeout: Millis) -> AbortSignal {
    let millis = u32::try_from(timeout.get().max(0)).unwrap_or(u32::MAX);
    AbortSignal::from(web_sys::AbortSignal::timeout_with_u32(millis))
}

fn outbound(request: &OutboundRequest) -> worker::Result<Request> {
    let headers = Headers::new();
    for (name, value) in &request.headers {
        headers.set(name, value)?;
    }
    let mut init = RequestInit::new();
    init.with_headers(headers)
        .with_redirect(RequestRedirect::Manual)
        .with_method(match request.method {
            Method::Get => worker::Method::Get,
            Method::Post => worker::Method::Post,
        });
    if !request.body.is_empty() {
        init.with_body(Some(Uint8Array::from(request.body.as_slice()).into()));
    }
    Request::new_with_init(&request.url, &init)
}

/// Which of the two went wrong: the signal knows whether the deadline has passed.
fn failure(signal: &AbortSignal) -> HttpError {
    if signal.aborted() {
        HttpError::Timeout
    } else {
        HttpError::Transport
    }
}

impl Http for WorkerHttp {
    type Body = FetchBody;

    async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse<FetchBody>, HttpError> {
        let signal = timeout_signal(request.timeout);
        let prepared = outbound(&request).map_err(|_| HttpError::Transport)?;
        let mut response = Fetch::Request(prepared)
            .send_with_signal(&signal)
            .await
            .map_err(|_| failure(&signal))?;
        Ok(OutboundResponse {
            status: response.status_code(),
            retry_after: response.headers().get("retry-after").ok().flatten(),
            body: FetchBody {
                stream: response.stream().ok(),
                signal,
            },
        })
    }
}

impl HttpBody for FetchBody {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        let Some(stream) = &mut self.stream else {
            return Ok(None);
        };
        match stream.next().await {
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(_)) => Err(failure(&self.signal)),
            // A stream that was cut off by the deadline may look like one that ended.
            None if self.signal.aborted() => Err(HttpError::Timeout),
            None => Ok(None),
        }
    }
}
