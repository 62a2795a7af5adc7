//! Updates: what people write to the bots, handed in as Telegram does. The same update comes until it is answered 2xx,
//! several at once and in any order.

use std::rc::Rc;

use serde_json::{Value, json};

use super::callers::Caller;
use super::plan::{Say, Whom};
use super::{World, service};
use crate::executor::WORLD_START;

/// How often an update is handed in before the provider gives it up.
const DELIVERIES_MAX: u32 = 200;

/// The longest a delivery waits for its answer.
const PATIENCE: i64 = 60_000;

/// One update and what became of its deliveries.
#[derive(Debug, Clone)]
pub struct Update {
    pub gateway: usize,
    pub id: i64,
    pub chat: String,
    pub what: Say,
    /// What was written, if it had words.
    pub text: Option<String>,
    pub body: String,
    /// How often it was handed in, and how often that was answered well.
    pub delivered: u32,
    pub taken: u32,
    /// How often it was handed in with another payload, and how often that was refused for it.
    pub forged: u32,
    pub conflicts: u32,
    pub acked: bool,
}

/// Somebody writes, and the provider goes on handing that in until it is taken.
pub fn write(world: &Rc<World>, gateway: usize, chat: &str, what: Say, text: Option<String>) {
    let mut updates = world.updates.borrow_mut();
    let id = 700_000 + updates.len() as i64;
    let body = payload(id, chat, what, text.as_deref()).to_string();
    updates.push(Update {
        gateway,
        id,
        chat: chat.to_owned(),
        what,
        text,
        body,
        delivered: 0,
        taken: 0,
        forged: 0,
        conflicts: 0,
        acked: false,
    });
    world.executor.spawn(deliver(Rc::clone(world), updates.len() - 1));
}

fn payload(id: i64, chat: &str, what: Say, text: Option<&str>) -> Value {
    let number: i64 = chat.parse().expect("a chat's number");
    let person = json!({"id": number, "is_bot": false, "first_name": "Synthetic"});
    let message = |extra: Value| {
        let mut message = json!({
            "message_id": id, "date": WORLD_START / 1_000, "from": person,
            "chat": {"id": number, "type": "private", "first_name": "Synthetic"},
        });
        for (key, value) in extra.as_object().expect("an object") {
            message[key] = value.clone();
        }
        message
    };
    let text = text.unwrap_or_default();
    match what {
        Say::Words | Say::AtLength | Say::TooLong | Say::Help | Say::Stop => {
            json!({"update_id": id, "message": message(json!({"text": text}))})
        }
        Say::Sticker => {
            json!({"update_id": id, "message": message(json!({"sticker": {"file_id": "x", "emoji": "👍"}}))})
        }
        Say::Edited => json!({"update_id": id, "edited_message": message(json!({"text": "changed", "edit_date": 1}))}),
        Say::Callback => json!({"update_id": id, "callback_query": {"id": "7", "from": person, "data": "pressed"}}),
        Say::Group => {
            let chat = json!({"id": -number, "type": "group", "title": "synthetic"});
            json!({"update_id": id, "message": message(json!({"text": "in a group", "chat": chat}))})
        }
        Say::Bot => {
            let bot = json!({"id": number, "is_bot": true, "first_name": "Synthetic"});
            json!({"update_id": id, "message": message(json!({"text": "from a bot", "from": bot}))})
        }
        Say::Unknown => json!({"update_id": id, "something_new": {"a": 1}}),
    }
}

/// What a person writes, with their mark and a number so that no two messages are alike.
pub fn words(world: &World, gateway: usize, chat: &str, what: Say) -> Option<String> {
    let number = world.updates.borrow().len();
    let mark = match world.owner(gateway, chat) {
        Some(user) => format!("<u{user}>"),
        None => "<stranger>".to_owned(),
    };
    match what {
        Say::Words => Some(format!("{mark} asks {number}")),
        Say::AtLength => Some(format!("{mark} asks at length {number}")),
        Say::TooLong => Some(format!("{mark} {}", "x".repeat(17_000))),
        Say::Help => Some("/help".to_owned()),
        Say::Stop => Some("/stop".to_owned()),
        Say::Sticker | Say::Edited | Say::Callback | Say::Group | Say::Bot | Say::Unknown => None,
    }
}

/// Hands an update in until it is taken.
async fn deliver(world: Rc<World>, at: usize) {
    let mut pause = 1_000;
    for _ in 0..DELIVERIES_MAX {
        let (gateway, body) = {
            let updates = world.updates.borrow();
            (updates[at].gateway, updates[at].body.clone())
        };
        let status = hand_in(&world, gateway, body).await;
        let lost = !world.healed.get() && world.executor.rng().chance(world.acks_lost);
        {
            let update = &mut world.updates.borrow_mut()[at];
            update.delivered += 1;
            update.taken += u32::from(status == Some(200));
            update.acked |= status == Some(200) && !lost;
        }
        if status == Some(200) && !lost {
            return;
        }
        world.executor.sleep(pause + world.executor.rng().between(0, 500)).await;
        pause = (pause * 2).min(60_000);
    }
}

/// Hands an update of the past in once more, perhaps with another payload.
pub async fn again(world: Rc<World>, nth: usize, changed: bool) {
    let count = world.updates.borrow().len();
    if count == 0 {
        return;
    }
    let at = nth % count;
    let update = world.updates.borrow()[at].clone();
    // Nobody but the provider knows the secret, and it forges nothing that it has not delivered.
    let changed = changed && update.taken > 0;
    let body = if changed {
        payload(update.id, &update.chat, Say::Words, Some("a forged payload")).to_string()
    } else {
        update.body
    };
    let status = hand_in(&world, update.gateway, body).await;
    let update = &mut world.updates.borrow_mut()[at];
    update.taken += u32::from(!changed && status == Some(200));
    update.conflicts += u32::from(changed && status == Some(409));
    world.watch.that(!(changed && status == Some(200)), "forged", || {
        format!("update {} was taken with another payload", update.id)
    });
    *(if changed {
        &mut update.forged
    } else {
        &mut update.delivered
    }) += 1;
}

/// One call of the webhook; `None` when nothing came back.
async fn hand_in(world: &Rc<World>, gateway: usize, body: String) -> Option<u16> {
    let process = world.executor.process();
    let skew = world.some_skew();
    process.set_skew(skew);
    world.perhaps_kill(Whom::Edge, &process);
    let caller = world.callers.add(Caller {
        skew,
        ..Caller::default()
    });
    let call = service::webhook(Rc::clone(world), process.clone(), caller, gateway, body);
    let answer = futures::future::select(Box::pin(process.call(call)), world.executor.sleep(PATIENCE)).await;
    match answer {
        futures::future::Either::Left((status, _)) => status,
        futures::future::Either::Right(_) => None,
    }
}
