//! Every statement of the outbox with sample values, for the checks of query plans.

use domain::sql::Statement;
use domain::time::Timestamp;

use crate::outbox::purge;

/// All of them; `None` only if a sample id were not valid.
pub fn catalogue() -> Option<Vec<Statement>> {
    let now = Timestamp::from_millis(1_783_728_000_000);
    let mut all = Vec::new();
    all.extend(purge::purge(now, 1));
    Some(all)
}
