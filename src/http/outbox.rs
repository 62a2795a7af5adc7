//! `/internal/outbox/…`: senders outside the service, each for its own gateway.

use domain::auth::Subject;
use domain::idempotency;
use domain::ids::{GatewayId, OutboxId};
use domain::outbox::outside::{AttemptBody, ClaimBody, OutcomeBody};
use domain::ports::Clock;
use domain::problem::{Code, Problem};
use queues::outside::{Answer, Request, lease_token};
use store::idempotency::KeyUse;

use super::request::Database;
use super::{Body, Call, Handled, Reply};
use crate::platform::clock::WorkerClock;
use crate::platform::entropy::WorkerEntropy;

/// What a command is known by, in owned form.
struct Key {
    gateway_id: GatewayId,
    caller: String,
    route: String,
    key_hash: String,
    request_hash: String,
}

impl Key {
    /// Only a gateway's own token says which gateway sends.
    fn of(call: &Call) -> Result<Self, Problem> {
        let principal = call.principal()?;
        let Subject::Gateway(gateway_id) = &principal.subject else {
            return Err(Problem::new(Code::Forbidden));
        };
        let request_hash = idempotency::request_hash(&call.app.master, &call.path, &call.body)
            .map_err(|_| Problem::new(Code::MalformedJson))?;
        Ok(Self {
            gateway_id: gateway_id.clone(),
            caller: idempotency::caller(principal),
            route: call.route.label(),
            key_hash: call.idempotency_key()?.hash(&call.app.master),
            request_hash,
        })
    }

    fn request<'a>(&'a self, call: &'a Call) -> Result<Request<'a, Database, WorkerClock, WorkerEntropy>, Problem> {
        Ok(Request {
            sql: &call.sql,
            clock: &call.app.clock,
            entropy: &call.app.entropy,
            secrets: &call.app.master,
            principal: call.principal()?,
            gateway_id: &self.gateway_id,
            key: KeyUse {
                caller: &self.caller,
                route: &self.route,
                key_hash: &self.key_hash,
                request_hash: &self.request_hash,
                now: call.app.clock.now(),
            },
        })
    }
}

pub async fn claim(call: &Call) -> Handled {
    let key = Key::of(call)?;
    let body = ClaimBody::parse(&call.body)?;
    let token = lease_token(&key.caller, call.idempotency_key()?, &call.app.master);
    let token = token.ok_or(Problem::new(Code::Internal))?;
    reply(call, key.request(call)?.claim(&body, &token).await?)
}

pub async fn attempt(call: &Call) -> Handled {
    let key = Key::of(call)?;
    let body = AttemptBody::parse(&call.body)?;
    reply(call, key.request(call)?.attempt(&row(call)?, &body).await?)
}

pub async fn confirm(call: &Call) -> Handled {
    let key = Key::of(call)?;
    let body = OutcomeBody::parse_confirm(&call.body)?;
    reply(call, key.request(call)?.finish(&row(call)?, &body).await?)
}

pub async fn fail(call: &Call) -> Handled {
    let key = Key::of(call)?;
    let body = OutcomeBody::parse_fail(&call.body)?;
    reply(call, key.request(call)?.finish(&row(call)?, &body).await?)
}

/// What is not an id names nothing.
fn row(call: &Call) -> Result<OutboxId, Problem> {
    OutboxId::parse(call.param("outbox_id")?).map_err(|_| Problem::new(Code::NotFound))
}

/// A stored failure is a problem and gets this request's id.
fn reply(call: &Call, answer: Answer) -> Handled {
    let reply = if answer.status < 400 {
        Reply::json_text(answer.status, answer.body)
    } else {
        let problem: Problem = serde_json::from_str(&answer.body).map_err(|_| Problem::new(Code::Internal))?;
        let body = Body::Bytes(problem.body(&call.request_id).into_bytes());
        Reply::of(problem.code.status(), Problem::MEDIA_TYPE, body)
    };
    Ok(if answer.replayed { reply.replayed() } else { reply })
}
