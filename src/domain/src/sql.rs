//! What crosses the [`Sql`](crate::ports::Sql) port: statements in, rows or one of four outcomes out.

use std::rc::Rc;

use crate::guard::Guard;
use crate::time::{Millis, Timestamp};

/// The largest integer that D1 carries without loss: every number binds as a double.
pub const SAFE_INTEGER_MAX: i64 = 9_007_199_254_740_991;

/// The most parameters D1 binds in one statement.
pub const PARAMETERS_MAX: usize = 100;

/// Where a batch runs. No batch mixes shards, so a batch names exactly one.
///
/// One database serves all today; ids already carry the shard (see [`crate::ids`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shard {
    /// Tables that are looked up before a user is known: families, users, identities, gateways, addresses, policy.
    Directory,
    /// The tables owned by the users whose ids carry this number.
    User(u8),
}

/// An integer within ±(2^53 − 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SafeInteger(i64);

impl SafeInteger {
    /// `None` outside ±(2^53 − 1).
    pub fn new(value: i64) -> Option<Self> {
        (value.unsigned_abs() <= SAFE_INTEGER_MAX.unsigned_abs()).then_some(Self(value))
    }

    pub const fn get(self) -> i64 {
        self.0
    }
}

/// One SQL value. There is no REAL: the schema has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Integer(SafeInteger),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    /// An integer value; `None` outside ±(2^53 − 1).
    pub fn integer(value: i64) -> Option<Self> {
        SafeInteger::new(value).map(Self::Integer)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Blob(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Self {
        Self::Integer(SafeInteger(i64::from(value)))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(SafeInteger(i64::from(value)))
    }
}

impl From<SafeInteger> for Value {
    fn from(value: SafeInteger) -> Self {
        Self::Integer(value)
    }
}

impl From<Timestamp> for Value {
    fn from(value: Timestamp) -> Self {
        // Timestamps are clamped to the safe integers where they are made.
        Self::Integer(SafeInteger(value.as_millis()))
    }
}

impl From<Millis> for Value {
    fn from(value: Millis) -> Self {
        Self::Integer(SafeInteger(value.get().clamp(-SAFE_INTEGER_MAX, SAFE_INTEGER_MAX)))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// One statement of a batch. `name` says what it is for in logs, plans and counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub name: &'static str,
    pub sql: &'static str,
    /// Bound to `?1`, `?2`, …; at most [`PARAMETERS_MAX`].
    pub binds: Vec<Value>,
}

/// What one statement of a committed batch gave back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rows {
    pub rows: Vec<Row>,
    /// Rows written by the statement, index entries included, as D1 bills them (0 where the adapter does not know).
    pub written: u64,
}

impl Rows {
    /// The first row, if there is one.
    pub fn first(&self) -> Option<&Row> {
        self.rows.first()
    }
}

/// One row, its values found by column name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    columns: Rc<[String]>,
    values: Vec<Value>,
}

/// A row did not hold what the reader expected: a defect of the schema or the mapping, never of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    pub column: String,
    pub expected: &'static str,
}

impl Row {
    pub fn new(columns: Rc<[String]>, values: Vec<Value>) -> Self {
        Self { columns, values }
    }

    /// The value in `column`.
    pub fn value(&self, column: &str) -> Result<&Value, RowError> {
        self.columns
            .iter()
            .position(|name| name == column)
            .and_then(|at| self.values.get(at))
            .ok_or_else(|| RowError {
                column: column.to_owned(),
                expected: "a column of this name",
            })
    }

    pub fn text(&self, column: &str) -> Result<&str, RowError> {
        self.optional_text(column)?.ok_or_else(|| wrong(column, "text"))
    }

    pub fn optional_text(&self, column: &str) -> Result<Option<&str>, RowError> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Text(text) => Ok(Some(text)),
            Value::Integer(_) | Value::Blob(_) => Err(wrong(column, "text or NULL")),
        }
    }

    pub fn integer(&self, column: &str) -> Result<i64, RowError> {
        self.optional_integer(column)?
            .ok_or_else(|| wrong(column, "an integer"))
    }

    pub fn optional_integer(&self, column: &str) -> Result<Option<i64>, RowError> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Integer(value) => Ok(Some(value.get())),
            Value::Text(_) | Value::Blob(_) => Err(wrong(column, "an integer or NULL")),
        }
    }

    /// A 0/1 column.
    pub fn flag(&self, column: &str) -> Result<bool, RowError> {
        match self.integer(column)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(wrong(column, "0 or 1")),
        }
    }

    pub fn timestamp(&self, column: &str) -> Result<Timestamp, RowError> {
        self.integer(column).map(Timestamp::from_millis)
    }

    pub fn optional_timestamp(&self, column: &str) -> Result<Option<Timestamp>, RowError> {
        Ok(self.optional_integer(column)?.map(Timestamp::from_millis))
    }

    pub fn blob(&self, column: &str) -> Result<&[u8], RowError> {
        self.optional_blob(column)?.ok_or_else(|| wrong(column, "a blob"))
    }

    pub fn optional_blob(&self, column: &str) -> Result<Option<&[u8]>, RowError> {
        match self.value(column)? {
            Value::Null => Ok(None),
            Value::Blob(bytes) => Ok(Some(bytes)),
            Value::Integer(_) | Value::Text(_) => Err(wrong(column, "a blob or NULL")),
        }
    }
}

fn wrong(column: &str, expected: &'static str) -> RowError {
    RowError {
        column: column.to_owned(),
        expected,
    }
}

/// What became of a batch. A batch is one transaction: all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Every statement ran; one [`Rows`] for each, in order.
    Committed(Vec<Rows>),
    /// A condition was false and nothing was written.
    Refused(Refusal),
    /// The batch certainly did not run; it may be tried again.
    NotStarted(NotStarted),
    /// The reply was lost: it may or may not have committed. Resolve by reading back under a key of your own.
    Unknown,
}

/// Why a batch aborted as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The guard of this label was false.
    Guard(Guard),
    /// A constraint of the schema (UNIQUE, CHECK, NOT NULL, STRICT types): a back-stop behind the guards.
    Constraint,
    /// The database could not understand the batch: a defect.
    Malformed,
}

/// Why a batch did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotStarted {
    /// The database is overloaded: back off.
    Overloaded,
    /// The database could not be reached or was being reset.
    Unavailable,
}
