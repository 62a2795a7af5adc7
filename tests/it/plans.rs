//! The query plan of every statement that the store can make.
//!
//! A statement may search by a key or an index; walking through a whole table or index needs a reason here.

use std::collections::{BTreeMap, BTreeSet};

use domain::fence::Fence;
use domain::guard::Guard;
use domain::sql::{PARAMETERS_MAX, Refusal, Shard, Statement};
use harness::sqlite::Database;
use store::manifest::{Placement, tables};

/// Statements that may walk, by name and what they walk through, and why that stays small.
const WALKS: &[(&str, &str, &str)] = &[
    ("open_conversation", "sessions", OUTSTANDING),
    ("end_untaken", "t", OPEN_TURNS),
    ("end_untaken_events", "t", OPEN_TURNS),
    ("await_delivery", "q", ONE_ROW),
    ("await_delivery_event", "q", ONE_ROW),
    ("funnel_unanswered", "s", ONE_ROW),
    ("funnel_unanswered", "t", OPEN_TURNS),
    ("funnel_unwritten", "s", ONE_ROW),
    ("funnel_unwritten", "t", OPEN_TURNS),
    ("funnel_undelivered", "m", OPEN_ROWS),
    ("funnel_undelivered", "s", ONE_ROW),
    ("funnel_quarantined", "m", OPEN_ROWS),
    ("funnel_broken_gateways", "g", GATEWAYS),
];

/// Part of the program that checks foreign keys; it is jumped over while no constraint is violated.
const OUTSTANDING: &str = "runs only while a foreign key is violated, and none ever is between statements";
/// The partial index of turns that have not ended and wait for no delivery.
const OPEN_TURNS: &str = "walks only turns that are still open, through their partial index";
/// What a statement gathers for itself.
const ONE_ROW: &str = "walks through what the statement itself has just gathered";
/// A partial index of the outbox.
const OPEN_ROWS: &str = "walks only rows that have not ended, through their partial index";
/// The gateways.
const GATEWAYS: &str = "operators set gateways up one by one, so there are few";

/// Statements that read the directory and a user's shard at once, which only one database for both allows. Each
/// becomes two reads when a second shard is opened. Of the batches of a turn only a channel's first two have any: who
/// its sender is, is not known before.
const MIXES: &[&str] = &[
    "bump_user_of_replaced_identity",
    "conversation_of_sender",
    "key_of_link_code",
    "key_of_sender",
    "line_of_sender",
    "link_code",
    "link_code_live",
    "put_address",
    "sender_current",
    "user_of_identity",
    "user_of_sender",
];

/// Statements of the outbox that must see the gateway or the address at the very instant in which they change or take
/// a row. A second shard needs those tables, or their gateways, beside its rows.
const MIXES_OF_SENDS: &[&str] = &[
    "break_gateway",
    "cancel_unauthorized",
    "cancel_unauthorized_attempts",
    "cancel_unauthorized_events",
    "claimed_rows",
    "disable_addresses",
    "due_gateways_before",
    "due_gateways_behind",
    "end_attempts",
    "end_rows",
    "end_rows_events",
    "enqueue_notice_of_turn",
    "enqueue_notice_to_address",
    "enqueue_reply",
    "enter_lane_of_notice",
    "enter_lane_of_turn",
    "keep_lane_of_turn",
    "move_address",
    "next_due",
    "outside_held",
    "renew_lease",
    "take_due",
    "unauthorized_rows",
];

fn catalogue() -> Vec<Statement> {
    store::catalogue().expect("valid sample ids")
}

/// What a step walks through, if it walks through a table or an index of one.
fn walked(step: &str) -> Option<&str> {
    let rest = step.strip_prefix("SCAN ")?;
    let name = rest.split(' ').next()?;
    // Constant rows, the guard view's new row, and lists that came in as a parameter.
    let harmless = rest.contains("CONSTANT ROW") || rest.contains("VIRTUAL TABLE") || name.starts_with('(');
    (!harmless).then_some(name)
}

#[test]
fn no_statement_walks_through_a_table_without_a_stated_reason() {
    let database = Database::migrated();
    let mut used = BTreeSet::new();
    let mut walks = Vec::new();
    for statement in catalogue() {
        for step in database.plan(statement.sql) {
            let Some(name) = walked(&step) else { continue };
            match WALKS
                .iter()
                .find(|(allowed, through, _)| (*allowed, *through) == (statement.name, name))
            {
                Some((allowed, through, _)) => {
                    used.insert((*allowed, *through));
                }
                None => walks.push(format!("{}: {step}", statement.name)),
            }
        }
    }
    assert_eq!(walks, Vec::<String>::new());
    let stale: Vec<_> = WALKS
        .iter()
        .filter(|(name, through, _)| !used.contains(&(*name, *through)))
        .collect();
    assert_eq!(stale, Vec::<&(&str, &str, &str)>::new(), "no longer needed");
}

#[test]
fn no_statement_builds_an_index_on_the_fly() {
    let database = Database::migrated();
    for statement in catalogue() {
        let plan = database.plan(statement.sql);
        assert!(
            !plan.iter().any(|step| step.contains("AUTOMATIC")),
            "{}: {plan:?}",
            statement.name
        );
    }
}

#[test]
fn every_statement_runs_with_its_sample_values() {
    for statement in catalogue() {
        assert!(statement.binds.len() <= PARAMETERS_MAX, "{}", statement.name);
        let outcome = Database::migrated().run(Shard::Directory, std::slice::from_ref(&statement));
        let malformed = domain::sql::Outcome::Refused(Refusal::Malformed);
        assert_ne!(outcome, malformed, "{}: {}", statement.name, statement.sql);
    }
}

#[test]
fn every_statement_in_the_source_is_in_the_catalogue() {
    let known: BTreeSet<&str> = catalogue().iter().map(|statement| statement.name).collect();
    let mut missing = Vec::new();
    for (path, text) in crate::tidy::sources("src/store/src") {
        for line in text.lines() {
            let named = line
                .trim()
                .strip_prefix("name: ")
                .and_then(|rest| rest.strip_suffix(','));
            let Some(name) = named.and_then(|rest| rest.strip_prefix('"')?.strip_suffix('"')) else {
                continue;
            };
            if !path.contains("/manifest/") && !known.contains(name) {
                missing.push(format!("{path}: {name}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn every_guard_stands_in_the_catalogue_under_its_own_name() {
    let labels: BTreeSet<&str> = Guard::ALL.iter().map(|guard| guard.label()).collect();
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let all = catalogue();
    for statement in all.iter().filter(|statement| statement.sql.contains("INTO must")) {
        let label = statement.sql.split('\'').nth(1).unwrap_or("");
        found.entry(label).or_default().insert(statement.name);
    }
    assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), labels);
    for (label, names) in found {
        assert_eq!(names, BTreeSet::from([label]), "a guard is named as its label");
    }
}

#[test]
fn every_fence_stands_on_a_line_of_its_own_in_the_claim() {
    let all = catalogue();
    let claim = all
        .iter()
        .find(|statement| statement.name == "take_due")
        .expect("the claim");
    for fence in Fence::ALL {
        let end = format!(" -- fence: {}", fence.label());
        let lines: Vec<&str> = claim.sql.lines().filter(|line| line.ends_with(&end)).collect();
        assert_eq!(lines.len(), 1, "{}", fence.label());
        assert!(lines[0].trim_start().starts_with("AND "), "{}", lines[0]);
    }
    let said = claim.sql.matches("-- fence: ").count();
    assert_eq!(said, Fence::ALL.len());
}

#[test]
fn no_statement_mixes_the_directory_with_a_shard() {
    let placed = |statement: &Statement, wanted: fn(Placement) -> bool| {
        let words: BTreeSet<&str> = statement
            .sql
            .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
            .collect();
        tables().any(|table| words.contains(table.name) && wanted(table.placement))
    };
    let mixed: BTreeSet<&str> = catalogue()
        .iter()
        .filter(|statement| placed(statement, |place| place == Placement::Directory))
        .filter(|statement| placed(statement, |place| matches!(place, Placement::Shard(_))))
        .map(|statement| statement.name)
        .collect();
    let allowed = MIXES.iter().chain(MIXES_OF_SENDS).copied();
    assert_eq!(mixed, allowed.collect::<BTreeSet<_>>());
}
