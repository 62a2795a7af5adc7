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

    fn add(&self, outcome: &Outcome) {
        self.0.trips.set(self.0.trips.get().saturating_add(1));
        if let Outcome::Committed(results) = outcome {
            let written = results.iter().fold(0_u64, |sum, rows| sum.saturating_add(rows.written));
            self.0
                .rows_written
                .set(self.0.rows_written.get().saturating_add(written));
        }
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

    pub fn costs(&self) -> &Costs {
        &self.costs
    }
}

impl<S: Sql> Sql for CountingSql<S> {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        let outcome = self.inner.batch(shard, statements).await;
        self.costs.add(&outcome);
        outcome
    }
}
