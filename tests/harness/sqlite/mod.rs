//! The database, natively: the same SQL text as in production, on an in-memory SQLite that behaves as D1 does.
//!
//! * Numbers bind as REAL; a number read back must be whole and within ±(2^53 − 1).
//! * One batch is one `BEGIN IMMEDIATE … COMMIT`, rolled back whole by the first failing statement.
//! * At most 100 parameters per statement, 100 columns, 100 kB of SQL, 2 MB per value; foreign keys are enforced.
//! * A failing guard, a constraint and a defect are told apart from the error text exactly as the D1 adapter does.

mod database;
mod fences;
mod meter;
mod port;

pub use database::{BatchRecord, Database, Template, Verdict, migrations};
pub use port::{Fault, TestSql};

#[cfg(test)]
mod tests;
