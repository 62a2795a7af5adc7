//! `POST /telegram/{gateway_id}`: what Telegram delivers, and what it is answered. Anything but 2xx it delivers again.

use std::rc::Rc;

use domain::ids::GatewayId;
use domain::job::JobMessage;
use domain::ports::Spawn;
use domain::problem::{Code, Problem};
use domain::telegram::update::NotAnUpdate;
use domain::time::Millis;
use objects::ingress::{Delivery, Refused, Webhook, pass_on};
use serde_json::json;

use super::problem::of_db;
use super::{Call, Handled, Reply};
use crate::platform::checkpoint::ServiceCheckpoint;
use crate::platform::log;
use crate::platform::queue::WorkerQueue;

/// How long a provider is asked to wait whose webhook is closed.
const CLOSED: Millis = Millis::from_secs(60);

pub async fn webhook(call: Call) -> Handled {
    let unknown = |_| Problem::new(Code::Unauthenticated);
    let gateway_id = GatewayId::parse(call.param("gateway_id")?).map_err(unknown)?;
    let webhook = Webhook {
        sql: &call.sql,
        clock: &call.app.clock,
        entropy: &call.app.entropy,
        checkpoint: &ServiceCheckpoint::new(&call.env),
        secrets: &call.app.master,
        line_max: call.app.settings.line_max,
    };
    let delivery = Delivery {
        gateway_id: &gateway_id,
        secret_hash: call.shown_secret(),
        body: &call.body,
        request_id: &call.request_id,
        client_request_id: call.client_request_id.as_deref(),
        trace_id: &call.trace.trace_id,
        source_address_hash: call.source_address_hash.as_deref(),
        received_at: call.received_at,
    };
    let outcome = webhook.receive(&delivery, Rc::default()).await;
    learn(&call, outcome.as_ref().err());
    let taken = outcome.map_err(refuse)?;
    if let Some(order) = taken.order {
        give(&call, order);
    }
    Ok(Reply::json(200, &json!({})))
}

/// Remembers which secrets are right: they are not counted against the few addresses that Telegram has.
fn learn(call: &Call, refused: Option<&Refused>) {
    let Some(hash) = call.shown_secret() else { return };
    let mut right = call.app.webhook_secrets.borrow_mut();
    match refused {
        None | Some(Refused::NotAnUpdate(_) | Refused::Conflict) => right.remember(hash),
        Some(Refused::Unauthenticated | Refused::Closed) => right.forget(hash),
        Some(Refused::Db(_)) => {}
    }
}

fn refuse(refused: Refused) -> Problem {
    match refused {
        Refused::Unauthenticated => Problem::new(Code::Unauthenticated),
        Refused::Closed => Problem::new(Code::Unavailable)
            .with_retry_after(CLOSED)
            .with_detail("This gateway takes no updates."),
        Refused::NotAnUpdate(NotAnUpdate::Malformed) => Problem::new(Code::MalformedJson),
        Refused::NotAnUpdate(NotAnUpdate::NoId) => {
            Problem::new(Code::InvalidBody).with_detail("update_id must be a whole number.")
        }
        Refused::Conflict => {
            log::fault("ingress_conflict", "an update came under an id that another one has");
            Problem::new(Code::Conflict).with_detail("Another update has this update_id.")
        }
        Refused::Db(error) => of_db(error),
    }
}

/// Gives the order behind the answer, which does not wait for it.
fn give(call: &Call, order: JobMessage) {
    let (Ok(jobs), Ok(sends)) = (call.env.queue("JOBS"), call.env.queue("SENDS")) else {
        return log::fault("binding_missing", "JOBS or SENDS");
    };
    call.spawn.spawn(Box::pin(async move {
        pass_on(&order, &WorkerQueue::new(jobs), &WorkerQueue::new(sends)).await;
    }));
}
