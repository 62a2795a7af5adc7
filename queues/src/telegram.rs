//! One message to Telegram, from the request to its outcome.

use domain::outbox::outcome::Outcome;
use domain::ports::{Clock, Http, HttpBody, HttpError, OutboundRequest};
use domain::telegram::answer::{self, Answer, BODY_MAX};

/// What came of a send, and the status of its answer if there was one.
pub struct Answered {
    pub outcome: Outcome,
    pub http_status: Option<u16>,
}

/// Sends `request` once. Repeating it may show the person the message again: only a claim allows it.
pub async fn send(http: &impl Http, clock: &impl Clock, request: OutboundRequest) -> Answered {
    let mut response = match http.send(request).await {
        Ok(response) => response,
        Err(error) => {
            return Answered {
                outcome: answer::outcome(Err(error), clock.now()),
                http_status: None,
            };
        }
    };
    let status = response.status;
    let body = match read(&mut response.body).await {
        Ok(body) => Ok(body),
        // Only of a success is it in doubt what it was.
        Err(error) if (200..300).contains(&status) => Err(error),
        Err(HttpError::Timeout | HttpError::Transport) => Ok(Vec::new()),
    };
    let answer = body.as_deref().map_err(|error| *error).map(|body| Answer {
        status,
        retry_after: response.retry_after.as_deref(),
        body,
    });
    Answered {
        outcome: answer::outcome(answer, clock.now()),
        http_status: Some(status),
    }
}

/// As much of the body as is made sense of; what is longer is no answer of the Bot API.
async fn read(body: &mut impl HttpBody) -> Result<Vec<u8>, HttpError> {
    let mut all = Vec::new();
    while all.len() <= BODY_MAX {
        match body.chunk().await? {
            Some(piece) => all.extend_from_slice(&piece),
            None => break,
        }
    }
    all.truncate(BODY_MAX);
    Ok(all)
}
