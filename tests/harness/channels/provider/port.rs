//! The way to the provider, as the port that senders use.

use domain::ports::{Http, HttpError, OutboundRequest, OutboundResponse};
use futures::channel::oneshot;
use futures::future::{Either, select};

use super::Telegram;
use crate::http::{SimBody, wait};

/// The way of one sender to the provider. What is on its way arrives even when the sender has died.
#[derive(Clone)]
pub struct TelegramHttp {
    telegram: Telegram,
    caller: u64,
}

impl Telegram {
    /// The way of `caller` to the provider.
    pub fn of_caller(&self, caller: u64) -> TelegramHttp {
        TelegramHttp {
            telegram: self.clone(),
            caller,
        }
    }
}

impl Http for TelegramHttp {
    type Body = SimBody;

    async fn send(&self, request: OutboundRequest) -> Result<OutboundResponse<SimBody>, HttpError> {
        let (telegram, executor) = (self.telegram.clone(), self.telegram.0.executor.clone());
        let deadline = executor.elapsed().saturating_add(request.timeout.get());
        let number = telegram.begin(&request.url, &request.body, self.caller);
        let formatted = serde_json::from_slice::<serde_json::Value>(&request.body)
            .is_ok_and(|body| body.get("parse_mode").is_some());
        let (reply, answer) = oneshot::channel();
        let (way, url) = (executor.clone(), request.url.clone());
        executor.spawn(async move {
            let there = way.rng().between(0, telegram.0.slowest.get());
            way.sleep(there).await;
            let _ = reply.send(telegram.arrive(number, &url, formatted));
        });
        let limit = executor.sleep(request.timeout.get());
        let reply = match select(answer, limit).await {
            Either::Left((reply, _)) => reply.map_err(|_| HttpError::Transport)?,
            Either::Right(((), _)) => return Err(HttpError::Timeout),
        };
        wait(&executor, reply.head_after, deadline).await?;
        let status = reply.status.ok_or(HttpError::Transport)?;
        Ok(OutboundResponse {
            status,
            retry_after: reply.retry_after,
            body: SimBody::new(executor, reply.body, deadline),
        })
    }
}
