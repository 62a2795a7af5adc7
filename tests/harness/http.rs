//! The outside world behind the [`Http`] port: what it answers, and how slowly, is up to the test.

use std::collections::VecDeque;
use std::rc::Rc;

use domain::ports::{Http, HttpBody, HttpError, OutboundRequest, OutboundResponse};

use crate::executor::Executor;

/// What happens next on the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These bytes arrive.
    Bytes(Vec<u8>),
    /// The connection breaks.
    Break,
    /// Nothing ever comes again.
    Stall,
}

/// An answer, each part with the milliseconds before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    pub head_after: i64,
    /// `None` when there is no answer but a broken connection.
    pub status: Option<u16>,
    pub retry_after: Option<String>,
    pub body: Vec<(i64, Piece)>,
}

impl Reply {
    /// A whole answer at once.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::status(200, body)
    }

    pub fn status(status: u16, body: impl Into<Vec<u8>>) -> Self {
        let body = vec![(0, Piece::Bytes(body.into()))];
        Self {
            head_after: 0,
            status: Some(status),
            retry_after: None,
            body,
        }
    }

    pub fn unreachable() -> Self {
        Self {
            head_after: 0,
            status: None,
            retry_after: None,
            body: Vec::new(),
        }
    }
}

/// Answers each request as `respond` says, under the request's deadline.
#[derive(Clone)]
pub struct SimHttp {
    executor: Executor,
    respond: Rc<dyn Fn(&OutboundRequest) -> Reply>,
}

impl SimHttp {
    pub fn new(executor: Executor, respond: impl Fn(&OutboundRequest) -> Reply + 'static) -> Self {
        Self {
            executor,
            respond: Rc::new(respond),
        }
    }
}

/// Waits `millis`, or until the deadline.
pub(crate) async fn wait(executor: &Executor, millis: i64, deadline: i64) -> Result<(), HttpError> {
    let due = executor.elapsed().saturating_add(millis);
    executor.sleep(due.min(deadline) - executor.elapsed()).await;
    if due > deadline {
        Err(HttpError::Timeout)
    } else {
        Ok(())
    }
}

impl Http for SimHttp {
    type Body = SimBody;

    async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse<SimBody>, HttpError> {
        let deadline = self.executor.elapsed().saturating_add(request.timeout.get());
        let reply = (self.respond)(&request);
        wait(&self.executor, reply.head_after, deadline).await?;
        let body = SimBody::new(self.executor.clone(), reply.body, deadline);
        let status = reply.status.ok_or(HttpError::Transport)?;
        Ok(OutboundResponse {
            status,
            retry_after: reply.retry_after,
            body,
        })
    }
}

/// The rest of an answer.
pub struct SimBody {
    executor: Executor,
    pieces: VecDeque<(i64, Piece)>,
    deadline: i64,
}

impl SimBody {
    /// What is still to come of an answer, under the request's deadline in simulated milliseconds.
    pub fn new(executor: Executor, pieces: Vec<(i64, Piece)>, deadline: i64) -> Self {
        Self {
            executor,
            pieces: pieces.into(),
            deadline,
        }
    }
}

impl HttpBody for SimBody {
    async fn chunk(&mut self) -> Result<Option<Vec<u8>>, HttpError> {
        let Some((after, piece)) = self.pieces.pop_front() else {
            return Ok(None);
        };
        wait(&self.executor, after, self.deadline).await?;
        match piece {
            Piece::Bytes(bytes) => Ok(Some(bytes)),
            Piece::Break => Err(HttpError::Transport),
            Piece::Stall => {
                wait(&self.executor, i64::MAX, self.deadline).await?;
                Err(HttpError::Timeout)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use domain::ports::Method;
    use domain::time::Millis;

    fn fetch(reply: Reply) -> (Result<Vec<u8>, HttpError>, i64) {
        let executor = Executor::new(Rng::new(1));
        let http = SimHttp::new(executor.clone(), move |_| reply.clone());
        let timeout = Millis::new(100);
        let request = OutboundRequest {
            method: Method::Get,
            url: String::new(),
            headers: vec![],
            body: vec![],
            timeout,
        };
        let result = executor.block_on(async move {
            let mut response = http.send(request).await?;
            let mut all = Vec::new();
            while let Some(chunk) = response.body.chunk().await? {
                all.extend(chunk);
            }
            Ok(all)
        });
        (result, executor.elapsed())
    }

    #[test]
    fn the_deadline_covers_head_and_body() {
        let bytes = |text: &str| Piece::Bytes(text.as_bytes().to_vec());
        let reply = |head_after, body| Reply {
            head_after,
            status: Some(200),
            retry_after: None,
            body,
        };
        assert_eq!(
            fetch(reply(40, vec![(30, bytes("a")), (30, bytes("b"))])),
            (Ok(b"ab".to_vec()), 100)
        );
        assert_eq!(
            fetch(reply(40, vec![(30, bytes("a")), (31, bytes("b"))])),
            (Err(HttpError::Timeout), 100)
        );
        assert_eq!(fetch(reply(101, vec![])), (Err(HttpError::Timeout), 100));
        assert_eq!(fetch(reply(5, vec![(5, Piece::Stall)])), (Err(HttpError::Timeout), 100));
        assert_eq!(
            fetch(reply(5, vec![(5, Piece::Break)])),
            (Err(HttpError::Transport), 10)
        );
        assert_eq!(fetch(Reply::unreachable()), (Err(HttpError::Transport), 0));
    }
}
