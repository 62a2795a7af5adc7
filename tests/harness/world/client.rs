//! Clients, and the edge in front of the objects: what stands between a request and its user's object.

use std::rc::Rc;

use domain::auth::Principal;
use domain::http::context::{Channel, RequestContext};
use domain::ids::{ConversationId, RequestId, TurnId};
use domain::ports::Clock;
use domain::sql::Value;
use domain::time::{Millis, Timestamp};
use domain::turn::event::AckType;
use domain::turn::protocol::{ChatCommand, Frame, Handover};
use futures::StreamExt;
use futures::channel::mpsc;
use futures::future::{Either, select};
use objects::handover::{self, Acknowledgment, TurnError};
use objects::user_turns::Listener;
use store::db::{Db, DbError};
use store::idempotency::KeyUse;

use crate::executor::{SimClock, WORLD_START};
use crate::world::World;
use crate::world::plan::{Conversation, Leave, Send};
use crate::world::record::{Attempt, Ending, words};

/// How long a request may take before the service gives it up.
const DEADLINE: Millis = Millis::from_secs(90);

/// Sends a message and stays until it is known how it ended, or the client's patience is at its end.
pub async fn send(world: Rc<World>, send: Send) {
    if let Some(gap) = send.after_last {
        wait_after_last(&world, send.user, gap).await;
    }
    for attempt in 0..=send.retries {
        let ending = request(&world, &send).await;
        if ending.is_final() || ending == Ending::Left {
            return;
        }
        let pause = 1_000 * i64::from(attempt + 1) + world.executor.rng().between(0, 500);
        world.executor.sleep(pause).await;
    }
}

/// Waits until `gap` after the user's last message, as the ledger has it.
async fn wait_after_last(world: &World, user: usize, gap: i64) {
    let sql = "SELECT max(last_message_at) AS v FROM conversations WHERE user_id = ?1";
    let rows = world
        .sql
        .database()
        .query(sql, &[Value::from(&world.people.all[user].user)]);
    let last = rows.first().and_then(|row| row.optional_integer("v").ok().flatten());
    if let Some(last) = last {
        let due = last + gap - WORLD_START - world.executor.elapsed();
        world.executor.sleep(due.clamp(0, 45 * 60_000)).await;
    }
}

fn context(world: &World, send: &Send, principal: Principal, now: Timestamp) -> RequestContext {
    let rng = world.executor.rng();
    let person = &world.people.all[send.user];
    RequestContext {
        request_id: RequestId::mint(now, rng),
        client_request_id: None,
        turn_id: TurnId::mint(now, rng),
        idempotency_key_hash: format!("key {}", send.key),
        principal,
        user_id: person.user.clone(),
        family_id: person.family.clone(),
        channel: if send.gateway {
            Channel::Telegram
        } else {
            Channel::Direct
        },
        gateway_id: send.gateway.then(|| world.people.gateway.clone()),
        locale: None,
        timezone: None,
        received_at: now,
        deadline_at: now.plus(DEADLINE),
        source_address_hash: None,
        trace_id: "simulated".to_owned(),
        parent_turn_id: None,
        feature_flags: Vec::new(),
    }
}

/// The id of the conversation that the message names.
fn named_conversation(world: &World, send: &Send) -> Option<ConversationId> {
    let own = "SELECT conversation_id FROM conversations WHERE user_id = ?1 AND (gateway_id IS NOT NULL) = ?2";
    let foreign = "SELECT conversation_id FROM conversations WHERE user_id <> ?1 OR (gateway_id IS NOT NULL) <> ?2";
    let sql = match send.conversation {
        Conversation::Unnamed => return None,
        Conversation::Own => own,
        Conversation::Foreign => foreign,
    };
    let who = Value::from(&world.people.all[send.user].user);
    let rows = world.sql.database().query(sql, &[who, send.gateway.into()]);
    let found = rows
        .first()
        .and_then(|row| ConversationId::parse(row.text("conversation_id").ok()?).ok());
    // Where there is none, the client makes one up.
    found.or_else(|| ConversationId::parse("conv_00madeup").ok())
}

async fn request(world: &Rc<World>, send: &Send) -> Ending {
    let now = SimClock::exact(&world.executor).now();
    let person = &world.people.all[send.user];
    let principal = match (send.gateway, send.old_token) {
        (false, false) => person.fresh_token(world.sql.database(), now),
        (false, true) => person.first_token.clone(),
        (true, false) => world.people.gateway_token(world.sql.database(), now),
        (true, true) => world.people.first_gateway_token.clone(),
    };
    let request_hash = format!("body {} {:?}", send.variant, send.conversation);
    let context = context(world, send, principal.clone(), now);
    world.watch.expect_turn(&context.turn_id, send.user, principal);
    let command = ChatCommand {
        context,
        conversation_id: named_conversation(world, send),
        message: words(send),
        request_hash: request_hash.clone(),
        stream: send.stream,
    };
    let (frames, receiver) = mpsc::unbounded();
    let host = world.hosts.reach(send.user);
    let object = Rc::clone(&host.object);
    let listener = Listener::new(frames, send.stream);
    domain::ports::Spawn::spawn(
        &host.process,
        Box::pin(async move { object.chat(command, listener).await }),
    );
    // What the object holds must die with its process, so nothing outside may keep it.
    drop(host);

    let mut attempt = Attempt {
        user: send.user,
        key: send.key,
        variant: send.variant,
        gateway: send.gateway,
        request_hash,
        words: words(send),
        told_turn: None,
        shown: Vec::new(),
        ending: Ending::Left,
        took: 0,
    };
    let began = world.executor.elapsed();
    attempt.ending = listen(world, send, receiver, &mut attempt).await;
    attempt.took = world.executor.elapsed() - began;
    let ending = attempt.ending.clone();
    world.attempts.borrow_mut().push(attempt);
    ending
}

async fn listen(
    world: &Rc<World>,
    send: &Send,
    mut frames: mpsc::UnboundedReceiver<Frame>,
    attempt: &mut Attempt,
) -> Ending {
    let (patience, most) = match send.leave {
        Leave::Never => (i64::MAX / 2, u32::MAX),
        Leave::After(millis) => (millis, u32::MAX),
        Leave::AfterFrames(most) => (i64::MAX / 2, most),
    };
    let mut gone = Box::pin(world.executor.sleep(patience));
    for _ in 0..most {
        let frame = match select(frames.next(), &mut gone).await {
            Either::Left((frame, _)) => frame,
            Either::Right(((), _)) => return Ending::Left,
        };
        match frame {
            None => return Ending::Lost,
            Some(Frame::Turn { turn_id, .. }) => attempt.told_turn = Some(turn_id.to_string()),
            Some(Frame::Delta { text }) => {
                let told = attempt.told_turn.as_deref().unwrap_or_default();
                let recorded = stands(world, "SELECT 1 FROM turns WHERE turn_id = ?1 AND shown = 1", told);
                world.watch.that(recorded, "shown", || {
                    format!("{told}: a piece came before that was on record")
                });
                attempt.shown.push((world.executor.steps(), text));
            }
            Some(Frame::Refused { refusal, .. }) => return Ending::Refused(refusal),
            Some(Frame::Done {
                answer,
                replayed,
                handover,
                ..
            }) => {
                let told = answer.turn_id.as_str();
                let stored = stands(
                    world,
                    "SELECT 1 FROM messages WHERE turn_id = ?1 AND role = 'assistant'",
                    told,
                );
                world.watch.that(stored, "stored_before_sent", || {
                    format!("{told}: its answer came before it was stored")
                });
                attempt.told_turn = Some(told.to_owned());
                if handover == Handover::Due && world.executor.rng().chance(900) {
                    hand_over(world, send.user, &answer.turn_id).await;
                }
                return Ending::Answer { answer, replayed };
            }
        }
    }
    Ending::Left
}

/// Whether the ledger at this moment has a row for the turn.
fn stands(world: &World, sql: &str, turn: &str) -> bool {
    !world.sql.database().query(sql, &[turn.into()]).is_empty()
}

/// The edge puts on record that the answer was taken; it may die over it.
async fn hand_over(world: &Rc<World>, user: usize, turn: &TurnId) {
    let edge = world.executor.process();
    if world.executor.rng().chance(50) {
        world.kill_later(edge.clone(), world.executor.rng().below(8) as u64);
    }
    let (sql, clock, turn, owner) = (
        world.sql.clone(),
        edge.clock(),
        turn.clone(),
        world.people.all[user].user.clone(),
    );
    let started = clock.now();
    let outcome = edge
        .call(async move { handover::commit_response(&sql, &clock, &turn, &owner, started).await })
        .await;
    if let Some(Err(DbError::Defect)) = outcome {
        world.watch.wrong("no_defect", "handing an answer over".to_owned());
    }
}

/// The turn under `key`, as far as any client was told.
fn known_turn(world: &World, key: u32) -> Option<(usize, TurnId)> {
    let attempts = world.attempts.borrow();
    let known = attempts.iter().find(|one| one.key == key && one.told_turn.is_some())?;
    Some((known.user, TurnId::parse(known.told_turn.as_deref()?).ok()?))
}

/// A client says that it rendered an answer.
pub async fn acknowledge(world: Rc<World>, user: usize, key: u32) {
    let Some((owner, turn)) = known_turn(&world, key) else {
        return;
    };
    let clock = SimClock::exact(&world.executor);
    let now = clock.now();
    let principal = world.people.all[user].fresh_token(world.sql.database(), now);
    let user_id = world.people.all[user].user.clone();
    let said = Acknowledgment {
        ack: AckType::Rendered,
        client_timestamp: now,
    };
    let key_use = KeyUse {
        caller: user_id.as_str(),
        route: "/turns/{turn_id}/ack",
        key_hash: &format!("key {key}.{}", world.executor.rng().below(2)),
        request_hash: turn.as_str(),
        now,
    };
    match handover::acknowledge(&world.sql, &clock, &principal, &user_id, &turn, &key_use, said).await {
        Ok(_) if owner == user => world.acknowledged.borrow_mut().push(turn.to_string()),
        Ok(_) => world
            .watch
            .wrong("isolation", format!("user {user} acknowledged {turn} of user {owner}")),
        Err(TurnError::Db(DbError::Defect)) => world.watch.wrong("no_defect", "acknowledging".to_owned()),
        Err(TurnError::Stale | TurnError::NotFound | TurnError::NoAnswer | TurnError::KeyReused | TurnError::Db(_)) => {
        }
    }
}

/// A client asks how a turn stands.
pub async fn view(world: Rc<World>, user: usize, key: u32) {
    let Some((owner, turn)) = known_turn(&world, key) else {
        return;
    };
    let clock = SimClock::exact(&world.executor);
    let principal = world.people.all[user].fresh_token(world.sql.database(), clock.now());
    let user_id = world.people.all[user].user.clone();
    let db = Db::new(&world.sql, &clock, Rc::default());
    match handover::view_turn(&db, &world.people.secrets, &principal, &user_id, &turn).await {
        Ok(view) if owner == user => {
            if let Some(reply) = view.reply {
                world.viewed.borrow_mut().push((turn.to_string(), reply));
            }
        }
        Ok(_) => world
            .watch
            .wrong("isolation", format!("user {user} saw {turn} of user {owner}")),
        Err(TurnError::Db(DbError::Defect)) => world.watch.wrong("no_defect", "viewing a turn".to_owned()),
        Err(TurnError::Stale | TurnError::NotFound | TurnError::NoAnswer | TurnError::KeyReused | TurnError::Db(_)) => {
        }
    }
}
