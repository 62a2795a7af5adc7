//! Answer bodies whose delivery can be told: each write resolves once the runtime took the bytes and fails when the
//! client has gone away.

use domain::ports::{LocalFuture, Spawn};
use worker::js_sys::Uint8Array;
use worker::wasm_bindgen::{self, JsValue, prelude::wasm_bindgen};
use worker::wasm_bindgen_futures::JsFuture;
use worker::web_sys::{ReadableStream, WritableStream, WritableStreamDefaultWriter};

// Both streams of workerd are unbuffered: a write is done when the other side has taken it.
#[wasm_bindgen]
extern "C" {
    type IdentityTransformStream;
    #[wasm_bindgen(constructor, catch)]
    fn new() -> Result<IdentityTransformStream, JsValue>;
    #[wasm_bindgen(method, getter)]
    fn readable(this: &IdentityTransformStream) -> ReadableStream;
    #[wasm_bindgen(method, getter)]
    fn writable(this: &IdentityTransformStream) -> WritableStream;

    // The same with a known length, so that the answer gets a Content-Length.
    type FixedLengthStream;
    #[wasm_bindgen(constructor, catch)]
    fn new(length: u32) -> Result<FixedLengthStream, JsValue>;
    #[wasm_bindgen(method, getter)]
    fn readable(this: &FixedLengthStream) -> ReadableStream;
    #[wasm_bindgen(method, getter)]
    fn writable(this: &FixedLengthStream) -> WritableStream;
}

/// The client went away before it had everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientGone;

/// The sending half of an answer's body.
#[derive(Debug)]
pub struct BodyWriter(WritableStreamDefaultWriter);

impl BodyWriter {
    /// Resolves once the runtime has taken all of `bytes`.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), ClientGone> {
        if bytes.is_empty() {
            return Ok(());
        }
        let chunk = JsValue::from(Uint8Array::from(bytes));
        JsFuture::from(self.0.write_with_chunk(&chunk))
            .await
            .map(drop)
            .map_err(|_| ClientGone)
    }

    /// Ends the body; resolves once the runtime has taken the end.
    pub async fn close(self) -> Result<(), ClientGone> {
        JsFuture::from(self.0.close()).await.map(drop).map_err(|_| ClientGone)
    }

    /// Breaks the body off, so that the client sees an error and not a short answer.
    pub async fn abort(self) {
        let _ = JsFuture::from(self.0.abort()).await;
    }
}

/// A body of unknown length: what is written to the one end is answered from the other.
pub fn channel() -> Result<(BodyWriter, ReadableStream), ClientGone> {
    let stream = IdentityTransformStream::new().map_err(|_| ClientGone)?;
    let writer = stream.writable().get_writer().map_err(|_| ClientGone)?;
    Ok((BodyWriter(writer), stream.readable()))
}

/// A body of known bytes. `after` is told, behind the answer, whether the runtime took all of it.
pub fn tracked(
    bytes: Vec<u8>,
    spawn: &impl Spawn,
    after: impl FnOnce(Result<(), ClientGone>) -> LocalFuture<()> + 'static,
) -> Result<ReadableStream, ClientGone> {
    let length = u32::try_from(bytes.len()).map_err(|_| ClientGone)?;
    let stream = FixedLengthStream::new(length).map_err(|_| ClientGone)?;
    let mut writer = BodyWriter(stream.writable().get_writer().map_err(|_| ClientGone)?);
    spawn.spawn(Box::pin(async move {
        let taken = match writer.write(&bytes).await {
            Ok(()) => writer.close().await,
            Err(ClientGone) => Err(ClientGone),
        };
        after(taken).await;
    }));
    Ok(stream.readable())
}
