//! The adapter's reading of D1, on texts that the real one gave.

use domain::guard::Guard;
use domain::sql::{NotStarted, Outcome, Refusal, Statement, Value};

// The adapter itself only runs in workerd; this part of it is pure.
#[path = "../../../src/platform/d1_wire.rs"]
mod d1_wire;

use d1_wire::{Unreadable, classify, read, reads_only};

fn statement(sql: &'static str) -> Statement {
    Statement {
        name: "test",
        sql,
        binds: Vec::new(),
    }
}

#[test]
fn values_of_every_type_come_back() {
    let json = r#"[
        {"success":true,"meta":{"rows_written":3,"changes":1},"results":[]},
        {"success":true,"meta":{"rows_written":0},"results":[
            {"n":null,"i":9007199254740991,"m":-9007199254740991,"t":"é","b":[0,255],"e":[]},
            {"n":null,"i":0,"m":1,"t":"","b":[],"e":[]}
        ]}
    ]"#;
    let results = read(json, 2).unwrap();
    assert_eq!((results[0].written, results[0].rows.len()), (3, 0));
    let row = &results[1].rows[0];
    assert_eq!(row.value("n"), Ok(&Value::Null));
    assert_eq!(row.integer("i"), Ok(9_007_199_254_740_991));
    assert_eq!(row.integer("m"), Ok(-9_007_199_254_740_991));
    assert_eq!(row.text("t"), Ok("é"));
    assert_eq!(row.blob("b"), Ok(&[0_u8, 255][..]));
    assert_eq!(results[1].rows[1].blob("e"), Ok(&[][..]));
}

#[test]
fn what_is_no_safe_integer_text_or_blob_is_refused() {
    for cell in [
        "1.5",
        "9007199254740992",
        "-9007199254740992",
        "1e300",
        "true",
        "{}",
        "[256]",
        "[-1]",
        "[1.5]",
        "[\"a\"]",
    ] {
        let json = format!(r#"[{{"results":[{{"c":{cell}}}],"meta":{{}}}}]"#);
        assert_eq!(read(&json, 1), Err(Unreadable), "{cell}");
    }
    assert_eq!(read("[]", 1), Err(Unreadable));
    assert_eq!(read("null", 1), Err(Unreadable));
    assert_eq!(read(r#"[{"results":[{"a":1},{"b":1}]}]"#, 1), Err(Unreadable));
}

#[test]
fn a_guard_comes_back_by_its_label() {
    for guard in Guard::ALL {
        let text = format!(
            "D1_ERROR: pre:{}: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_TRIGGER)",
            guard.label()
        );
        assert_eq!(classify(&text, false), Outcome::Refused(Refusal::Guard(*guard)));
    }
    let unknown = "D1_ERROR: pre:nonsense: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_TRIGGER)";
    assert_eq!(classify(unknown, false), Outcome::Refused(Refusal::Malformed));
}

#[test]
fn every_error_text_has_one_meaning() {
    let rows = [
        (
            "D1_ERROR: UNIQUE constraint failed: turns.turn_id: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_PRIMARYKEY)",
            Outcome::Refused(Refusal::Constraint),
        ),
        (
            "D1_ERROR: cannot store REAL value in INTEGER column t.n: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_DATATYPE)",
            Outcome::Refused(Refusal::Constraint),
        ),
        (
            "D1_ERROR: no such table: nothing: SQLITE_ERROR",
            Outcome::Refused(Refusal::Malformed),
        ),
        (
            "D1_ERROR: near \"SELEC\": syntax error at offset 0: SQLITE_ERROR",
            Outcome::Refused(Refusal::Malformed),
        ),
        (
            "D1_TYPE_ERROR: Type 'bigint' not supported for value '1'",
            Outcome::Refused(Refusal::Malformed),
        ),
        (
            "D1_ERROR: Wrong number of parameter bindings for SQL query.",
            Outcome::Refused(Refusal::Malformed),
        ),
        (
            "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
            Outcome::NotStarted(NotStarted::Overloaded),
        ),
        (
            "D1_ERROR: D1 DB is overloaded. Too many requests queued.",
            Outcome::NotStarted(NotStarted::Overloaded),
        ),
        (
            "D1_ERROR: Cannot resolve D1 DB due to transient issue on remote node.",
            Outcome::NotStarted(NotStarted::Unavailable),
        ),
        ("D1_ERROR: Network connection lost.", Outcome::Unknown),
        (
            "D1_ERROR: D1 DB storage operation exceeded timeout which caused object to be reset.",
            Outcome::Unknown,
        ),
        ("D1_ERROR: D1 DB reset because its code was updated.", Outcome::Unknown),
        ("internal error; reference = 0123456789", Outcome::Unknown),
        ("", Outcome::Unknown),
    ];
    for (text, expected) in rows {
        assert_eq!(classify(text, false), expected, "{text}");
        // A batch that only reads can simply be asked again.
        let read = match expected {
            Outcome::Unknown => Outcome::NotStarted(NotStarted::Unavailable),
            other => other,
        };
        assert_eq!(classify(text, true), read, "{text}");
    }
}

#[test]
fn only_batches_without_a_write_are_reads() {
    let select = statement("SELECT 1");
    let with = statement("\n  WITH a AS (SELECT 1) SELECT * FROM a");
    assert!(reads_only(&[select.clone(), with]));
    for sql in [
        "INSERT INTO must(label, ok) SELECT 'a', 1",
        "UPDATE t SET a = 1 RETURNING a",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "with a as (select 1) delete from t",
        "PRAGMA optimize",
        "",
    ] {
        assert!(!reads_only(&[select.clone(), statement(sql)]), "{sql}");
    }
}
