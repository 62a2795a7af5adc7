//! The rules that are checked once a world of channels has come to rest: from what the provider took, what was written
//! to the bots, and what the database holds.

mod rows;
mod updates;

use std::collections::BTreeMap;

use super::World;
use super::plan::Plan;
use crate::world::oracle::ledger::{self, Ledger};
use crate::world::record::Report;

/// Judges a world at rest.
pub fn judge(world: &World, plan: &Plan) -> Report {
    let ledger = Ledger {
        database: world.sql.database(),
        people: &world.people,
        calls: &world.calls,
        watch: &world.watch,
    };
    let turns = ledger::read(&ledger);
    ledger::check(&ledger, &turns);
    let rows = rows::read(world);
    rows::check(world, &rows);
    rows::check_turns(world, &rows, &turns);
    rows::check_provider(world, plan, &rows);
    updates::check(world, plan, &turns);
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
    // How rows and attempts ended stands where other worlds have how requests ended.
    for row in &rows {
        *report
            .request_endings
            .entry(format!("row {}", row.ending()))
            .or_default() += 1;
        for attempt in &row.attempts {
            *report
                .request_endings
                .entry(format!("attempt {}", attempt.ending()))
                .or_default() += 1;
        }
    }
    for update in world.updates.borrow().iter() {
        let disposition = updates::disposition(world, update).unwrap_or_else(|| "lost".to_owned());
        *report
            .request_endings
            .entry(format!("update {disposition}"))
            .or_default() += 1;
    }
    report.refusals = world.watch.refusals();
    report.model_calls = world.calls.all().len();
    report.killed = world.hosts.killed();
    report.batches = world.sql.batches();
    report.steps = world.executor.steps();
    report.violations = world.watch.violations();
    report
}
