//! Doing what a plan says.

use std::rc::Rc;

use domain::job::{Job, JobMessage};
use domain::keys::KeySubject;
use domain::ports::{Clock, Queue};
use domain::sql::{Shard, Value};
use domain::time::Millis;

use super::plan::{Act, Say};
use super::{Doomed, LONG_OUTAGE, World, arrivals, operator, outside, senders, service};
use crate::executor::SimClock;

pub async fn act(world: Rc<World>, act: Act) {
    match act {
        Act::Say { chat, what } => say(&world, chat, what),
        Act::Crowd { gateway, count } => crowd(&world, gateway, count),
        Act::Link {
            user,
            chat,
            also,
            spoilt,
        } => link(&world, user, [Some(chat), also], spoilt),
        Act::Again { nth, changed } => arrivals::again(world, nth, changed).await,
        Act::Deliver { gateway, copies } => {
            for _ in 0..copies {
                let _ = world.sends.send(order(&world, gateway), Millis::ZERO).await;
            }
        }
        Act::DeliverAll => {
            let gateways = 0..world.places.gateways.len();
            let orders = gateways.flat_map(|gateway| [order(&world, gateway), order(&world, gateway)]);
            let orders = orders.collect();
            senders::send(world, orders).await;
        }
        Act::OldMessages { user, gateway } => old_messages(world, user, gateway).await,
        Act::Fetch { manner } => outside::fetch(world, manner).await,
        Act::Sweep => senders::sweep(world).await,
        Act::Outage { millis } => world.sql.fail_for(millis),
        Act::KillObject { user, after } => {
            let at = world.executor.steps() + u64::from(after);
            world.doomed.borrow_mut().push((at, Doomed::Objects(user)));
        }
        Act::Kill { whom, after } => world.marked.borrow_mut().push((whom, after)),
        Act::Split { user } => {
            world.hosts.begin(user);
        }
        Act::Skew { user, millis } => world.hosts.skew(user, millis),
        // So long that messages are given up; nothing is mended meanwhile.
        Act::ProviderOutage { millis, how } if millis > LONG_OUTAGE => {
            world.telegram.fail_for(millis, how);
            world.executor.sleep(millis).await;
        }
        Act::Block { .. }
        | Act::ChatGone { .. }
        | Act::Migrate { .. }
        | Act::Flood { .. }
        | Act::ProviderOutage { .. } => {
            at_the_provider(&world, &act);
        }
        Act::Revise { .. }
        | Act::Suspend { .. }
        | Act::Reinstate { .. }
        | Act::Family { .. }
        | Act::DestroyKey { .. } => {
            to_a_person(&world, &act);
        }
        Act::Unlink { .. }
        | Act::Switch { .. }
        | Act::Gateway { .. }
        | Act::Policy { .. }
        | Act::NewToken { .. }
        | Act::MendToken { .. }
        | Act::BumpEpoch
        | Act::Quarantine { .. }
        | Act::Requeue
        | Act::Withdraw { .. }
        | Act::Shorten { .. } => operator::act(&world, &act).await,
    }
}

/// The chat's id as the people in it know it now.
fn current(world: &World, chat: usize) -> (usize, String) {
    let chat = &world.places.chats[chat];
    let moved = world.telegram.moved(chat.gateway, &chat.external);
    (chat.gateway, moved.unwrap_or_else(|| chat.external.clone()))
}

fn say(world: &Rc<World>, chat: usize, what: Say) {
    let (gateway, external) = current(world, chat);
    let text = arrivals::words(world, gateway, &external, what);
    arrivals::write(world, gateway, &external, what, text);
}

fn crowd(world: &Rc<World>, gateway: usize, count: u32) {
    for stranger in 0..count {
        let external = format!("{}", 50_000 + 1_000 * gateway + stranger as usize);
        world.places.know(&world.people, gateway, &external);
        let text = arrivals::words(world, gateway, &external, Say::Words);
        arrivals::write(world, gateway, &external, Say::Words, text);
    }
}

fn link(world: &Rc<World>, user: usize, chats: [Option<usize>; 2], spoilt: bool) {
    let code = if spoilt {
        "0123456789ABCDEF".to_owned()
    } else {
        service::link_code(world, user)
    };
    for chat in chats.into_iter().flatten() {
        let (gateway, external) = current(world, chat);
        arrivals::write(world, gateway, &external, Say::Words, Some(format!("/start {code}")));
    }
}

/// An order to send, as it stands on its queue.
fn order(world: &World, gateway: usize) -> String {
    let gateway_id = world.places.gateways[gateway].id.clone();
    JobMessage::new(world.epoch(), Job::Deliver { gateway_id }).encode()
}

async fn old_messages(world: Rc<World>, user: usize, gateway: usize) {
    let (user, gateway) = (&world.people.all[user].user, &world.places.gateways[gateway].id);
    let epoch = world.epoch();
    let bodies = [
        format!(r#"{{"v":"1","epoch":{epoch},"kind":"generate","user_id":"{user}"}}"#),
        format!(
            r#"{{"v":"2","epoch":{},"kind":"deliver","gateway_id":"{gateway}"}}"#,
            epoch - 1
        ),
        format!(r#"{{"v":"9","epoch":{epoch},"kind":"deliver","gateway_id":"{gateway}"}}"#),
        "nothing that can be read".to_owned(),
    ];
    for body in bodies {
        let _ = world.sends.send(body.clone(), Millis::ZERO).await;
        let _ = world.jobs.send(body, Millis::ZERO).await;
    }
}

fn at_the_provider(world: &World, act: &Act) {
    let telegram = &world.telegram;
    match act {
        Act::Block { chat, blocked } => {
            let (gateway, external) = current(world, *chat);
            telegram.block(gateway, &external, *blocked);
        }
        Act::ChatGone { chat } => {
            let (gateway, external) = current(world, *chat);
            telegram.lose_chat(gateway, &external);
        }
        Act::Migrate { chat } => {
            let chat = &world.places.chats[*chat];
            let to = format!("{}", 900_000 + chat.external.parse::<usize>().expect("a number"));
            world.places.know(&world.people, chat.gateway, &to);
            telegram.move_chat(chat.gateway, &chat.external, &to);
        }
        Act::Flood { gateway, millis } => telegram.flood(*gateway, *millis),
        Act::ProviderOutage { millis, how } => telegram.fail_for(*millis, *how),
        other => unreachable!("{other:?} is not done at the provider"),
    }
}

fn to_a_person(world: &World, act: &Act) {
    let database = world.sql.database();
    let set = |user: usize, sql: &str| {
        database.query(sql, &[Value::from(&world.people.all[user].user)]);
    };
    match act {
        Act::Revise { user } => set(
            *user,
            "UPDATE users SET authorization_revision = authorization_revision + 1 WHERE user_id = ?1",
        ),
        Act::Suspend { user } => set(*user, "UPDATE users SET status = 'suspended' WHERE user_id = ?1"),
        Act::Reinstate { user } => set(*user, "UPDATE users SET status = 'active' WHERE user_id = ?1"),
        Act::Family { user, active } => {
            let status = if *active { "active" } else { "suspended" };
            let family = Value::from(&world.people.all[*user].family);
            let sql = "UPDATE families SET status = ?2 WHERE family_id = ?1";
            database.query(sql, &[family, status.into()]);
        }
        Act::DestroyKey { user } => {
            let subject = KeySubject::User(world.people.all[*user].user.clone());
            let now = SimClock::exact(&world.executor).now();
            database.run(Shard::Directory, &[store::keys::destroy_key(&subject, now)]);
        }
        other => unreachable!("{other:?} is not done to a person"),
    }
}
