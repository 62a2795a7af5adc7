//! The suites of the ports on the native stand-ins.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use conformance::Report;
use conformance::object::{Ask, Notes, Objects, Specimen};
use conformance::queue::{FAIL_ONCE, Inbox};
use domain::ports::Clock;
use domain::sql::Outcome;
use domain::time::{Millis, Timestamp};
use harness::alarm::{Alarms, ObjectAlarm};
use harness::block_on;
use harness::executor::{Executor, Process, SimClock};
use harness::network::SimSql;
use harness::queue::{QueueRates, SimQueue};
use harness::rng::Rng;
use harness::sqlite::{Database, Fault, TestSql};

#[track_caller]
fn holds(report: &Report, at_least: usize) {
    assert_eq!(report.failures(), Vec::<&conformance::Check>::new());
    assert!(report.0.len() >= at_least, "only {} checks ran", report.0.len());
}

#[test]
fn the_plain_database() {
    holds(&block_on(conformance::sql::suite(&TestSql::new())), 80);
}

#[test]
fn the_database_behind_the_simulated_network() {
    let executor = Executor::new(Rng::new(1));
    let sql = SimSql::new(executor.clone(), Database::migrated().metered());
    holds(
        &executor.block_on(async move { conformance::sql::suite(&sql).await }),
        80,
    );
}

#[test]
fn lost_replies_are_read_back() {
    let executor = Executor::new(Rng::new(1));
    let clock = executor.process().clock();
    let sql = SimSql::new(executor.clone(), Database::migrated().metered());
    let report = executor.block_on(async move { conformance::sql::read_back(&sql, &clock).await });
    holds(&report, 11);
}

#[test]
fn a_reply_lost_by_the_fault_hook() {
    let sql = TestSql::new();
    let insert = || domain::sql::Statement {
        name: "insert_family",
        sql: "INSERT INTO families VALUES ('family_00a', 'active', 1, 1)",
        binds: vec![],
    };
    sql.fail_next([Fault::ReplyLost]);
    let send = || {
        block_on(domain::ports::Sql::batch(
            &sql,
            domain::sql::Shard::Directory,
            vec![insert()],
        ))
    };
    assert_eq!(send(), Outcome::Unknown);
    assert_eq!(sql.query("SELECT family_id FROM families", &[]).len(), 1);
}

#[test]
fn the_simulated_clock() {
    let executor = Executor::new(Rng::new(1));
    let clock = executor.process().clock();
    holds(
        &executor.block_on(async move { conformance::clock::suite(&clock).await }),
        4,
    );
}

#[test]
fn the_seeded_entropy() {
    holds(&conformance::entropy::suite(&Rng::new(1)), 2);
}

#[derive(Clone)]
struct Deliveries(Rc<RefCell<Vec<(String, Timestamp)>>>);

impl Inbox for Deliveries {
    async fn deliveries(&self) -> Vec<(String, Timestamp)> {
        self.0.borrow().clone()
    }
}

#[test]
fn the_simulated_queue() {
    let executor = Executor::new(Rng::new(1));
    let queue = SimQueue::new(executor.clone());
    queue.set_rates(QueueRates {
        doubled: 500,
        ..QueueRates::default()
    });
    let clock = SimClock::exact(&executor);
    let inbox = Deliveries(Rc::default());
    let (seen, failed, at) = (inbox.clone(), RefCell::new(BTreeSet::new()), clock.clone());
    queue.on_message(Rc::new(move |body| {
        seen.0.borrow_mut().push((body.clone(), at.now()));
        let acknowledged = !body.starts_with(FAIL_ONCE) || !failed.borrow_mut().insert(body);
        Box::pin(async move { acknowledged })
    }));
    let sender = queue.clone();
    let report = executor.block_on(async move { conformance::queue::suite(&sender, &inbox, &clock, "1").await });
    holds(&report, 8);
    queue.shut_down();
}

type Copy = Rc<Specimen<SimClock, ObjectAlarm>>;

/// A platform for specimens: each process makes its own copy of an object on first use.
#[derive(Clone)]
struct Platform {
    alarms: Alarms,
    process: Rc<RefCell<Process>>,
    copies: Rc<RefCell<BTreeMap<String, Copy>>>,
}

impl Platform {
    fn new(executor: &Executor) -> Self {
        let platform = Self {
            alarms: Alarms::new(executor.clone()),
            process: Rc::new(RefCell::new(executor.process())),
            copies: Rc::default(),
        };
        let mine = platform.clone();
        platform.alarms.on_due(Rc::new(move |name| {
            let (copy, process) = (mine.copy(&name), mine.process.borrow().clone());
            Box::pin(async move { process.call(async move { copy.alarm().await }).await.is_some() })
        }));
        platform
    }

    fn copy(&self, name: &str) -> Copy {
        let clock = self.process.borrow().clock();
        let make = || Rc::new(Specimen::new(clock.clone(), self.alarms.of(name, clock.clone())));
        Rc::clone(self.copies.borrow_mut().entry(name.to_owned()).or_insert_with(make))
    }

    fn restart(&self) {
        let old = self.process.borrow().clone();
        old.kill();
        self.copies.borrow_mut().clear();
        *self.process.borrow_mut() = old.executor().process();
    }
}

impl Objects for Platform {
    async fn ask(&self, object: &str, ask: Ask) -> Option<Notes> {
        let (copy, process) = (self.copy(object), self.process.borrow().clone());
        process.call(async move { copy.ask(ask).await }).await
    }
}

#[test]
fn the_simulated_objects() {
    let executor = Executor::new(Rng::new(1));
    let (platform, clock) = (Platform::new(&executor), SimClock::exact(&executor));
    let objects = platform.clone();
    holds(
        &executor.block_on(async move { conformance::object::suite(&objects, &clock, "1").await }),
        4,
    );
    platform.alarms.shut_down();
}

#[test]
fn a_restart_loses_memory_and_keeps_alarms() {
    let executor = Executor::new(Rng::new(1));
    let (platform, clock) = (Platform::new(&executor), SimClock::exact(&executor));
    let (objects, at) = (platform.clone(), clock.clone());
    let ahead = Millis::new(5_000);
    let before = async move { conformance::object::before_restart(&objects, &at, "o", ahead).await };
    holds(&executor.block_on(before), 2);
    platform.restart();
    let objects = platform.clone();
    let patience = Millis::from_mins(2);
    let after = async move { conformance::object::after_restart(&objects, &clock, "o", patience).await };
    holds(&executor.block_on(after), 1);
    platform.alarms.shut_down();
}

#[test]
fn two_copies_of_one_object_know_nothing_of_each_other_but_share_the_alarm() {
    let executor = Executor::new(Rng::new(1));
    let (platform, clock) = (Platform::new(&executor), SimClock::exact(&executor));
    let first = platform.copy("o");
    platform.copies.borrow_mut().clear();
    let second = platform.copy("o");
    let due = clock.now().plus(Millis::from_secs(1));
    let (one, two) = (Rc::clone(&first), Rc::clone(&second));
    executor.block_on(async move {
        one.ask(Ask::Work {
            name: "one".to_owned(),
            millis: 1,
        })
        .await;
        one.ask(Ask::Alarm {
            at: due.plus(Millis::from_mins(1)),
        })
        .await;
        two.ask(Ask::Alarm { at: due }).await;
        clock.sleep(Millis::from_mins(3)).await;
    });
    let notes = |copy: &Copy| {
        let notes = block_on(copy.ask(Ask::Notes));
        notes.into_iter().map(|(text, _)| text).collect::<Vec<_>>()
    };
    assert_eq!(notes(&first), ["start:one", "end:one"]);
    assert_eq!(notes(&second), ["alarm"]);
    assert_eq!(platform.alarms.due("o"), None);
    platform.alarms.shut_down();
}
