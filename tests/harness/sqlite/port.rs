//! The database behind the [`Sql`] port for plain tests: no delays, faults on demand.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Deref;
use std::rc::Rc;

use domain::fence::Fence;
use domain::guard::Guard;
use domain::ports::Sql;
use domain::sql::{NotStarted, Outcome, Shard, Statement};

use super::database::Database;

/// What happens to one batch on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It runs and its answer arrives.
    None,
    /// It does not run, and the caller knows: the database could not be reached.
    Unreachable,
    /// It does not run, and the caller knows: the database is overloaded.
    Overloaded,
    /// It does not run, and the caller does not know that.
    RequestLost,
    /// It runs, and the caller does not know that.
    ReplyLost,
}

impl Fault {
    /// Runs `statements` on `database` as this fault has it.
    pub fn run(self, database: &Database, shard: Shard, statements: &[Statement]) -> Outcome {
        match self {
            Self::None => database.run(shard, statements),
            Self::Unreachable => Outcome::NotStarted(NotStarted::Unavailable),
            Self::Overloaded => Outcome::NotStarted(NotStarted::Overloaded),
            Self::RequestLost => Outcome::Unknown,
            Self::ReplyLost => {
                database.run(shard, statements);
                Outcome::Unknown
            }
        }
    }
}

/// A migrated, metered database behind the [`Sql`] port. Clones share it.
#[derive(Clone)]
pub struct TestSql {
    database: Rc<Database>,
    faults: Rc<RefCell<VecDeque<Fault>>>,
}

impl TestSql {
    /// A fresh database with every migration applied.
    pub fn new() -> Self {
        Self::over(Database::migrated().metered())
    }

    pub fn over(database: Database) -> Self {
        Self {
            database: Rc::new(database),
            faults: Rc::default(),
        }
    }

    /// The next batches meet these faults, one each.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.borrow_mut().extend(faults);
    }

    /// From now on this guard alone holds whatever its condition says.
    pub fn drop_guard(&self, guard: Guard) {
        self.database.drop_guards(&BTreeSet::from([guard]));
    }

    /// From now on this fence alone holds whatever its condition says.
    pub fn drop_fence(&self, fence: Fence) {
        self.database.drop_fences(&BTreeSet::from([fence]));
    }
}

impl Default for TestSql {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for TestSql {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.database
    }
}

impl Sql for TestSql {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        let fault = self.faults.borrow_mut().pop_front().unwrap_or(Fault::None);
        fault.run(&self.database, shard, &statements)
    }
}
