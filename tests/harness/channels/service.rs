//! Where the world meets the service itself.

use std::rc::Rc;

use domain::auth::link_code::{LINK_CODE_LIFE, LinkCode};
use domain::auth::webhook::secret_hash;
use domain::ids::{HOME_SHARD, OutboxId, RequestId};
use domain::keys::MasterSecrets;
use domain::ports::{Checkpoint, Clock};
use domain::sql::{Outcome, Shard, Statement};
use domain::telegram::send::{Api, ParseMode};
use domain::time::Millis;
use objects::ingress::{Delivery, Refused, Webhook, pass_on};
use queues::deliver::{Alert, SendPorts, consume};
use queues::jobs::Disposition;
use store::db::DbError;
use store::outbox::operate;

use super::callers::Callers;
use super::places::CHANNEL;
use super::plan::Scope;
use super::provider::TelegramHttp;
use super::{World, operator};
use crate::executor::{Process, SimClock};
use crate::network::SimSql;
use crate::queue::SimQueue;
use crate::rng::Rng;

/// Lets everything else run, and so makes one more place to die at, to be held up for longer than a lease lasts, or to
/// have one's clock set.
pub struct Pause {
    process: Process,
    callers: Callers,
    caller: u64,
    /// Out of 1,000 times, how often it takes long, and how often the clock jumps.
    stalls: u32,
    jumps: u32,
}

impl Checkpoint for Pause {
    async fn reach(&self, _name: &'static str) {
        let executor = self.process.executor();
        let rng = executor.rng();
        if rng.chance(self.stalls) {
            executor.sleep(rng.between(0, 80_000)).await;
        }
        if rng.chance(self.jumps) {
            let millis = *rng.pick(&[-90_000, -1_500, 0, 1_500, 90_000]);
            self.process.set_skew(millis);
            self.callers.skew(self.caller, millis);
        }
        executor.pause().await;
    }
}

/// What one sender is built on.
pub struct Ports {
    pub sql: SimSql,
    pub clock: SimClock,
    pub entropy: Rng,
    http: TelegramHttp,
    sends: SimQueue,
    checkpoint: Pause,
    secrets: Rc<MasterSecrets>,
    api: Api,
}

impl Ports {
    pub fn new(world: &World, process: &Process, caller: u64) -> Self {
        Self {
            sql: world.sql.of_caller(caller),
            clock: process.clock(),
            entropy: world.executor.rng().fork(),
            http: world.telegram.of_caller(caller),
            sends: world.sends.clone(),
            checkpoint: Pause {
                process: process.clone(),
                callers: world.callers.clone(),
                caller,
                stalls: if world.healed.get() { 0 } else { world.stalls },
                jumps: if world.healed.get() { 0 } else { world.skewed / 2 },
            },
            secrets: Rc::clone(&world.people.secrets),
            api: api(),
        }
    }
}

/// How the provider is reached.
pub fn api() -> Api {
    Api {
        base: "https://telegram.example".parse().expect("an address"),
        deadline: Millis::from_secs(10),
        parse_mode: Some(ParseMode::Markdown),
    }
}

impl SendPorts for Ports {
    type Sql = SimSql;
    type Clock = SimClock;
    type Entropy = Rng;
    type Http = TelegramHttp;
    type Queue = SimQueue;
    type Checkpoint = Pause;

    fn sql(&self) -> &SimSql {
        &self.sql
    }
    fn clock(&self) -> &SimClock {
        &self.clock
    }
    fn entropy(&self) -> &Rng {
        &self.entropy
    }
    fn http(&self) -> &TelegramHttp {
        &self.http
    }
    fn sends(&self) -> &SimQueue {
        &self.sends
    }
    fn checkpoint(&self) -> &Pause {
        &self.checkpoint
    }
    fn secrets(&self) -> &MasterSecrets {
        &self.secrets
    }
    fn telegram(&self) -> &Api {
        &self.api
    }
    fn alert(&self, _alert: Alert) {}
}

/// Messages of the queue of sends that came together; the answer says whether all are done with.
pub async fn send(world: Rc<World>, process: Process, caller: u64, bodies: Vec<String>) -> bool {
    let ports = Ports::new(&world, &process, caller);
    let (dispositions, _) = consume(&bodies, &ports).await;
    dispositions.iter().all(|one| matches!(one, Disposition::Ack(_)))
}

/// A one-time code with which `user` can bind a chat.
pub fn link_code(world: &World, user: usize) -> String {
    let number = world.codes.get() + 1;
    world.codes.set(number);
    let (person, secrets) = (&world.people.all[user].user, &world.people.secrets);
    let code = LinkCode::of(secrets, person, CHANNEL, &format!("key {number}"));
    let now = SimClock::exact(&world.executor).now();
    world.sql.database().query(
        "INSERT INTO link_codes (code_hash, user_id, channel, created_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)",
        &[
            code.hash(secrets).into(),
            person.into(),
            CHANNEL.into(),
            now.into(),
            now.plus(LINK_CODE_LIFE).into(),
        ],
    );
    code.reveal().to_owned()
}

/// One call of the webhook; the status of its answer.
pub async fn webhook(world: Rc<World>, process: Process, caller: u64, gateway: usize, body: String) -> u16 {
    let ports = Ports::new(&world, &process, caller);
    let gateway = &world.places.gateways[gateway];
    let received_at = ports.clock.now();
    let secret = secret_hash(&ports.secrets, &gateway.id, &gateway.secret);
    let delivery = Delivery {
        gateway_id: &gateway.id,
        secret_hash: Some(&secret),
        body: &body,
        request_id: &RequestId::mint(received_at, &ports.entropy),
        client_request_id: None,
        trace_id: "00000000000000000000000000000001",
        source_address_hash: None,
        received_at,
    };
    let webhook = Webhook {
        sql: &ports.sql,
        clock: &ports.clock,
        entropy: &ports.entropy,
        checkpoint: &ports.checkpoint,
        secrets: &ports.secrets,
        line_max: 32,
    };
    match webhook.receive(&delivery, Rc::default()).await {
        Ok(taken) => {
            if let Some(order) = &taken.order {
                pass_on(order, &world.jobs, &world.sends).await;
            }
            200
        }
        Err(Refused::Unauthenticated) => 401,
        Err(Refused::NotAnUpdate(_)) => 400,
        Err(Refused::Conflict) => 409,
        Err(Refused::Db(DbError::Defect | DbError::Conflict)) => {
            world.watch.wrong("no_defect", "taking an update".to_owned());
            500
        }
        Err(Refused::Closed | Refused::Db(_)) => 503,
    }
}

/// One sweep.
pub async fn sweep(world: Rc<World>, process: Process) {
    let ports = Ports::new(&world, &process, 0);
    let swept = queues::sweep::sweep(&ports.sql, &world.jobs, &world.sends, &ports.clock, &ports.entropy).await;
    if swept.skipped {
        return;
    }
    queues::purge::purge(&ports.sql, ports.clock.now()).await;
    queues::rotation::rotate(&ports.sql, Shard::User(HOME_SHARD), &ports.secrets, &ports.entropy).await;
}

pub fn set_switch(world: &World, scope: Scope, on: bool) {
    let (scope, target) = match scope {
        Scope::Global => ("global", String::new()),
        Scope::Channel => ("channel", CHANNEL.to_owned()),
        Scope::Gateway(at) => ("gateway", world.places.gateways[at].id.to_string()),
    };
    world.sql.database().query(
        "INSERT INTO send_switches (scope, target, enabled, updated_at) VALUES (?1, ?2, ?3, 0)
         ON CONFLICT (scope, target) DO UPDATE SET enabled = excluded.enabled",
        &[scope.into(), target.into(), on.into()],
    );
}

/// Sets the open row at place `nth` aside.
pub fn quarantine(world: &World, nth: usize) {
    let Some((row, now)) = operator::touch(world, nth) else {
        return;
    };
    run(world, operate::quarantine(&row, now));
}

/// Lets every row go on that was set aside.
pub fn requeue(world: &World) {
    let sql = "SELECT outbox_id FROM outbound_messages WHERE status = 'quarantined' ORDER BY part_no";
    let now = SimClock::exact(&world.executor).now();
    for row in world.sql.database().query(sql, &[]) {
        let row = OutboxId::parse(row.text("outbox_id").expect("an id")).expect("an id");
        run(world, operate::requeue(&row, now.plus(Millis::from_mins(24 * 60)), now));
    }
}

/// Ends the open row at place `nth`.
pub fn withdraw(world: &World, nth: usize) {
    let Some((row, now)) = operator::touch(world, nth) else {
        return;
    };
    run(world, operate::withdraw(&row, now));
}

fn run(world: &World, batch: Vec<Statement>) {
    let outcome = world.sql.database().run(Shard::User(HOME_SHARD), &batch);
    world
        .watch
        .that(matches!(outcome, Outcome::Committed(_)), "no_defect", || {
            format!("an operator's batch: {outcome:?}")
        });
}
