//! Writes whose reply does not come, resolved by reading back.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use domain::guard::Guard;
use domain::ports::{Clock, Sql};
use domain::sql::{Outcome, Rows, Shard, Statement};
use store::db::{Db, DbError};

use super::{integer, run, statement, value};
use crate::Report;

/// What becomes of a write whose caller is told nothing.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Committed,
    NeverRan,
    /// It commits while the caller is trying again.
    CommitsLate,
}

/// A database that loses the reply to one write.
struct Losing<'a, S> {
    inner: &'a S,
    fate: Cell<Option<Fate>>,
    late: Cell<Option<Vec<Statement>>>,
    /// What each write came to in truth.
    writes: RefCell<Vec<bool>>,
}

impl<'a, S: Sql> Losing<'a, S> {
    fn new(inner: &'a S, fate: Option<Fate>) -> Self {
        Self {
            inner,
            fate: Cell::new(fate),
            late: Cell::default(),
            writes: RefCell::default(),
        }
    }

    async fn write(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        let outcome = self.inner.batch(shard, statements).await;
        self.writes.borrow_mut().push(matches!(outcome, Outcome::Committed(_)));
        outcome
    }
}

impl<S: Sql> Sql for Losing<'_, S> {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        if statements.iter().all(|statement| statement.sql.starts_with("SELECT")) {
            return self.inner.batch(shard, statements).await;
        }
        if let Some(late) = self.late.take() {
            self.write(shard, late).await;
        }
        match self.fate.take() {
            None => return self.write(shard, statements).await,
            Some(Fate::NeverRan) => {}
            Some(Fate::CommitsLate) => self.late.set(Some(statements)),
            Some(Fate::Committed) => {
                self.write(shard, statements).await;
            }
        }
        Outcome::Unknown
    }
}

/// Runs the checks on a database that has all migrations. Uses a table of its own named `conformance_lost`.
pub async fn read_back(sql: &impl Sql, clock: &impl Clock) -> Report {
    let mut report = Report::default();
    run(sql, "DROP TABLE IF EXISTS conformance_lost", vec![]).await;
    let create = "CREATE TABLE conformance_lost (k TEXT PRIMARY KEY) STRICT, WITHOUT ROWID";
    let created = run(sql, create, vec![]).await;
    report.that(
        format!("sql: {create}"),
        matches!(created, Outcome::Committed(_)),
        created,
    );
    let cases = [
        ("a write that is answered", None, Ok("answered"), vec![true]),
        (
            "a reply lost after the commit",
            Some(Fate::Committed),
            Ok("read back"),
            vec![true],
        ),
        (
            "a write that never ran",
            Some(Fate::NeverRan),
            Ok("answered"),
            vec![true],
        ),
        (
            "a commit that comes late",
            Some(Fate::CommitsLate),
            Ok("read back"),
            vec![true, false],
        ),
    ];
    for (name, fate, wanted, writes) in cases {
        let losing = Losing::new(sql, fate);
        report.equal(
            format!("sql: {name}: result"),
            write(&losing, clock, name).await,
            wanted,
        );
        report.equal(
            format!("sql: {name}: writes that committed"),
            losing.writes.into_inner(),
            writes,
        );
    }
    let again = write(&Losing::new(sql, None), clock, "a reply lost after the commit").await;
    report.equal(
        "sql: the same key later is refused by its guard",
        again,
        Err(DbError::Refused(Guard::KeyUnused)),
    );
    let count = value(sql, "SELECT count(*) AS v FROM conformance_lost", vec![]).await;
    report.equal("sql: each key was written once", count, Some(integer(4)));
    run(sql, "DROP TABLE conformance_lost", vec![]).await;
    report
}

/// Writes a row under `key`, which must not have been used.
async fn write(sql: &impl Sql, clock: &impl Clock, key: &str) -> Result<&'static str, DbError> {
    const MUST: &str = "INSERT INTO must(label, ok) SELECT 'key_unused', NOT EXISTS \
                        (SELECT 1 FROM conformance_lost WHERE k = ?1)";
    let bound = |text| statement(text, vec![key.into()]);
    Db::new(sql, clock, Rc::default())
        .write(
            Shard::Directory,
            vec![bound(MUST), bound("INSERT INTO conformance_lost (k) VALUES (?1)")],
            |_| Ok("answered"),
            vec![bound("SELECT k FROM conformance_lost WHERE k = ?1")],
            |rows| Ok(rows.first().and_then(Rows::first).map(|_| "read back")),
        )
        .await
}
