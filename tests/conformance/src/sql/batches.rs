//! Batches: atomic, guarded, limited.

use domain::guard::Guard;
use domain::ports::Sql;
use domain::sql::{Outcome, PARAMETERS_MAX, Refusal, Shard, Statement, Value};

use super::{DropReply, integer, rows, run, statement, value};
use crate::Report;

pub async fn checks(sql: &impl Sql, report: &mut Report) {
    atomicity(sql, report).await;
    guards(sql, report).await;
    malformed(sql, report).await;
    limits(sql, report).await;
    results(sql, report).await;
    lost_reply(sql, report).await;
}

async fn batch(sql: &impl Sql, statements: Vec<Statement>) -> Outcome {
    sql.batch(Shard::Directory, statements).await
}

async fn count(sql: &impl Sql) -> Option<Value> {
    value(sql, "SELECT count(*) AS v FROM conformance_keys", vec![]).await
}

fn insert(key: &str, number: i64) -> Statement {
    statement(
        "INSERT INTO conformance_keys (k, v) VALUES (?1, ?2)",
        vec![key.into(), integer(number)],
    )
}

async fn atomicity(sql: &impl Sql, report: &mut Report) {
    let outcome = batch(sql, vec![insert("a", 1), insert("b", 2)]).await;
    report.that(
        "sql: a batch commits",
        matches!(&outcome, Outcome::Committed(all) if all.len() == 2),
        outcome,
    );
    report.equal("sql: all of a batch is there", count(sql).await, Some(integer(2)));
    let cases = [
        ("a key that is taken", insert("a", 9)),
        ("a failing CHECK", insert("d", -1)),
        (
            "NULL where NOT NULL stands",
            statement("INSERT INTO conformance_keys (k, v) VALUES ('d', NULL)", vec![]),
        ),
    ];
    for (name, last) in cases {
        let outcome = batch(sql, vec![insert("c", 3), last]).await;
        report.equal(
            format!("sql: {name} refuses"),
            outcome,
            Outcome::Refused(Refusal::Constraint),
        );
        report.equal(
            format!("sql: {name} leaves nothing of the batch"),
            count(sql).await,
            Some(integer(2)),
        );
    }
    let see = statement("SELECT count(*) AS v FROM conformance_keys", vec![]);
    let seen = match batch(sql, vec![insert("c", 3), see]).await {
        Outcome::Committed(all) => all.last().and_then(|rows| rows.first()?.integer("v").ok()),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => None,
    };
    report.equal("sql: later statements see earlier ones", seen, Some(3));
    run(sql, "DELETE FROM conformance_keys", vec![]).await;
}

async fn guards(sql: &impl Sql, report: &mut Report) {
    const MUST: &str = "INSERT INTO must(label, ok) SELECT ?1, ?2 IS 1";
    for guard in Guard::ALL {
        let label = guard.label();
        let must = |ok| statement(MUST, vec![label.into(), ok]);
        let held = batch(sql, vec![must(integer(1)), insert(label, 1)]).await;
        report.that(
            format!("sql: {label} holds"),
            matches!(held, Outcome::Committed(_)),
            held,
        );
        let refused = batch(sql, vec![insert("x", 1), must(integer(0)), insert("y", 1)]).await;
        report.equal(
            format!("sql: {label} aborts"),
            refused,
            Outcome::Refused(Refusal::Guard(*guard)),
        );
    }
    let wanted = i64::try_from(Guard::ALL.len()).unwrap_or(-1);
    report.equal(
        "sql: an aborted batch leaves nothing",
        count(sql).await,
        Some(integer(wanted)),
    );
    let null = run(sql, "INSERT INTO must(label, ok) SELECT 'key_live', NULL", vec![]).await;
    report.equal(
        "sql: a guard without a value aborts",
        null,
        Outcome::Refused(Refusal::Guard(Guard::KeyLive)),
    );
    let unknown = run(sql, "INSERT INTO must(label, ok) SELECT 'no_such_guard', 0", vec![]).await;
    report.equal(
        "sql: a label that is none of ours is a defect",
        unknown,
        Outcome::Refused(Refusal::Malformed),
    );
    run(sql, "DELETE FROM conformance_keys", vec![]).await;
}

async fn malformed(sql: &impl Sql, report: &mut Report) {
    let cases = [
        ("a syntax error", "SELEC 1", vec![]),
        ("an unknown table", "SELECT * FROM no_such_table", vec![]),
        ("an unknown column", "SELECT no_such_column FROM meta", vec![]),
        ("a missing parameter", "SELECT ?1 AS v, ?2 AS w", vec![integer(1)]),
        ("a parameter too many", "SELECT ?1 AS v", vec![integer(1), integer(2)]),
    ];
    for (name, text, binds) in cases {
        let outcome = batch(sql, vec![insert("m", 1), statement(text, binds)]).await;
        report.equal(
            format!("sql: {name} is a defect"),
            outcome,
            Outcome::Refused(Refusal::Malformed),
        );
    }
    report.equal(
        "sql: a defect leaves nothing of its batch",
        count(sql).await,
        Some(integer(0)),
    );
    report.equal(
        "sql: an empty batch does nothing",
        batch(sql, vec![]).await,
        Outcome::Committed(vec![]),
    );
}

/// `SELECT ?1 + ?2 + … AS v` with this many parameters. The text lives as long as the program: it is a test.
fn sum(parameters: usize) -> Statement {
    let terms: Vec<String> = (1..=parameters).map(|at| format!("?{at}")).collect();
    let text: &'static str = Box::leak(format!("SELECT {} AS v", terms.join(" + ")).into_boxed_str());
    statement(text, vec![integer(1); parameters])
}

async fn limits(sql: &impl Sql, report: &mut Report) {
    let most = batch(sql, vec![sum(PARAMETERS_MAX)]).await;
    let total = match &most {
        Outcome::Committed(all) => all.first().and_then(|rows| rows.first()?.integer("v").ok()),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => None,
    };
    report.equal("sql: takes 100 parameters", total, Some(100));
    let more = batch(sql, vec![sum(PARAMETERS_MAX + 1)]).await;
    report.equal(
        "sql: refuses 101 parameters",
        more,
        Outcome::Refused(Refusal::Malformed),
    );

    let items: Vec<String> = (0..1_000).map(|at| format!("[\"key {at}\",{at}]")).collect();
    let bulk = "INSERT INTO conformance_keys (k, v) SELECT value ->> 0, value ->> 1 FROM json_each(?1)";
    let outcome = run(sql, bulk, vec![format!("[{}]", items.join(",")).into()]).await;
    report.that(
        "sql: one parameter carries 1,000 rows",
        matches!(outcome, Outcome::Committed(_)),
        outcome,
    );
    report.equal("sql: all 1,000 rows are there", count(sql).await, Some(integer(1_000)));
    run(sql, "DELETE FROM conformance_keys", vec![]).await;
}

async fn results(sql: &impl Sql, report: &mut Report) {
    let returning = "INSERT INTO conformance_keys (k, v) VALUES ('r', ?1) RETURNING v, k";
    let returned = rows(sql, returning, vec![integer(4)]).await;
    let seen = returned
        .first()
        .map(|row| (row.integer("v").ok(), row.text("k").ok().map(str::to_owned)));
    report.equal(
        "sql: RETURNING gives the row back",
        seen,
        Some((Some(4), Some("r".to_owned()))),
    );
    let claim = "UPDATE conformance_keys SET v = v + 1 WHERE k IN (SELECT k FROM conformance_keys LIMIT 1) RETURNING v";
    report.equal(
        "sql: a claim is one statement",
        value(sql, claim, vec![]).await,
        Some(integer(5)),
    );
    let none = run(sql, "SELECT k FROM conformance_keys WHERE k = 'none'", vec![]).await;
    report.that(
        "sql: no rows is an empty list",
        matches!(&none, Outcome::Committed(all) if all.iter().all(|rows| rows.rows.is_empty())),
        none,
    );

    let written = |outcome: Outcome| match outcome {
        Outcome::Committed(all) => Some(all.iter().map(|rows| rows.written).sum::<u64>()),
        Outcome::Refused(_) | Outcome::NotStarted(_) | Outcome::Unknown => None,
    };
    let must = "INSERT INTO must(label, ok) SELECT 'key_live', 1";
    let keyed = batch(sql, vec![insert("w", 1)]).await;
    let updated = run(sql, "UPDATE conformance_keys SET v = 2 WHERE k = 'w'", vec![]).await;
    let deleted = run(sql, "DELETE FROM conformance_keys WHERE k = 'w'", vec![]).await;
    let plain = run(sql, "INSERT INTO conformance_values (id) VALUES (50)", vec![]).await;
    report.equal(
        "sql: a guard writes no row",
        written(run(sql, must, vec![]).await),
        Some(0),
    );
    report.equal("sql: a row and its index entry are two", written(keyed), Some(2));
    report.equal("sql: updating an indexed column is two", written(updated), Some(2));
    report.equal("sql: deleting is one", written(deleted), Some(1));
    report.equal("sql: a row without an index is one", written(plain), Some(1));
    report.equal(
        "sql: reading writes nothing",
        written(run(sql, "SELECT 1 AS v", vec![]).await),
        Some(0),
    );
}

async fn lost_reply(sql: &impl Sql, report: &mut Report) {
    let lossy = DropReply(sql);
    report.equal(
        "sql: a lost reply is unknown",
        batch(&lossy, vec![insert("mine", 1)]).await,
        Outcome::Unknown,
    );
    let found = value(
        sql,
        "SELECT count(*) AS v FROM conformance_keys WHERE k = 'mine'",
        vec![],
    )
    .await;
    report.equal(
        "sql: what became of it is read back by its key",
        found,
        Some(integer(1)),
    );
    let again = batch(sql, vec![insert("mine", 1)]).await;
    report.equal(
        "sql: writing it again is refused",
        again,
        Outcome::Refused(Refusal::Constraint),
    );
}
