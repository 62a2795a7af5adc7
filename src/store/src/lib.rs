//! Every SQL statement of Hermod and the mapping of its rows, over one port: an atomic batch of statements.
#![cfg_attr(test, allow(clippy::arithmetic_side_effects))]

pub mod channels;
pub mod db;
pub mod directory;
pub mod idempotency;
pub mod keys;
pub mod ledger;
pub mod manifest;
pub mod meta;
pub mod outbox;
pub mod provisioning;
pub mod token;

use domain::ids::InvalidId;
use domain::sql::{Row, RowError, Statement};

/// Every statement that this crate can make, with sample values: what the checks of query plans read.
///
/// `None` only if a sample id were not valid.
pub fn catalogue() -> Option<Vec<Statement>> {
    let modules = [
        channels::catalogue()?,
        keys::catalogue()?,
        ledger::catalogue::catalogue()?,
        outbox::catalogue::catalogue()?,
        provisioning::catalogue()?,
        token::catalogue()?,
    ];
    Some(modules.into_iter().flatten().chain([meta::read()]).collect())
}

/// Reads an id out of a text column.
pub(crate) fn id<T>(row: &Row, column: &str, parse: impl Fn(&str) -> Result<T, InvalidId>) -> Result<T, RowError> {
    parse(row.text(column)?).map_err(|InvalidId| wrong(column, "an id"))
}

pub(crate) fn wrong(column: &str, expected: &'static str) -> RowError {
    RowError {
        column: column.to_owned(),
        expected,
    }
}
