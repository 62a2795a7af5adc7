//! What operators do, in the middle of anything.

use domain::ids::OutboxId;
use domain::ports::Clock;
use domain::sql::Value;
use domain::time::{Millis, Timestamp};

use super::World;
use super::places::put_token;
use super::plan::Act;
use super::service;
use crate::executor::SimClock;

pub async fn act(world: &World, act: &Act) {
    let database = world.sql.database();
    let gateway_id = |gateway: usize| Value::from(&world.places.gateways[gateway].id);
    match act {
        Act::Unlink { chat } => {
            let chat = &world.places.chats[*chat];
            let hash = world.places.hash(&world.people, chat.gateway, &chat.external);
            let sql = "UPDATE channel_addresses SET status = 'disabled' WHERE gateway_id = ?1 AND external_hash = ?2";
            database.query(sql, &[gateway_id(chat.gateway), hash.into()]);
        }
        Act::Switch { scope, on } => service::set_switch(world, *scope, *on),
        Act::Gateway { gateway, active } => {
            let status = if *active { "active" } else { "suspended" };
            let sql = "UPDATE gateways SET status = ?2, updated_at = updated_at + 1 WHERE gateway_id = ?1";
            database.query(sql, &[gateway_id(*gateway), status.into()]);
        }
        Act::Policy { gateway, user, allowed } => {
            let family = Value::from(&world.people.all[*user].family);
            let sql = if *allowed {
                "INSERT OR IGNORE INTO gateway_families VALUES (?1, ?2)"
            } else {
                "DELETE FROM gateway_families WHERE gateway_id = ?1 AND family_id = ?2"
            };
            database.query(sql, &[gateway_id(*gateway), family]);
        }
        Act::NewToken { gateway, told } => {
            let token = format!("{gateway}:token-{}", world.executor.steps());
            world.telegram.replace_token(*gateway, &token);
            if *told {
                mend_token(world, *gateway);
            }
        }
        Act::MendToken { gateway } => mend_token(world, *gateway),
        Act::BumpEpoch => database.execute("UPDATE meta SET epoch = epoch + 1"),
        Act::Quarantine { nth } => service::quarantine(world, *nth),
        Act::Requeue => service::requeue(world),
        Act::Withdraw { nth } => service::withdraw(world, *nth),
        Act::Shorten { nth, millis } => shorten(world, *nth, *millis),
        other => unreachable!("{other:?} is not an operator's doing"),
    }
    world.claims.refresh(database, 0);
}

/// Puts in the token that works.
fn mend_token(world: &World, gateway: usize) {
    if !world.places.gateways[gateway].ours {
        return;
    }
    let (token, now) = (world.telegram.token(gateway), SimClock::exact(&world.executor).now());
    put_token(
        &world.executor,
        world.sql.database(),
        &world.people,
        &world.places.gateways[gateway],
        &token,
        now.as_millis(),
    );
}

/// The open row at place `nth`, about which an operator does something now.
pub fn touch(world: &World, nth: usize) -> Option<(OutboxId, Timestamp)> {
    let sql = "SELECT outbox_id, group_id FROM outbound_messages
               WHERE terminal_at IS NULL AND status <> 'quarantined' ORDER BY outbox_id";
    let rows = world.sql.database().query(sql, &[]);
    let row = rows.get(nth % rows.len().max(1))?;
    world.touched.borrow_mut().insert(row.text("group_id").ok()?.to_owned());
    let id = OutboxId::parse(row.text("outbox_id").ok()?).ok()?;
    Some((id, SimClock::exact(&world.executor).now()))
}

fn shorten(world: &World, nth: usize, millis: i64) {
    let Some((id, now)) = touch(world, nth) else {
        return;
    };
    let sql = "UPDATE outbound_messages SET expires_at = min(expires_at, ?2) WHERE outbox_id = ?1";
    let at = now.plus(Millis::new(millis));
    world.sql.database().query(sql, &[(&id).into(), at.into()]);
}

/// The end of all trouble that an operator can mend.
pub fn mend_everything(world: &World) {
    let database = world.sql.database();
    database.execute(
        "UPDATE users SET status = 'active';
         UPDATE families SET status = 'active';
         UPDATE gateways SET status = 'active', updated_at = updated_at + 1;
         UPDATE send_switches SET enabled = 1;
         INSERT OR IGNORE INTO gateway_families SELECT g.gateway_id, f.family_id FROM gateways g, families f",
    );
    for gateway in 0..world.places.gateways.len() {
        mend_token(world, gateway);
    }
    service::requeue(world);
    world.claims.refresh(database, 0);
}
