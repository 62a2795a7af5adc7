//! The edge's end of the line to a user's object.

use domain::ids::UserId;
use domain::ports::Clock;
use domain::time::{Millis, Timestamp};
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
    /// How long its reader waits.
    until: Timestamp,
}

impl Frames {
    /// The next frame; `None` when the object has no more to say, broke off or took too long.
    pub async fn next(&mut self) -> Option<Frame> {
        let wait = self.until.remaining_from(WorkerClock.now());
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

/// How long an object may take to say that it was woken.
const WAKE_PATIENCE: Millis = Millis::from_secs(10);

/// Sends a request to the user's object and gives back what it says, until `until`.
pub async fn ask(env: &Env, user: &UserId, request: &ObjectRequest, until: Timestamp) -> Result<Frames, NotReached> {
    let wait = until.remaining_from(WorkerClock.now());
    let late = std::pin::pin!(WorkerClock.sleep(wait));
    match select(std::pin::pin!(send(env, user, request, until)), late).await {
        Either::Left((Ok(frames), _)) => Ok(frames),
        Either::Left((Err(_), _)) | Either::Right(_) => {
            log::fault("object_not_reached", "a user's object did not answer");
            Err(NotReached)
        }
    }
}

async fn send(env: &Env, user: &UserId, request: &ObjectRequest, until: Timestamp) -> worker::Result<Frames> {
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
        until,
    })
}

/// The objects of all users, for those who only wake them.
pub struct WorkerObjects<'a>(pub &'a Env);

impl Objects for WorkerObjects<'_> {
    async fn wake(&self, user: &UserId) -> Result<(), NotReached> {
        let request = ObjectRequest::V1(domain::turn::protocol::Command::Wake);
        let until = WorkerClock.now().plus(WAKE_PATIENCE);
        ask(self.0, user, &request, until).await.map(|_| ())
    }
}
