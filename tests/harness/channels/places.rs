//! The gateways of a world and the chats with them.

use std::cell::RefCell;
use std::collections::BTreeMap;

use domain::ids::{AddressId, GatewayId};
use domain::keys::{Aad, HashLabel};
use domain::sql::Value;

use super::plan::{Plan, STRANGERS};
use crate::executor::Executor;
use crate::sqlite::Database;
use crate::world::people::People;

/// The only channel here.
pub const CHANNEL: &str = "telegram";

/// A bot.
pub struct Gateway {
    pub id: GatewayId,
    /// The secret that its webhook calls carry.
    pub secret: String,
    /// Whether the service itself sends for it.
    pub ours: bool,
}

/// A chat with a bot.
#[derive(Debug, Clone)]
pub struct Chat {
    pub gateway: usize,
    /// The provider's id of it, at the beginning.
    pub external: String,
}

pub struct Places {
    pub gateways: Vec<Gateway>,
    pub chats: Vec<Chat>,
    /// By lane, as the outbox names it: the gateway and the provider's id of the chat.
    lanes: RefCell<BTreeMap<String, (usize, String)>>,
}

impl Places {
    pub fn settle(plan: &Plan, executor: &Executor, database: &Database, people: &People) -> Self {
        let mut places = Self {
            gateways: Vec::new(),
            chats: Vec::new(),
            lanes: RefCell::default(),
        };
        for at in 0..plan.gateways() {
            let ours = at < plan.bots;
            let gateway = Gateway {
                id: GatewayId::parse(&format!("gateway_00bot{at}")).expect("an id"),
                secret: format!("secret-of-bot-{at}"),
                ours,
            };
            insert_gateway(executor, database, people, &gateway, at);
            places.gateways.push(gateway);
            for seat in 0..plan.users + STRANGERS {
                let external = format!("{}", 1_000 * (at + 1) + seat);
                places.know(people, at, &external);
                if seat < plan.users {
                    insert_address(executor, database, people, &places.gateways[at], seat, &external);
                }
                places.chats.push(Chat { gateway: at, external });
            }
        }
        places
    }

    /// The keyed hash by which the directory finds a chat.
    pub fn hash(&self, people: &People, gateway: usize, external: &str) -> String {
        let id = self.gateways[gateway].id.as_str();
        hash(people, id, external)
    }

    /// Takes note of a chat, so that its lane can be told.
    pub fn know(&self, people: &People, gateway: usize, external: &str) {
        let id = self.gateways[gateway].id.as_str();
        let lane = format!("{CHANNEL}/{id}/{}", hash(people, id, external));
        self.lanes.borrow_mut().insert(lane, (gateway, external.to_owned()));
    }

    /// The gateway and the chat of a lane.
    pub fn of_lane(&self, lane: &str) -> Option<(usize, String)> {
        self.lanes.borrow().get(lane).cloned()
    }

    pub fn gateway(&self, id: &str) -> Option<usize> {
        self.gateways.iter().position(|gateway| gateway.id.as_str() == id)
    }
}

fn hash(people: &People, gateway: &str, external: &str) -> String {
    let parts = [gateway.as_bytes(), CHANNEL.as_bytes(), external.as_bytes()];
    people.secrets.keyed_hash_of(HashLabel::ExternalAddress, &parts)
}

fn insert_gateway(executor: &Executor, database: &Database, people: &People, gateway: &Gateway, at: usize) {
    let parts = [gateway.id.as_str().as_bytes(), gateway.secret.as_bytes()];
    let secret = people.secrets.keyed_hash_of(HashLabel::WebhookSecret, &parts);
    database.query(
        "INSERT INTO gateways (gateway_id, scopes, channels, production, assertion_jwk, webhook_secret_hash, status,
           authorization_revision, created_at, updated_at)
         VALUES (?1, '[\"chat\",\"outbox:send\"]', '[\"telegram\"]', 0, '{}', ?2, 'active', 1, 0, 0)",
        &[(&gateway.id).into(), secret.into()],
    );
    for family in people.all.iter().map(|person| &person.family) {
        database.query(
            "INSERT OR IGNORE INTO gateway_families VALUES (?1, ?2)",
            &[(&gateway.id).into(), family.into()],
        );
    }
    if gateway.ours {
        put_token(executor, database, people, gateway, &first_token(at), 0);
    }
}

/// The token that a bot has at the beginning.
pub fn first_token(at: usize) -> String {
    format!("{at}:first-token")
}

/// Puts a provider's token in, as an operator does.
pub fn put_token(executor: &Executor, database: &Database, people: &People, gateway: &Gateway, token: &str, now: i64) {
    let place = Aad {
        table: "gateways",
        row: gateway.id.as_str(),
        column: "channel_token_sealed",
    };
    let sealed = people
        .secrets
        .seal_own(&place, token.as_bytes(), executor.rng())
        .expect("sealed");
    database.query(
        "UPDATE gateways SET updated_at = max(updated_at + 1, ?2), channel_token_sealed = ?3,
           channel_token_master_version = ?4, status = CASE status WHEN 'broken' THEN 'active' ELSE status END
         WHERE gateway_id = ?1",
        &[
            (&gateway.id).into(),
            Value::integer(now).expect("a time"),
            sealed.sealed.into(),
            sealed.master_version.into(),
        ],
    );
}

fn insert_address(
    executor: &Executor,
    database: &Database,
    people: &People,
    gateway: &Gateway,
    user: usize,
    external: &str,
) {
    let person = &people.all[user];
    let id = AddressId::parse(&format!("address_00{external}")).expect("an id");
    let place = Aad {
        table: "channel_addresses",
        row: id.as_str(),
        column: "external_sealed",
    };
    let sealed = person
        .key
        .seal(&place, external.as_bytes(), executor.rng())
        .expect("sealed");
    database.query(
        "INSERT INTO channel_addresses (address_id, gateway_id, channel, user_id, external_hash, external_key_id,
           external_sealed, status, created_at, updated_at) VALUES (?1, ?2, 'telegram', ?3, ?4, ?5, ?6, 'active', 0, 0)",
        &[
            (&id).into(),
            (&gateway.id).into(),
            (&person.user).into(),
            hash(people, gateway.id.as_str(), external).into(),
            person.key.id().into(),
            sealed.into(),
        ],
    );
}
