//! A whole world from one seed: the real rules, statements and objects, with everything around them simulated.

mod client;
pub(crate) mod hosts;
pub mod many;
pub(crate) mod model;
pub(crate) mod oracle;
pub(crate) mod people;
pub mod plan;
pub mod record;
pub(crate) mod watch;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use domain::guard::Guard;
use domain::ids::HOME_SHARD;
use domain::keys::KeySubject;
use domain::ports::Clock;
use domain::sql::{Shard, Value};
use objects::user_turns::TurnConfig;
use queues::jobs::{Disposition, consume};
use queues::purge::purge;
use queues::rotation::rotate;
use queues::sweep::sweep;

use crate::alarm::Alarms;
use crate::executor::{Executor, Process, SimClock};
use crate::network::{FaultRates, SimSql};
use crate::queue::{QueueRates, SimQueue};
use crate::rng::Rng;
use crate::sqlite::Database;
use hosts::Hosts;
use model::Calls;
use people::People;
use plan::{Act, Plan};
use record::{Attempt, Report};
use watch::Watch;

/// More steps than any world needs that comes to rest.
const STEPS_MAX: u64 = 1_000_000;

/// How long after the last trouble every turn must have ended: the ten minutes that an answer waits to be taken, the
/// quarter of an hour that a clock may have been ahead, and some sweeps.
const REST_MINUTES: u32 = 45;

/// The state of one world.
pub struct World {
    pub executor: Executor,
    pub sql: SimSql,
    pub people: Rc<People>,
    pub hosts: Hosts,
    pub calls: Calls,
    pub watch: Watch,
    pub attempts: RefCell<Vec<Attempt>>,
    /// Turns whose acknowledgment was confirmed to a client.
    pub acknowledged: RefCell<Vec<String>>,
    /// Replies that were shown on asking how a turn stands.
    pub viewed: RefCell<Vec<(String, String)>>,
    alarms: Alarms,
    queue: SimQueue,
    panics: Rc<Cell<u32>>,
    doomed: RefCell<Vec<(u64, Doomed)>>,
    clients: Cell<usize>,
    /// All trouble has ended.
    healed: Cell<bool>,
    at_rest: Cell<bool>,
}

enum Doomed {
    Objects(usize),
    Process(Process),
}

/// Lives `plan` through, with the given guards without effect, and checks every rule.
pub fn run(plan: &Plan, dropped: Option<Guard>) -> Report {
    let world = World::new(plan, dropped);
    for step in &plan.steps {
        let (world, step) = (Rc::clone(&world), step.clone());
        world.clients.set(world.clients.get() + 1);
        world.executor.clone().spawn(async move {
            world.executor.sleep(step.at).await;
            Rc::clone(&world).act(step.act).await;
            world.clients.set(world.clients.get() - 1);
        });
    }
    world.executor.spawn(Rc::clone(&world).come_to_rest());
    while !world.at_rest.get() && world.executor.steps() < STEPS_MAX {
        world.kill_the_doomed();
        if !world.executor.step() {
            break;
        }
    }
    if !world.at_rest.get() {
        world.watch.wrong("rest", "the world does not come to rest".to_owned());
    }
    let report = oracle::judge(&world, plan);
    world.shut_down();
    report
}

impl World {
    fn new(plan: &Plan, dropped: Option<Guard>) -> Rc<Self> {
        let executor = Executor::new(Rng::new(plan.seed));
        let database = Database::migrated().without_log();
        if let Some(guard) = dropped {
            database.drop_guards(&BTreeSet::from([guard]));
        }
        let people = Rc::new(People::settle(&executor, &database, plan.users));
        let watch = Watch::new(Rc::clone(&people));
        let sql = SimSql::new(executor.clone(), database);
        sql.set_rates(plan.faults);
        sql.set_slowest(plan.slowest);
        let watcher = watch.clone();
        sql.watch(Box::new(move |database, batch, outcome, _| {
            watcher.look(database, batch, outcome)
        }));
        let alarms = Alarms::new(executor.clone());
        alarms.set_late(plan.late_alarms);
        let panics = Rc::new(Cell::new(plan.panics));
        let calls = Calls::new(executor.clone(), plan.model, Rc::clone(&panics));
        let config = TurnConfig {
            line_max: plan.line_max,
            ..TurnConfig::default()
        };
        let hosts = Hosts::new(
            &executor,
            sql.clone(),
            alarms.clone(),
            calls.clone(),
            SimQueue::new(executor.clone()),
            Rc::clone(&people),
            config,
            Rc::clone(&panics),
        );
        let queue = SimQueue::new(executor.clone());
        queue.set_rates(plan.queue);
        let (consumer_sql, consumer_hosts, consumer_executor) = (sql.clone(), hosts.clone(), executor.clone());
        queue.on_message(Rc::new(move |body| {
            let (sql, hosts, process) = (
                consumer_sql.clone(),
                consumer_hosts.clone(),
                consumer_executor.process(),
            );
            Box::pin(async move {
                let done = process.call(async move { consume(&[body], &sql, &hosts).await }).await;
                done.is_some_and(|all| all.iter().all(|one| matches!(one, Disposition::Ack(_))))
            })
        }));
        Rc::new(Self {
            executor,
            sql,
            people,
            hosts,
            calls,
            watch,
            attempts: RefCell::default(),
            acknowledged: RefCell::default(),
            viewed: RefCell::default(),
            alarms,
            queue,
            panics,
            doomed: RefCell::default(),
            clients: Cell::new(0),
            healed: Cell::new(false),
            at_rest: Cell::new(false),
        })
    }

    async fn act(self: Rc<Self>, act: Act) {
        let database = self.sql.database();
        let now = SimClock::exact(&self.executor).now();
        let set = |user: usize, sql: &str| {
            let person = Value::from(&self.people.all[user].user);
            database.query(sql, &[person]);
        };
        match act {
            Act::Send(send) => client::send(Rc::clone(&self), send).await,
            Act::Acknowledge { user, key } => client::acknowledge(Rc::clone(&self), user, key).await,
            Act::View { user, key } => client::view(Rc::clone(&self), user, key).await,
            Act::Kill { user, after } => {
                let at = self.executor.steps() + u64::from(after);
                self.doomed.borrow_mut().push((at, Doomed::Objects(user)));
            }
            Act::Split { user } => {
                self.hosts.begin(user);
            }
            Act::Skew { user, millis } => self.hosts.skew(user, millis),
            Act::Revise { user } => {
                set(
                    user,
                    "UPDATE users SET authorization_revision = authorization_revision + 1 WHERE user_id = ?1",
                );
            }
            Act::Suspend { user } => set(user, "UPDATE users SET status = 'suspended' WHERE user_id = ?1"),
            Act::Reinstate { user } => set(user, "UPDATE users SET status = 'active' WHERE user_id = ?1"),
            Act::Family { user, active } => {
                let status = if active { "active" } else { "suspended" };
                let family = Value::from(&self.people.all[user].family);
                database.query(
                    "UPDATE families SET status = ?2 WHERE family_id = ?1",
                    &[family, status.into()],
                );
            }
            Act::RevokeTokens { user } => {
                let person = Value::from(&self.people.all[user].user);
                let sql = "UPDATE users SET tokens_valid_from = ?2 WHERE user_id = ?1";
                database.query(sql, &[person, now.into()]);
            }
            Act::RevokeAllTokens => {
                database.query("UPDATE meta SET tokens_valid_from = ?1", &[now.into()]);
            }
            Act::ReviseGateway => {
                database.execute("UPDATE gateways SET authorization_revision = authorization_revision + 1");
            }
            Act::DestroyKey { user } => {
                let subject = KeySubject::User(self.people.all[user].user.clone());
                database.run(Shard::Directory, &[store::keys::destroy_key(&subject, now)]);
            }
            Act::BumpEpoch => database.execute("UPDATE meta SET epoch = epoch + 1"),
            Act::Wake { user } => self.hosts.wake_all(user).await,
            Act::Outage { millis } => self.sql.fail_for(millis),
            Act::Sweep => Rc::clone(&self).sweep().await,
        }
    }

    async fn sweep(self: Rc<Self>) {
        let process = self.executor.process();
        if !self.healed.get() && self.executor.rng().chance(100) {
            self.kill_later(process.clone(), self.executor.rng().below(20) as u64);
        }
        let (sql, queue, clock, rng) = (
            self.sql.clone(),
            self.queue.clone(),
            process.clock(),
            self.executor.rng().clone(),
        );
        let secrets = Rc::clone(&self.people.secrets);
        let work = async move {
            if sweep(&sql, &queue, &queue, &clock, &rng).await.skipped {
                return;
            }
            purge(&sql, clock.now()).await;
            rotate(&sql, Shard::User(HOME_SHARD), &secrets, &rng).await;
        };
        process.call(work).await;
    }

    /// Sweeps once a minute; once every client has gone, all trouble ends, and after a while so must every turn.
    async fn come_to_rest(self: Rc<Self>) {
        let mut minutes = 0;
        while minutes < REST_MINUTES {
            self.executor.sleep(60_000).await;
            self.executor.spawn(Rc::clone(&self).sweep());
            if self.clients.get() > 0 {
                continue;
            }
            if minutes == 0 {
                self.heal();
            }
            minutes += 1;
            let open = "SELECT 1 AS v FROM turns WHERE terminal_at IS NULL
                        UNION ALL SELECT 1 FROM user_heads WHERE run_token IS NOT NULL";
            // Some sweeps have come to their end by then.
            if minutes > 3 && self.sql.database().query(open, &[]).is_empty() {
                break;
            }
        }
        self.at_rest.set(true);
    }

    fn heal(&self) {
        self.healed.set(true);
        self.doomed.borrow_mut().clear();
        self.sql.set_rates(FaultRates::default());
        self.sql.fail_for(0);
        self.queue.set_rates(QueueRates::default());
        self.alarms.set_late(0);
        self.calls.heal();
        self.panics.set(0);
        self.hosts.heal();
    }

    /// The process dies after this many further steps of the world.
    pub fn kill_later(&self, process: Process, after: u64) {
        self.doomed
            .borrow_mut()
            .push((self.executor.steps() + after, Doomed::Process(process)));
    }

    fn kill_the_doomed(&self) {
        let steps = self.executor.steps();
        if !self.doomed.borrow().iter().any(|(at, _)| *at <= steps) {
            return;
        }
        let all = std::mem::take(&mut *self.doomed.borrow_mut());
        let (now, later): (Vec<_>, Vec<_>) = all.into_iter().partition(|(at, _)| *at <= steps);
        *self.doomed.borrow_mut() = later;
        for (_, doomed) in now {
            match doomed {
                Doomed::Objects(user) => self.hosts.kill(user),
                Doomed::Process(process) => process.kill(),
            }
        }
    }

    fn shut_down(&self) {
        self.alarms.shut_down();
        self.queue.shut_down();
        self.hosts.shut_down();
        self.doomed.borrow_mut().clear();
        self.executor.shut_down();
    }
}
