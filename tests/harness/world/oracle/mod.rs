//! The rules that are checked once a world has come to rest, from the ledger and from what its clients saw.

mod clients;
pub mod ledger;

use std::collections::BTreeMap;

use crate::world::World;
use crate::world::plan::{Act, Plan};
use crate::world::record::Report;

/// What the ledger holds of one turn at the end.
pub struct Turn {
    pub id: String,
    pub user: usize,
    pub key_hash: String,
    pub channel: String,
    pub gateway: Option<String>,
    pub request_hash: String,
    pub conversation: String,
    pub session: String,
    pub arrival: i64,
    pub status: String,
    pub error: Option<String>,
    pub model_calls: i64,
    pub shown: bool,
    pub revision_read: i64,
    pub revision_written: Option<i64>,
    pub accepted_at: i64,
    /// What the user said.
    pub question: String,
    /// The answer, when one is stored.
    pub answer: Option<String>,
    /// Event type and call number, in order.
    pub events: Vec<(String, Option<i64>)>,
}

/// Judges a world at rest.
pub fn judge(world: &World, plan: &Plan) -> Report {
    let ledger = ledger::Ledger {
        database: world.sql.database(),
        people: &world.people,
        calls: &world.calls,
        watch: &world.watch,
    };
    let turns = ledger::read(&ledger);
    if plan.steps.iter().all(|step| !matches!(step.act, Act::Skew { .. })) {
        clients::answered_in_time(world);
    }
    ledger::check(&ledger, &turns);
    clients::check(world, &turns);
    let mut report = Report {
        seed: plan.seed,
        turns: turns.len(),
        ..Report::default()
    };
    let mut endings: BTreeMap<String, u64> = BTreeMap::new();
    for turn in &turns {
        let ending = match &turn.error {
            Some(code) => format!("{} {code}", turn.status),
            None => turn.status.clone(),
        };
        *endings.entry(ending).or_default() += 1;
    }
    report.turn_endings = endings;
    report.count_attempts(&world.attempts.borrow());
    report.refusals = world.watch.refusals();
    report.model_calls = world.calls.all().len();
    report.killed = world.hosts.killed();
    report.batches = world.sql.batches();
    report.steps = world.executor.steps();
    report.violations = world.watch.violations();
    report
}
