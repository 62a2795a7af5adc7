//! The edge's end of the line to a user's object.

use domain::ids::UserId;
use domain::ports::Clock;
use domain::time::Timestamp;
use domain::turn::protocol::{Frame, ObjectRequest};
use futures::StreamExt;
use futures::future::{Either, select};
use queues::jobs::{NotReached, Objects};
use worker::wasm_bindgen::JsValue;
use worker::{ByteStream, Env, Method, Request, RequestInit};

use super::clock::WorkerClock;
use super::log;

/// The frames of an object's answer, as they come.
pub struct Frames {
    stream: Option<ByteStream>,
    buffer: Vec<u8>,
    until: Option<Timestamp>,
}

impl Frames {
    /// The same frames, but no longer than `until`.
    pub fn until(mut self, until: Timestamp) -> Self {
        self.until = Some(until);
        self
    }

    /// The next frame; `None` when the object has no more to say, broke off or took too long.
    pub async fn next(&mut self) -> Option<Frame> {
        let Some(until) = self.until else {
            return self.read().await;
        };
        let wait = until.remaining_from(WorkerClock.now());
        let late = std::pin::pin!(WorkerClock.sleep(wait));
        match select(std::pin::pin!(self.read()), late).await {
            Either::Left((frame, _)) => frame,
            Either::Right(_) => None,
        }
    }

    async fn read(&mut self) -> Option<Frame> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return match serde_json::from_slice(&line) {
                    Ok(frame) => Some(frame),
                    Err(_) => {
                        log::fault(
                            "frame_not_understood",
                            "an object spoke a version that is not known here",
                        );
                        None
                    }
                };
            }
            match self.stream.as_mut()?.next().await? {
                Ok(chunk) => self.buffer.extend_from_slice(&chunk),
                Err(_) => return None,
            }
        }
    }
}

/// Sends a request to the user's object.
pub async fn ask(env: &Env, user: &UserId, request: &ObjectRequest) -> Result<Frames, NotReached> {
    send(env, user, request).await.map_err(|error| {
        log::fault("object_not_reached", &error.to_string());
        NotReached
    })
}

async fn send(env: &Env, user: &UserId, request: &ObjectRequest) -> worker::Result<Frames> {
    // A stub that failed once goes on failing, so each request takes a new one.
    let stub = env.durable_object("USER_TURNS")?.get_by_name(user.as_str())?;
    let mut init = RequestInit::new();
    init.with_method(Method::Post)
        .with_body(Some(JsValue::from_str(&serde_json::to_string(request)?)));
    let mut response = stub
        .fetch_with_request(Request::new_with_init("http://object/", &init)?)
        .await?;
    if response.status_code() != 200 {
        return Err(worker::Error::RustError(format!("status {}", response.status_code())));
    }
    Ok(Frames {
        stream: response.stream().ok(),
        buffer: Vec::new(),
        until: None,
    })
}

/// The objects of all users, for those who only wake them.
pub struct WorkerObjects<'a>(pub &'a Env);

impl Objects for WorkerObjects<'_> {
    async fn wake(&self, user: &UserId) -> Result<(), NotReached> {
        let request = ObjectRequest::V1(domain::turn::protocol::Command::Wake);
        ask(self.0, user, &request).await.map(|_| ())
    }
}
