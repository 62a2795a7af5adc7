//! What a request costs in the database: round trips and rows written.

use std::cell::Cell;
use std::rc::Rc;

use domain::ports::Sql;
use domain::sql::{Outcome, Shard, Statement};

/// Running totals, shared by everything that works for one request.
#[derive(Debug, Clone, Default)]
pub struct Costs(Rc<Totals>);

#[derive(Debug, Default)]
struct Totals {
    trips: Cell<u64>,
    rows_written: Cell<u64>,
}

impl Costs {
    /// Batches sent to the database.
    pub fn trips(&self) -> u64 {
        self.0.trips.get()
    }

    /// Rows written as the database bills them, index entries included.
    pub fn rows_written(&self) -> u64 {
        self.0.rows_written.get()
    }

    /// Adds what another part of the service, such as the user's object, spent on this request.
    pub fn add(&self, trips: u64, rows_written: u64) {
        self.0.trips.set(self.0.trips.get().saturating_add(trips));
        let rows = self.0.rows_written.get().saturating_add(rows_written);
        self.0.rows_written.set(rows);
    }

    fn observe(&self, outcome: &Outcome) {
        let written = match outcome {
            Outcome::Committed(results) => results.iter().fold(0_u64, |sum, rows| sum.saturating_add(rows.written)),
            Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => 0,
        };
        self.add(1, written);
    }
}

/// A database that keeps count.
#[derive(Debug, Clone)]
pub struct CountingSql<S> {
    inner: S,
    costs: Costs,
}

impl<S> CountingSql<S> {
    pub fn new(inner: S, costs: Costs) -> Self {
        Self { inner, costs }
    }
}

impl<S: Sql> Sql for CountingSql<S> {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        let outcome = self.inner.batch(shard, statements).await;
        self.costs.observe(&outcome);
        outcome
    }
}
