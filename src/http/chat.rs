//! `POST /chat`: parse, say for whom, ask the user's object, hand the answer over and put that on record.

use std::rc::Rc;

use domain::auth::Subject;
use domain::http::bodies::ChatBody;
use domain::http::context::{Channel, RequestContext};
use domain::http::routes::Media;
use domain::idempotency;
use domain::ids::{FamilyId, GatewayId, TurnId, UserId};
use domain::keys::HashLabel;
use domain::ports::Spawn;
use domain::problem::{Code, Problem};
use domain::time::{Millis, Timestamp};
use domain::turn::protocol::{ChatAnswer, ChatCommand, ChatRefusal, Command, Costs, Frame, Handover, ObjectRequest};
use objects::handover::commit_response;
use store::db::Db;
use store::{directory, token};

use super::authenticate;
use super::problem::of_db;
use super::{Call, Handled, Reply};
use crate::platform::body::{self, BodyWriter, ClientGone};
use crate::platform::log;
use crate::platform::object_client::{Frames, ask};

/// The channels on which a gateway's sender may be known.
const SENDER_CHANNELS: [Channel; 2] = [Channel::Telegram, Channel::Imessage];

/// How much longer than the turn's deadline the edge waits for the object, which gives up by itself before that.
const PATIENCE: Millis = Millis::from_secs(5);

/// Whom a message is from.
struct Person {
    user_id: UserId,
    family_id: FamilyId,
    channel: Channel,
    gateway_id: Option<GatewayId>,
}

pub async fn chat(call: Call) -> Handled {
    let body = ChatBody::parse(&call.body)?;
    let request_hash = idempotency::request_hash(&call.app.master, &call.path, &call.body)
        .map_err(|_| Problem::new(Code::MalformedJson))?;
    let person = person(&call, body.user_id.as_deref()).await?;
    let stream = call.accepts == Media::EventStream;
    let context = context(&call, &person, &body)?;
    let user = person.user_id;
    let command_deadline = context.deadline_at;
    let command = ChatCommand {
        context,
        conversation_id: body.conversation_id,
        message: body.message,
        request_hash,
        stream,
    };
    let request = ObjectRequest::V1(Command::Chat(Box::new(command)));
    let patience = command_deadline.plus(PATIENCE);
    let frames = ask(&call.env, &user, &request, patience)
        .await
        .map_err(|_| unavailable())?;
    if stream {
        answer_in_pieces(call, user, frames).await
    } else {
        answer_at_once(call, user, frames).await
    }
}

fn unavailable() -> Problem {
    Problem::new(Code::Unavailable).with_retry_after(Millis::from_secs(1))
}

async fn person(call: &Call, named: Option<&str>) -> Result<Person, Problem> {
    let principal = call.principal()?;
    match &principal.subject {
        Subject::User(user) => {
            if named.is_some_and(|named| named != user.as_str()) {
                return Err(Problem::new(Code::SubjectMismatch));
            }
            let family_id = principal.family.clone().ok_or(Problem::new(Code::Forbidden))?;
            Ok(Person {
                user_id: user.clone(),
                family_id,
                channel: Channel::Direct,
                gateway_id: None,
            })
        }
        Subject::Gateway(gateway) => {
            let named = named.ok_or(Problem::new(Code::Forbidden).with_detail("A gateway must say who wrote it."))?;
            sender(call, gateway, named).await
        }
        Subject::Operator(_) => Err(Problem::new(Code::Forbidden)),
    }
}

/// The person behind a gateway's sender. Who is not known, or not this gateway's to speak for, is refused alike.
async fn sender(call: &Call, gateway: &GatewayId, external: &str) -> Result<Person, Problem> {
    let mut batch = vec![token::freshness(call.principal()?)];
    for channel in SENDER_CHANNELS {
        let parts = [
            gateway.as_str().as_bytes(),
            channel.as_str().as_bytes(),
            external.as_bytes(),
        ];
        let hash = call.app.master.keyed_hash_of(HashLabel::ExternalAddress, &parts);
        batch.push(directory::user_of_sender(gateway, channel.as_str(), &hash));
    }
    let db = Db::new(&call.sql, &call.app.clock, Rc::default());
    let rows = db.read(domain::sql::Shard::Directory, batch).await.map_err(of_db)?;
    let internal = |_| Problem::new(Code::Internal);
    let (fresh, found) = rows.split_first().ok_or(Problem::new(Code::Internal))?;
    if !token::is_fresh(fresh).map_err(internal)? {
        return Err(Problem::new(Code::TokenStale));
    }
    for (rows, channel) in found.iter().zip(SENDER_CHANNELS) {
        if let Some(sender) = directory::read_sender(rows).map_err(internal)? {
            authenticate::limit_person(&call.app, &sender.user_id, call.received_at)?;
            return Ok(Person {
                user_id: sender.user_id,
                family_id: sender.family_id,
                channel,
                gateway_id: Some(gateway.clone()),
            });
        }
    }
    Err(Problem::new(Code::Forbidden))
}

fn context(call: &Call, person: &Person, body: &ChatBody) -> Result<RequestContext, Problem> {
    let principal = call.principal()?.clone();
    // A person's turns are kept together whoever hands them in, but each gateway's keys are its own.
    let caller = idempotency::caller(&principal);
    Ok(RequestContext {
        request_id: call.request_id.clone(),
        client_request_id: call.client_request_id.clone(),
        turn_id: TurnId::mint(call.received_at, &call.app.entropy),
        idempotency_key_hash: call.idempotency_key()?.hash_of_caller(&call.app.master, &caller),
        principal,
        user_id: person.user_id.clone(),
        family_id: person.family_id.clone(),
        channel: person.channel,
        gateway_id: person.gateway_id.clone(),
        locale: body.locale.clone(),
        timezone: body.timezone.clone(),
        received_at: call.received_at,
        deadline_at: call.received_at.plus(call.app.settings.turn_deadline),
        source_address_hash: call.source_address_hash.clone(),
        trace_id: call.trace.trace_id.clone(),
        parent_turn_id: None,
        feature_flags: Vec::new(),
    })
}

async fn answer_at_once(call: Call, user: UserId, mut frames: Frames) -> Handled {
    loop {
        match frames.next().await {
            Some(Frame::Turn { .. } | Frame::Delta { .. }) => {}
            Some(Frame::Done {
                answer,
                replayed,
                handover,
                costs,
            }) => {
                count(&call, costs);
                return hand_over(call, user, &answer, replayed, handover);
            }
            Some(Frame::Refused { refusal, costs }) => {
                count(&call, costs);
                return Err(problem(&refusal));
            }
            None => return Err(unavailable()),
        }
    }
}

fn hand_over(call: Call, user: UserId, answer: &ChatAnswer, replayed: bool, handover: Handover) -> Handled {
    let bytes = serde_json::to_vec(answer).map_err(|_| Problem::new(Code::Internal))?;
    let reply = match handover {
        Handover::Recorded => Reply::json_text(200, bytes),
        Handover::Due => {
            let turn = answer.turn_id.clone();
            let started = call.now();
            let spawn = call.spawn.clone();
            let body = body::tracked(bytes, &spawn, move |taken| {
                Box::pin(async move { record(&call, &user, &turn, started, taken).await })
            });
            Reply::stream(200, Media::Json, body.map_err(|_| Problem::new(Code::Internal))?)
        }
    };
    Ok(if replayed { reply.replayed() } else { reply })
}

/// The turn's hand-over goes on record only if the runtime took the whole answer.
async fn record(call: &Call, user: &UserId, turn: &TurnId, started: Timestamp, taken: Result<(), ClientGone>) {
    if taken.is_ok()
        && commit_response(&call.sql, &call.app.clock, turn, user, started)
            .await
            .is_err()
    {
        // The answer stays readable, and the sweep ends the turn honestly.
        log::fault("response_commit_failed", "the database did not take it");
    }
    if call.app.settings.expose_costs {
        log::costs(call.route.pattern, call.costs.trips(), call.costs.rows_written());
    }
}

async fn answer_in_pieces(call: Call, user: UserId, mut frames: Frames) -> Handled {
    // Until the turn exists, a refusal is still an ordinary problem with its status.
    let first = frames.next().await.ok_or_else(unavailable)?;
    let replayed = match &first {
        Frame::Refused { refusal, costs } => {
            count(&call, *costs);
            return Err(problem(refusal));
        }
        Frame::Done { replayed, .. } => *replayed,
        Frame::Turn { .. } | Frame::Delta { .. } => false,
    };
    let (writer, stream) = body::channel().map_err(|_| Problem::new(Code::Internal))?;
    let spawn = call.spawn.clone();
    spawn.spawn(Box::pin(async move {
        write_pieces(&call, &user, first, frames, writer).await
    }));
    let reply = Reply::stream(200, Media::EventStream, stream);
    Ok(if replayed { reply.replayed() } else { reply })
}

async fn write_pieces(call: &Call, user: &UserId, first: Frame, mut frames: Frames, mut writer: BodyWriter) {
    let mut next = Some(first);
    let mut gone = false;
    while let Some(frame) = next {
        let end = match &frame {
            Frame::Done {
                answer,
                handover,
                costs,
                ..
            } => {
                count(call, *costs);
                Some((answer.turn_id.clone(), *handover))
            }
            Frame::Turn { .. } | Frame::Delta { .. } | Frame::Refused { .. } => None,
        };
        let last = matches!(frame, Frame::Done { .. } | Frame::Refused { .. });
        let started = call.now();
        gone = gone || writer.write(event(call, &frame).as_bytes()).await.is_err();
        if last {
            let taken = if gone { Err(ClientGone) } else { writer.close().await };
            if let Some((turn, Handover::Due)) = end {
                record(call, user, &turn, started, taken).await;
            }
            return;
        }
        // A client that left does not stop the answer; it only stops hearing of it.
        next = frames.next().await;
    }
    // The object broke off: the client must not take what it has for the whole answer.
    writer.abort().await;
}

/// One server-sent event (WHATWG HTML §9.2).
fn event(call: &Call, frame: &Frame) -> String {
    let (name, data) = match frame {
        Frame::Turn {
            turn_id,
            conversation_id,
            session_id,
        } => (
            "turn",
            serde_json::json!({ "turn_id": turn_id, "conversation_id": conversation_id, "session_id": session_id })
                .to_string(),
        ),
        Frame::Delta { text } => ("delta", serde_json::json!({ "text": text }).to_string()),
        Frame::Done { answer, .. } => ("done", serde_json::to_string(answer).unwrap_or_default()),
        Frame::Refused { refusal, .. } => ("problem", problem(refusal).body(&call.request_id)),
    };
    format!("event: {name}\ndata: {data}\n\n")
}

fn problem(refusal: &ChatRefusal) -> Problem {
    let mut problem = Problem::new(refusal.code);
    if let Some(secs) = refusal.retry_after {
        problem = problem.with_retry_after(Millis::from_secs(secs));
    }
    if refusal.new_key_required {
        problem = problem.with_new_key_required();
    }
    if refusal.replayed {
        problem = problem.replayed();
    }
    if let Some(turn) = &refusal.turn_id {
        problem = problem.with_turn(turn.clone());
    }
    problem
}

fn count(call: &Call, costs: Costs) {
    call.costs.add(costs.trips.into(), costs.rows_written);
}
