//! The one row that every running part must agree on.

use domain::sql::{Row, RowError, Statement};

/// The schema that this code was written for: the number of the newest migration that changed `meta.schema_version`.
pub const SCHEMA_VERSION: i64 = 3;

/// What stands in the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    pub schema_version: i64,
    /// Moved by a restore; whatever carries an older one is dropped.
    pub epoch: i64,
}

/// Reads the row.
pub fn read() -> Statement {
    Statement {
        name: "meta_read",
        sql: "SELECT schema_version, epoch FROM meta WHERE id = 1",
        binds: Vec::new(),
    }
}

impl Meta {
    pub fn from_row(row: &Row) -> Result<Self, RowError> {
        Ok(Self {
            schema_version: row.integer("schema_version")?,
            epoch: row.integer("epoch")?,
        })
    }
}
