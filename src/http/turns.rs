//! `/turns/{turn_id}`: how a turn stands, and what its client says of the answer.

use std::rc::Rc;

use domain::auth::Principal;
use domain::http::bodies::AckBody;
use domain::idempotency;
use domain::ids::{TurnId, UserId};
use domain::ports::Clock;
use domain::problem::{Code, Problem};
use domain::rfc3339;
use domain::time::Timestamp;
use domain::turn::event::Event;
use objects::handover::{self, Acknowledgment, TurnError, TurnView};
use serde_json::{Value, json};
use store::db::Db;
use store::ledger::deliveries::{Attempt, Delivery};

use super::problem::of_db;
use super::{Call, Handled, Reply};

pub async fn read_turn(call: Call) -> Handled {
    let (principal, user, turn) = whose(&call)?;
    let db = Db::new(&call.sql, &call.app.clock, Rc::default());
    let view = handover::view_turn(&db, &call.app.master, principal, &user, &turn)
        .await
        .map_err(refuse)?;
    Ok(Reply::json(200, &document(&view)))
}

pub async fn acknowledge(call: Call) -> Handled {
    let (principal, user, turn) = whose(&call)?;
    let body = AckBody::parse(&call.body)?;
    let request_hash = idempotency::request_hash(&call.app.master, &call.path, &call.body)
        .map_err(|_| Problem::new(Code::MalformedJson))?;
    let caller = idempotency::caller(principal);
    let key_hash = call.idempotency_key()?.hash(&call.app.master);
    let now = call.app.clock.now();
    let key_use = store::idempotency::KeyUse {
        caller: &caller,
        route: call.route.pattern,
        key_hash: &key_hash,
        request_hash: &request_hash,
        now,
    };
    let acknowledgment = Acknowledgment {
        ack: body.ack_type,
        client_timestamp: body.client_timestamp,
    };
    let clock = &call.app.clock;
    let acked = handover::acknowledge(&call.sql, clock, principal, &user, &turn, &key_use, acknowledgment).await;
    let acked = acked.map_err(refuse)?;
    let reply = Reply::json_text(acked.result.status, acked.result.response);
    Ok(if acked.replayed { reply.replayed() } else { reply })
}

/// Only the person whose turn it is may look at it.
fn whose(call: &Call) -> Result<(&Principal, UserId, TurnId), Problem> {
    let principal = call.principal()?;
    let user = principal.user().cloned().ok_or(Problem::new(Code::Forbidden))?;
    let turn = TurnId::parse(call.param("turn_id")?).map_err(|_| Problem::new(Code::NotFound))?;
    Ok((principal, user, turn))
}

fn refuse(error: TurnError) -> Problem {
    match error {
        TurnError::Stale => Problem::new(Code::TokenStale),
        TurnError::NotFound => Problem::new(Code::NotFound),
        TurnError::NoAnswer => Problem::new(Code::Conflict).with_detail("The turn has no answer to acknowledge."),
        TurnError::KeyReused => Problem::new(Code::IdempotencyKeyReused),
        TurnError::Db(error) => of_db(error),
    }
}

fn document(view: &TurnView) -> Value {
    let record = &view.record;
    let at = |time: Option<Timestamp>| time.map(rfc3339::format);
    let error = record.failure.map(|code| {
        json!({
            "code": code.as_str(),
            "class": code.class(),
            "new_key_required": code.new_key_required(),
            "retryable": code.retryable(),
        })
    });
    let usage = record.model.as_ref().map(|model| {
        json!({
            "provider": record.provider,
            "model": model,
            "input_tokens": record.input_tokens,
            "output_tokens": record.output_tokens,
            "cost_microunits": record.cost_microunits,
        })
    });
    json!({
        "turn_id": record.turn_id,
        "conversation_id": record.conversation_id,
        "session_id": record.session_id,
        "status": record.status.as_str(),
        "context_revision_read": record.context_revision_read,
        "context_revision": record.context_revision_write,
        "accepted_at": rfc3339::format(record.accepted_at),
        "deadline_at": rfc3339::format(record.deadline_at),
        "response_committed_at": at(record.response_committed_at),
        "terminal_at": at(record.terminal_at),
        "reply": view.reply,
        "usage": usage,
        "error": error,
        "events": view.events.iter().enumerate().map(|(at, one)| event(at, one)).collect::<Vec<_>>(),
        "deliveries": view.deliveries.iter().map(delivery).collect::<Vec<_>>(),
    })
}

fn event(at: usize, event: &Event) -> Value {
    json!({
        "sequence_no": at.saturating_add(1),
        "type": event.event_type.as_str(),
        "at": rfc3339::format(event.at),
        "actor": event.actor,
        "attempt": event.attempt,
        "metadata": event.metadata,
    })
}

fn delivery(one: &Delivery) -> Value {
    let attempt = |one: &Attempt| {
        json!({
            "attempt": one.attempt,
            "started_at": rfc3339::format(one.started_at),
            "finished_at": one.finished_at.map(rfc3339::format),
            "outcome": one.outcome,
            "error_class": one.error_class,
            "error_code": one.error_code,
        })
    };
    json!({
        "outbox_id": one.outbox_id,
        "channel": one.channel,
        "kind": if one.notice { "notice" } else { "answer" },
        "part": one.part,
        "parts": one.parts,
        "status": one.status,
        "attempts": one.attempts.iter().map(attempt).collect::<Vec<_>>(),
    })
}
