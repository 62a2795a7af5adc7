//! The database: one atomic batch at a time.

mod batches;
mod read_back;
mod values;

pub use read_back::read_back;

use domain::ports::Sql;
use domain::sql::{Outcome, Row, Shard, Statement, Value};

use crate::Report;

/// Runs every check on a database that has all migrations. Uses tables of its own named `conformance_…`.
pub async fn suite(sql: &impl Sql) -> Report {
    let mut report = Report::default();
    let scratch = [
        "DROP TABLE IF EXISTS conformance_values",
        "CREATE TABLE conformance_values (id INTEGER PRIMARY KEY, n INTEGER, t TEXT, b BLOB) STRICT",
        "DROP TABLE IF EXISTS conformance_keys",
        "CREATE TABLE conformance_keys (k TEXT PRIMARY KEY, v INTEGER NOT NULL CHECK (v >= 0)) STRICT, WITHOUT ROWID",
        "CREATE INDEX conformance_keys_v ON conformance_keys (v)",
    ];
    for create in scratch {
        let outcome = run(sql, create, vec![]).await;
        report.that(
            format!("sql: {create}"),
            matches!(outcome, Outcome::Committed(_)),
            outcome,
        );
    }
    values::checks(sql, &mut report).await;
    batches::checks(sql, &mut report).await;
    for table in ["DROP TABLE conformance_values", "DROP TABLE conformance_keys"] {
        run(sql, table, vec![]).await;
    }
    report
}

/// Runs every batch and hides that it did: the reply that is lost after the commit.
pub struct DropReply<'a, S>(pub &'a S);

impl<S: Sql> Sql for DropReply<'_, S> {
    async fn batch(&self, shard: Shard, statements: Vec<Statement>) -> Outcome {
        self.0.batch(shard, statements).await;
        Outcome::Unknown
    }
}

fn statement(sql: &'static str, binds: Vec<Value>) -> Statement {
    Statement {
        name: "conformance",
        sql,
        binds,
    }
}

async fn run(sql: &impl Sql, text: &'static str, binds: Vec<Value>) -> Outcome {
    sql.batch(Shard::Directory, vec![statement(text, binds)]).await
}

/// The rows of a single statement; none when it did not commit.
async fn rows(sql: &impl Sql, text: &'static str, binds: Vec<Value>) -> Vec<Row> {
    match run(sql, text, binds).await {
        Outcome::Committed(results) => results.into_iter().next().map(|rows| rows.rows).unwrap_or_default(),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => Vec::new(),
    }
}

/// The column `v` of the first row.
async fn value(sql: &impl Sql, text: &'static str, binds: Vec<Value>) -> Option<Value> {
    rows(sql, text, binds)
        .await
        .first()
        .and_then(|row| row.value("v").ok().cloned())
}

fn integer(value: i64) -> Value {
    Value::integer(value).unwrap_or(Value::Null)
}
