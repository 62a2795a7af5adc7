use std::collections::BTreeSet;

use domain::guard::Guard;
use domain::ports::Sql;
use domain::sql::{NotStarted, Outcome, Refusal, Shard, Statement, Value};

use super::{BatchRecord, Database, Fault, TestSql, Verdict};
use crate::block_on;

fn statement(sql: &'static str, binds: Vec<Value>) -> Statement {
    Statement {
        name: "test",
        sql,
        binds,
    }
}

fn integer(value: i64) -> Value {
    Value::integer(value).expect("a safe integer")
}

fn run(database: &Database, sql: &'static str, binds: Vec<Value>) -> Outcome {
    database.run(Shard::Directory, &[statement(sql, binds)])
}

#[test]
fn the_bundled_sqlite_opens_the_guard_trigger() {
    assert!(rusqlite::version_number() >= 3_047_000, "{}", rusqlite::version());
}

#[test]
fn rows_written_count_index_entries() {
    let database = Database::empty();
    database.execute(
        "CREATE TABLE plain (id INTEGER PRIMARY KEY, a TEXT, b TEXT) STRICT;
         CREATE INDEX plain_a ON plain (a);
         CREATE INDEX plain_open ON plain (b) WHERE a IS NULL;
         CREATE TABLE keyed (k TEXT PRIMARY KEY, v TEXT) STRICT, WITHOUT ROWID;
         CREATE UNIQUE INDEX keyed_v ON keyed (v);",
    );
    let database = database.metered();
    let written = |sql: &'static str| match run(&database, sql, vec![]) {
        Outcome::Committed(all) => all.iter().map(|rows| rows.written).sum::<u64>(),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => panic!("{sql}"),
    };
    assert_eq!(
        written("INSERT INTO plain VALUES (1, 'x', 'y')"),
        2,
        "row and plain_a, not the partial index"
    );
    assert_eq!(written("INSERT INTO plain VALUES (2, NULL, 'y')"), 3);
    assert_eq!(written("UPDATE plain SET b = 'z' WHERE id = 1"), 1);
    assert_eq!(written("UPDATE plain SET b = 'z' WHERE id = 2"), 2);
    assert_eq!(written("INSERT INTO keyed VALUES ('k', 'v')"), 2);
    assert_eq!(written("UPDATE keyed SET v = 'w' WHERE k = 'k'"), 2);
    assert_eq!(
        written("INSERT INTO keyed VALUES ('k', 'u') ON CONFLICT (k) DO UPDATE SET v = excluded.v"),
        2
    );
    assert_eq!(written("DELETE FROM keyed WHERE k = 'k'"), 1);
    assert_eq!(written("SELECT 1"), 0);
}

#[test]
fn a_dropped_guard_lets_its_batch_through_and_no_other() {
    let database = Database::migrated();
    let must = |label: &'static str| {
        run(
            &database,
            "INSERT INTO must (label, ok) SELECT ?1, 0",
            vec![Value::from(label)],
        )
    };
    assert_eq!(
        must("token_current"),
        Outcome::Refused(Refusal::Guard(Guard::TokenCurrent))
    );
    database.drop_guards(&BTreeSet::from([Guard::TokenCurrent]));
    assert!(matches!(must("token_current"), Outcome::Committed(_)));
    assert_eq!(must("key_live"), Outcome::Refused(Refusal::Guard(Guard::KeyLive)));
    assert_eq!(must("nonsense"), Outcome::Refused(Refusal::Malformed));
}

#[test]
fn faults_tell_what_the_caller_knows() {
    let sql = TestSql::new();
    let insert = || {
        statement(
            "INSERT INTO families VALUES ('family_00a', 'active', ?1, ?1)",
            vec![integer(7)],
        )
    };
    let count = || {
        sql.query("SELECT count(*) AS n FROM families", &[])
            .first()
            .expect("a row")
            .integer("n")
    };
    sql.fail_next([
        Fault::Unreachable,
        Fault::Overloaded,
        Fault::RequestLost,
        Fault::ReplyLost,
    ]);
    let send = || block_on(sql.batch(Shard::Directory, vec![insert()]));
    assert_eq!(send(), Outcome::NotStarted(NotStarted::Unavailable));
    assert_eq!(send(), Outcome::NotStarted(NotStarted::Overloaded));
    assert_eq!(send(), Outcome::Unknown);
    assert_eq!(count(), Ok(0));
    assert_eq!(send(), Outcome::Unknown);
    assert_eq!(count(), Ok(1));
    assert_eq!(send(), Outcome::Refused(Refusal::Constraint));
}

#[test]
fn the_log_names_statements_and_counts_trips_and_rows() {
    let sql = TestSql::new();
    let insert = Statement {
        name: "insert_family",
        sql: "INSERT INTO families VALUES ('family_00a', 'active', 1, 1)",
        binds: vec![],
    };
    let _ = sql.run(Shard::Directory, std::slice::from_ref(&insert));
    let _ = sql.run(Shard::User(0), &[insert]);
    assert_eq!(sql.trips(), 2);
    let record = |shard, written, verdict| BatchRecord {
        shard,
        statements: vec!["insert_family"],
        written,
        verdict,
    };
    assert_eq!(
        sql.take_log(),
        [
            record(Shard::Directory, 1, Verdict::Committed),
            record(Shard::User(0), 0, Verdict::Refused(Refusal::Constraint)),
        ]
    );
    assert_eq!(sql.trips(), 0);
}

#[test]
fn an_image_starts_where_its_original_was() {
    let first = Database::migrated();
    first.execute("INSERT INTO families VALUES ('family_00a', 'active', 1, 1)");
    let second = Database::from_template(&first.template());
    first.execute("DELETE FROM families");
    assert_eq!(second.query("SELECT family_id FROM families", &[]).len(), 1);
    assert_eq!(first.query("SELECT family_id FROM families", &[]).len(), 0);
}

#[test]
fn foreign_keys_hold() {
    let database = Database::migrated();
    let orphan = "INSERT INTO gateway_families VALUES ('gateway_00a', 'family_00a')";
    assert_eq!(run(&database, orphan, vec![]), Outcome::Refused(Refusal::Constraint));
}
