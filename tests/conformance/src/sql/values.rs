//! Types in and out.

use domain::ports::Sql;
use domain::sql::{Outcome, Refusal, SAFE_INTEGER_MAX, Value};

use super::{integer, rows, run, value};
use crate::Report;

pub async fn checks(sql: &impl Sql, report: &mut Report) {
    stored(sql, report).await;
    bound(sql, report).await;
    unsafe_numbers(sql, report).await;
}

async fn stored(sql: &impl Sql, report: &mut Report) {
    let text = |text: &str| Value::from(text);
    let cases: [(&str, &'static str, Value); 15] = [
        ("NULL in an INTEGER column", "n", Value::Null),
        ("0", "n", integer(0)),
        ("1", "n", integer(1)),
        ("-1", "n", integer(-1)),
        ("a time in milliseconds", "n", integer(1_783_728_000_123)),
        ("2^53 - 1", "n", integer(SAFE_INTEGER_MAX)),
        ("-(2^53 - 1)", "n", integer(-SAFE_INTEGER_MAX)),
        ("NULL in a TEXT column", "t", Value::Null),
        ("text", "t", text("Grüße, 世界 \u{1f30d}")),
        ("text of digits", "t", text("0012")),
        ("empty text", "t", text("")),
        ("NULL in a BLOB column", "b", Value::Null),
        ("a blob", "b", Value::Blob(vec![0, 1, 0x7f, 0x80, 0xff])),
        ("an empty blob", "b", Value::Blob(vec![])),
        (
            "a blob of 64 kB",
            "b",
            Value::Blob((0..65_536_u32).map(|at| at.to_le_bytes()[0]).collect()),
        ),
    ];
    for (name, column, wanted) in cases {
        run(sql, "DELETE FROM conformance_values", vec![]).await;
        let insert = match column {
            "n" => "INSERT INTO conformance_values (id, n) VALUES (1, ?1)",
            "t" => "INSERT INTO conformance_values (id, t) VALUES (1, ?1)",
            _ => "INSERT INTO conformance_values (id, b) VALUES (1, ?1)",
        };
        run(sql, insert, vec![wanted.clone()]).await;
        let found = rows(sql, "SELECT * FROM conformance_values", vec![]).await;
        let seen = found.first().and_then(|row| row.value(column).ok().cloned());
        report.equal(format!("sql: {name} comes back as it was"), seen, Some(wanted));
    }
}

async fn bound(sql: &impl Sql, report: &mut Report) {
    let typed = value(sql, "SELECT typeof(?1) AS v", vec![integer(1)]).await;
    report.equal("sql: a bound number is REAL", typed, Some(Value::from("real")));
    let cast = value(sql, "SELECT typeof(CAST(?1 AS INTEGER)) AS v", vec![integer(1)]).await;
    report.equal("sql: a cast makes it an integer", cast, Some(Value::from("integer")));
    let half = value(sql, "SELECT CAST(?1 / 2 * 10 AS INTEGER) AS v", vec![integer(5)]).await;
    report.equal("sql: dividing a bound number does not round", half, Some(integer(25)));
    let whole = value(sql, "SELECT CAST(?1 AS INTEGER) / 2 AS v", vec![integer(5)]).await;
    report.equal("sql: dividing a cast number rounds down", whole, Some(integer(2)));
    let stored = "INSERT INTO conformance_values (id, n) VALUES (2, ?1) RETURNING typeof(n) AS v";
    let stored = value(sql, stored, vec![integer(7)]).await;
    report.equal(
        "sql: an INTEGER column stores it as an integer",
        stored,
        Some(Value::from("integer")),
    );
    let truth = value(sql, "SELECT ?1 = 1 AS v", vec![Value::from(true)]).await;
    report.equal("sql: a comparison is 1", truth, Some(integer(1)));
    let twice = value(
        sql,
        "SELECT ?2 || ?1 || ?2 AS v",
        vec![Value::from("a"), Value::from("b")],
    )
    .await;
    report.equal("sql: parameters go by their numbers", twice, Some(Value::from("bab")));
}

async fn unsafe_numbers(sql: &impl Sql, report: &mut Report) {
    for text in [
        "SELECT 9007199254740992 AS v",
        "SELECT -9007199254740992 AS v",
        "SELECT 1.5 AS v",
    ] {
        let outcome = run(sql, text, vec![]).await;
        report.equal(
            format!("sql: refuses to read {text}"),
            outcome,
            Outcome::Refused(Refusal::Malformed),
        );
    }
    let real = run(
        sql,
        "INSERT INTO conformance_values (id, n) VALUES (3, ?1 / 2)",
        vec![integer(3)],
    )
    .await;
    report.equal(
        "sql: a fraction in an INTEGER column",
        real,
        Outcome::Refused(Refusal::Constraint),
    );
    let text = run(
        sql,
        "INSERT INTO conformance_values (id, n) VALUES (3, ?1)",
        vec![Value::from("x")],
    )
    .await;
    report.equal(
        "sql: text in an INTEGER column",
        text,
        Outcome::Refused(Refusal::Constraint),
    );
}
