//! A world of channels from one seed: people write to bots, the service answers through its outbox, and everything
//! between them (the provider, the queues, the database, clocks and processes) goes wrong as it pleases.

mod acts;
pub mod arrivals;
mod callers;
mod claims;
mod intake;
pub mod many;
mod operator;
mod oracle;
mod outside;
mod places;
pub mod plan;
pub mod provider;
mod senders;
mod service;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use domain::fence::Fence;
use domain::guard::Guard;
use objects::user_turns::TurnConfig;

use crate::alarm::Alarms;
use crate::executor::{Executor, Process};
use crate::network::{FaultRates, SimSql};
use crate::queue::{QueueRates, SimQueue};
use crate::rng::Rng;
use crate::sqlite::Database;
use crate::world::hosts::Hosts;
use crate::world::model::Calls;
use crate::world::people::People;
use crate::world::record::Report;
use crate::world::watch::Watch;
use arrivals::Update;
use callers::Callers;
use claims::Claims;
use intake::Intake;
use places::{Places, first_token};
use plan::{Act, Manner, Plan, Whom};
use provider::Telegram;

/// More steps than any world needs that comes to rest.
const STEPS_MAX: u64 = 1_000_000;

/// How long after the last trouble everything must have ended; after an outage of hours a message may wait for more than
/// two until it is tried again.
const REST_MINUTES: u32 = 60;
const LONG_REST_MINUTES: u32 = 200;

/// An outage longer than this, in milliseconds, is sat out.
const LONG_OUTAGE: i64 = 60 * 60_000;

/// A condition of the database that is without effect in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    Guard(Guard),
    Fence(Fence),
}

/// The state of one world.
pub struct World {
    executor: Executor,
    sql: SimSql,
    people: Rc<People>,
    places: Rc<Places>,
    telegram: Telegram,
    hosts: Hosts,
    calls: Calls,
    watch: Watch,
    claims: Claims,
    callers: Callers,
    alarms: Alarms,
    /// Orders to run a user's turns, and orders to send.
    jobs: SimQueue,
    sends: SimQueue,
    updates: RefCell<Vec<Update>>,
    doomed: RefCell<Vec<(u64, Doomed)>>,
    /// Who is to die next, and after how many steps.
    marked: RefCell<Vec<(Whom, u32)>>,
    panics: Rc<Cell<u32>>,
    deaths: u32,
    skewed: u32,
    stalls: u32,
    sweeps: u32,
    acks_lost: u32,
    rest_minutes: u32,
    /// Link codes asked for so far.
    codes: Cell<u32>,
    /// Rows that an operator set aside, ended or shortened, by group.
    touched: RefCell<BTreeSet<String>>,
    /// Acts that are still going on.
    busy: Cell<usize>,
    healed: Cell<bool>,
    at_rest: Cell<bool>,
}

enum Doomed {
    Objects(usize),
    Process(Process),
}

/// Lives `plan` through, with a condition of the database without effect if one is named, and checks every rule.
pub fn run(plan: &Plan, dropped: Option<Dropped>) -> Report {
    let world = World::new(plan, dropped);
    for step in &plan.steps {
        let (world, step) = (Rc::clone(&world), step.clone());
        world.busy.set(world.busy.get() + 1);
        world.executor.clone().spawn(async move {
            world.executor.sleep(step.at).await;
            acts::act(Rc::clone(&world), step.act).await;
            world.busy.set(world.busy.get() - 1);
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
    fn new(plan: &Plan, dropped: Option<Dropped>) -> Rc<Self> {
        let executor = Executor::new(Rng::new(plan.seed));
        let database = Database::migrated().without_log();
        match dropped {
            Some(Dropped::Guard(guard)) => database.drop_guards(&BTreeSet::from([guard])),
            Some(Dropped::Fence(fence)) => database.drop_fences(&BTreeSet::from([fence])),
            None => {}
        }
        if let Some(life) = plan.life {
            shorten_lives(&database, life);
        }
        let people = Rc::new(People::settle(&executor, &database, plan.users));
        let places = Rc::new(Places::settle(plan, &executor, &database, &people));
        let telegram = Telegram::new(executor.clone(), plan.provider, plan.slowest);
        for at in 0..plan.gateways() {
            telegram.add_bot(&first_token(at));
        }
        let watch = Watch::without_clients(Rc::clone(&people));
        let sql = SimSql::new(executor.clone(), database);
        sql.set_rates(plan.faults);
        sql.set_slowest(plan.slowest);
        let alarms = Alarms::new(executor.clone());
        let panics = Rc::new(Cell::new(u32::from(plan.deaths > 50) * 15));
        let calls = Calls::new(executor.clone(), plan.model, Rc::clone(&panics));
        let callers = Callers::new();
        let claims = Claims::new(
            Rc::clone(&people),
            Rc::clone(&places),
            telegram.clone(),
            calls.clone(),
            callers.clone(),
            watch.clone(),
        );
        watch_batches(&sql, &watch, &claims, &telegram);
        let (jobs, sends) = (SimQueue::new(executor.clone()), SimQueue::new(executor.clone()));
        jobs.set_rates(plan.queue);
        sends.set_rates(plan.queue);
        let hosts = Hosts::new(
            &executor,
            sql.clone(),
            alarms.clone(),
            calls.clone(),
            sends.clone(),
            Rc::clone(&people),
            TurnConfig::default(),
            Rc::clone(&panics),
        );
        let world = Rc::new(Self {
            executor,
            sql,
            people,
            places,
            telegram,
            hosts,
            calls,
            watch,
            claims,
            callers,
            alarms,
            jobs,
            sends,
            updates: RefCell::default(),
            doomed: RefCell::default(),
            marked: RefCell::default(),
            panics,
            deaths: plan.deaths,
            skewed: plan.skewed,
            stalls: plan.stalls,
            sweeps: plan.sweeps,
            acks_lost: plan.acks_lost,
            rest_minutes: rest_minutes(plan),
            codes: Cell::new(0),
            touched: RefCell::default(),
            busy: Cell::new(0),
            healed: Cell::new(false),
            at_rest: Cell::new(false),
        });
        senders::listen(&world);
        world
    }

    fn epoch(&self) -> i64 {
        let rows = self.sql.database().query("SELECT epoch FROM meta", &[]);
        rows.first()
            .and_then(|row| row.integer("epoch").ok())
            .expect("an epoch")
    }

    /// Whose chat it is now, by the directory.
    fn owner(&self, gateway: usize, chat: &str) -> Option<usize> {
        let sql = "SELECT user_id FROM channel_addresses
                   WHERE gateway_id = ?1 AND external_hash = ?2 AND status = 'active'";
        let hash = self.places.hash(&self.people, gateway, chat);
        let binds = [(&self.places.gateways[gateway].id).into(), hash.into()];
        let rows = self.sql.database().query(sql, &binds);
        let user = rows.first()?.text("user_id").ok()?.to_owned();
        self.people.all.iter().position(|person| person.user.as_str() == user)
    }

    /// How far off the clock of one more process is.
    fn some_skew(&self) -> i64 {
        let rng = self.executor.rng();
        if !self.healed.get() && rng.chance(self.skewed) {
            *rng.pick(&[-90_000, -1_500, 1_500, 90_000])
        } else {
            0
        }
    }

    /// A process that has just begun may die somewhere on its way.
    fn perhaps_kill(&self, whom: Whom, process: &Process) {
        let rng = self.executor.rng();
        let mut marked = self.marked.borrow_mut();
        let after = match marked.iter().position(|(one, _)| *one == whom) {
            Some(at) => Some(marked.remove(at).1),
            None if !self.healed.get() && rng.chance(self.deaths) => Some(rng.below(60) as u32),
            None => None,
        };
        if let Some(after) = after {
            let at = self.executor.steps() + u64::from(after);
            self.doomed.borrow_mut().push((at, Doomed::Process(process.clone())));
        }
    }

    /// Sweeps once a minute, or not, or twice; once nothing more is done to the world, all trouble ends, and after a
    /// while so must everything else.
    async fn come_to_rest(self: Rc<Self>) {
        let mut minutes = 0;
        while minutes < self.rest_minutes {
            self.executor.sleep(60_000).await;
            let odd = !self.healed.get() && self.executor.rng().chance(self.sweeps);
            let sweeps = if odd { 2 * self.executor.rng().below(2) } else { 1 };
            for _ in 0..sweeps {
                self.executor.spawn(senders::sweep(Rc::clone(&self)));
            }
            // Where nothing is wrong any more, the outside sender comes by as well.
            if self.healed.get() {
                self.executor.spawn(outside::fetch(Rc::clone(&self), Manner::Honest));
            }
            if self.busy.get() > 0 {
                continue;
            }
            if minutes == 0 {
                self.heal();
            }
            minutes += 1;
            if minutes > 3 && self.is_quiet() {
                break;
            }
        }
        self.at_rest.set(true);
    }

    fn is_quiet(&self) -> bool {
        let open = "SELECT 1 AS v FROM turns WHERE terminal_at IS NULL
                    UNION ALL SELECT 1 FROM user_heads WHERE run_token IS NOT NULL
                    UNION ALL SELECT 1 FROM outbound_messages WHERE terminal_at IS NULL AND status <> 'quarantined'";
        self.updates.borrow().iter().all(|update| update.acked) && self.sql.database().query(open, &[]).is_empty()
    }

    fn heal(&self) {
        self.healed.set(true);
        self.doomed.borrow_mut().clear();
        self.sql.set_rates(FaultRates::default());
        self.sql.fail_for(0);
        self.jobs.set_rates(QueueRates::default());
        self.sends.set_rates(QueueRates::default());
        self.telegram.heal();
        self.calls.heal();
        self.panics.set(0);
        self.hosts.heal();
        operator::mend_everything(self);
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
        self.jobs.shut_down();
        self.sends.shut_down();
        self.telegram.shut_down();
        self.hosts.shut_down();
        self.doomed.borrow_mut().clear();
        self.executor.shut_down();
    }
}

fn rest_minutes(plan: &Plan) -> u32 {
    let is_long = |act: &Act| matches!(act, Act::ProviderOutage { millis, .. } if *millis > LONG_OUTAGE);
    if plan.steps.iter().any(|step| is_long(&step.act)) {
        LONG_REST_MINUTES
    } else {
        REST_MINUTES
    }
}

/// Every message is worth sending for so many milliseconds only, as those are that have a time of their own.
fn shorten_lives(database: &Database, millis: i64) {
    database.execute(&format!(
        "CREATE TRIGGER short_life AFTER INSERT ON outbound_messages BEGIN
           UPDATE outbound_messages SET expires_at = NEW.created_at + {millis} WHERE outbox_id = NEW.outbox_id;
         END"
    ));
}

fn watch_batches(sql: &SimSql, watch: &Watch, claims: &Claims, telegram: &Telegram) {
    let (turns, outbox, intake) = (watch.clone(), claims.clone(), Intake::new(watch.clone()));
    sql.watch(Box::new(move |database, batch, outcome, caller| {
        turns.look(database, batch, outcome);
        if matches!(outcome, domain::sql::Outcome::Committed(_)) {
            outbox.look(database, batch, caller);
            intake.look(database, batch);
        }
    }));
    let (sql, claims) = (sql.clone(), claims.clone());
    telegram.on_send(Box::new(move |number| claims.sending(sql.database(), number)));
}
