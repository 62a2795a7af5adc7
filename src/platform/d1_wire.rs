//! D1's answers and errors, read. Pure, so that the native tests hold it.

use std::fmt;
use std::rc::Rc;

use domain::guard::Guard;
use domain::sql::{NotStarted, Outcome, Refusal, Row, Rows, Statement, Value};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

/// Whether no statement of the batch can write, so that an unanswered one may simply be asked again.
pub fn reads_only(statements: &[Statement]) -> bool {
    statements.iter().all(|statement| {
        let mut words = statement
            .sql
            .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
            .filter(|word| !word.is_empty());
        let first = words.next().unwrap_or_default();
        let is = |word: &str, wanted: &[&str]| wanted.iter().any(|wanted| word.eq_ignore_ascii_case(wanted));
        is(first, &["SELECT"])
            || (is(first, &["WITH"]) && !words.any(|word| is(word, &["INSERT", "UPDATE", "DELETE", "REPLACE"])))
    })
}

/// What an error text of D1 means for the batch. Texts that are not known are taken as a lost reply.
pub fn classify(message: &str, reads_only: bool) -> Outcome {
    let has = |parts: &[&str]| parts.iter().any(|part| message.contains(part));
    if let Some(label) = guard_label(message) {
        return Outcome::Refused(Guard::from_label(label).map_or(Refusal::Malformed, Refusal::Guard));
    }
    if has(&["SQLITE_CONSTRAINT", "constraint failed"]) {
        return Outcome::Refused(Refusal::Constraint);
    }
    if has(&[
        "Requests queued for too long",
        "Too many requests queued",
        "D1 DB is overloaded",
    ]) {
        return Outcome::NotStarted(NotStarted::Overloaded);
    }
    if has(&["Cannot resolve D1 DB"]) {
        return Outcome::NotStarted(NotStarted::Unavailable);
    }
    let malformed = [
        "SQLITE_ERROR",
        "syntax error",
        "no such table",
        "no such column",
        "D1_TYPE_ERROR",
        "SQLITE_MISMATCH",
        "SQLITE_RANGE",
        "too many SQL variables",
        "Wrong number of parameter bindings",
    ];
    if has(&malformed) {
        return Outcome::Refused(Refusal::Malformed);
    }
    if reads_only {
        Outcome::NotStarted(NotStarted::Unavailable)
    } else {
        Outcome::Unknown
    }
}

/// The label in `pre:LABEL: SQLITE_CONSTRAINT …`, where the text begins with it but for D1's own prefixes.
fn guard_label(message: &str) -> Option<&str> {
    let rest = message
        .trim_start_matches("Error: ")
        .trim_start_matches("D1_ERROR: ")
        .strip_prefix("pre:")?;
    let end = rest
        .find(|char: char| !char.is_ascii_lowercase() && char != '_')
        .unwrap_or(rest.len());
    rest.get(..end)
}

/// The answer to a batch is not what D1 documents, or holds a number that is no integer within ±(2^53 − 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// Reads the JSON text of a batch's results, one entry for each statement.
pub fn read(json: &str, statements: usize) -> Result<Vec<Rows>, Unreadable> {
    let results: Vec<StatementResult> = serde_json::from_str(json).map_err(|_| Unreadable)?;
    if results.len() != statements {
        return Err(Unreadable);
    }
    results.into_iter().map(rows).collect()
}

fn rows(result: StatementResult) -> Result<Rows, Unreadable> {
    let written = result.meta.and_then(|meta| meta.rows_written).unwrap_or(0);
    let mut columns: Option<Rc<[String]>> = None;
    let mut rows = Vec::with_capacity(result.results.as_ref().map_or(0, Vec::len));
    for Cells(cells) in result.results.unwrap_or_default() {
        let (names, values): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
        let shared = match &columns {
            Some(shared) if **shared == *names => Rc::clone(shared),
            Some(_) => return Err(Unreadable),
            None => Rc::from(names),
        };
        columns = Some(Rc::clone(&shared));
        rows.push(Row::new(shared, values));
    }
    Ok(Rows { rows, written })
}

#[derive(Deserialize)]
struct StatementResult {
    results: Option<Vec<Cells>>,
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Meta {
    rows_written: Option<u64>,
}

/// The cells of one row in the order of its columns.
struct Cells(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Cells {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CellsVisitor;
        impl<'de> Visitor<'de> for CellsVisitor {
            type Value = Cells;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a row")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Cells, A::Error> {
                let mut cells = Vec::new();
                while let Some((name, Cell(value))) = map.next_entry()? {
                    cells.push((name, value));
                }
                Ok(Cells(cells))
            }
        }
        deserializer.deserialize_map(CellsVisitor)
    }
}

struct Cell(Value);

impl<'de> Deserialize<'de> for Cell {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CellVisitor)
    }
}

struct CellVisitor;

impl<'de> Visitor<'de> for CellVisitor {
    type Value = Cell;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("null, an integer within ±(2^53 − 1), text or the bytes of a blob")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Cell, E> {
        Ok(Cell(Value::Null))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Cell, E> {
        Value::integer(value)
            .map(Cell)
            .ok_or_else(|| E::custom("an integer beyond 2^53 − 1"))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Cell, E> {
        self.visit_i64(i64::try_from(value).unwrap_or(i64::MAX))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Cell, E> {
        Ok(Cell(Value::Text(value.to_owned())))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Cell, E> {
        Ok(Cell(Value::Text(value)))
    }

    /// A blob arrives as an array of numbers.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Cell, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element::<u8>()? {
            bytes.push(byte);
        }
        Ok(Cell(Value::Blob(bytes)))
    }
}
