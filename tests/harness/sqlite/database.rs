//! One in-memory database and the way a batch runs on it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::OnceLock;

use domain::fence::Fence;
use domain::guard::Guard;
use domain::sql::{Outcome, PARAMETERS_MAX, Refusal, Row, Rows, SafeInteger, Shard, Statement, Value};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::{ToSqlOutput, Value as Native, ValueRef};
use rusqlite::{Connection, ErrorCode, MAIN_DB, Transaction, TransactionBehavior};

use super::fences::without_fences;
use super::meter;

/// Statements kept prepared per database; the service has fewer.
const STATEMENT_CACHE: usize = 512;

/// The image of a database, from which any number of others start.
pub struct Template(Vec<u8>);

impl Template {
    /// A database with every migration applied; made once per process.
    pub fn migrated() -> &'static Self {
        static MIGRATED: OnceLock<Template> = OnceLock::new();
        MIGRATED.get_or_init(|| {
            let database = Database::empty();
            for (name, sql) in migrations() {
                database
                    .connection
                    .execute_batch(&sql)
                    .unwrap_or_else(|error| panic!("{name}: {error}"));
            }
            database.template()
        })
    }
}

/// Every migration, in order: file name and SQL.
pub fn migrations() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut found: Vec<(String, String)> = std::fs::read_dir(&folder)
        .expect("the migrations folder")
        .map(|entry| entry.expect("a migration").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_name().expect("a file name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("readable SQL"))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "no migrations in {}", folder.display());
    found
}

/// How a batch ended, without its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Committed,
    Refused(Refusal),
}

/// One batch that ran: what the round-trip and row budgets are counted from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchRecord {
    pub shard: Shard,
    /// The statements' names, in order.
    pub statements: Vec<&'static str>,
    /// Rows written as D1 bills them (see [`Database::metered`]); 0 when not metered.
    pub written: u64,
    pub verdict: Verdict,
}

/// One in-memory database.
pub struct Database {
    connection: Connection,
    log: RefCell<Vec<BatchRecord>>,
    logging: Cell<bool>,
    metered: bool,
    /// Fences that hold whatever their conditions say.
    fences: RefCell<BTreeSet<Fence>>,
}

impl Database {
    /// A database without any table.
    pub fn empty() -> Self {
        let connection = Connection::open_in_memory().expect("an in-memory database");
        Self::over(connection)
    }

    /// A database with every migration applied.
    pub fn migrated() -> Self {
        Self::from_template(Template::migrated())
    }

    /// A database that starts as `template` was.
    pub fn from_template(template: &Template) -> Self {
        let mut connection = Connection::open_in_memory().expect("an in-memory database");
        connection
            .deserialize_read_exact(MAIN_DB, template.0.as_slice(), template.0.len(), false)
            .expect("a database image");
        Self::over(connection)
    }

    fn over(connection: Connection) -> Self {
        connection
            .execute_batch("PRAGMA foreign_keys = ON; PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;")
            .expect("pragmas");
        let settings = [
            (DbConfig::SQLITE_DBCONFIG_DQS_DML, false),
            (DbConfig::SQLITE_DBCONFIG_DQS_DDL, false),
        ];
        for (setting, value) in settings {
            connection.set_db_config(setting, value).expect("a setting");
        }
        let limits = [
            (
                Limit::SQLITE_LIMIT_VARIABLE_NUMBER,
                i32::try_from(PARAMETERS_MAX).expect("a small number"),
            ),
            (Limit::SQLITE_LIMIT_COLUMN, 100),
            (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
            (Limit::SQLITE_LIMIT_LENGTH, 2_000_000),
        ];
        for (limit, value) in limits {
            connection.set_limit(limit, value).expect("a limit");
        }
        connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
        Self {
            connection,
            log: RefCell::default(),
            logging: Cell::new(true),
            metered: false,
            fences: RefCell::default(),
        }
    }

    /// Counts rows written: one for each row inserted, updated or deleted, and one for each entry written into an
    /// index (the primary key of a WITHOUT ROWID table is the row itself). An update writes the indexes that mention a
    /// column named in its SET. Deleted index entries are free, and so are rows that OR REPLACE removes.
    pub fn metered(mut self) -> Self {
        meter::install(&self.connection);
        self.metered = true;
        self
    }

    /// The image of this database.
    pub fn template(&self) -> Template {
        Template(self.connection.serialize(MAIN_DB).expect("a database image").to_vec())
    }

    /// From now on these guards hold whatever their conditions say.
    pub fn drop_guards(&self, guards: &BTreeSet<Guard>) {
        let labels: Vec<String> = guards.iter().map(|guard| format!("'{}'", guard.label())).collect();
        let sql = format!(
            "DROP TRIGGER must_hold;
             CREATE TRIGGER must_hold INSTEAD OF INSERT ON must WHEN NEW.ok IS NOT 1 AND NEW.label NOT IN ({})
             BEGIN SELECT RAISE(ABORT, 'pre:' || NEW.label); END;",
            labels.join(", ")
        );
        self.connection.execute_batch(&sql).expect("the guard trigger");
    }

    /// From now on these fences hold whatever their conditions say.
    pub fn drop_fences(&self, fences: &BTreeSet<Fence>) {
        *self.fences.borrow_mut() = fences.clone();
    }

    /// Stops keeping a record of each batch; for long runs.
    pub fn without_log(self) -> Self {
        self.logging.set(false);
        self
    }

    /// Takes the batches that ran since the last call.
    pub fn take_log(&self) -> Vec<BatchRecord> {
        std::mem::take(&mut self.log.borrow_mut())
    }

    /// How many batches ran since the last [`Database::take_log`].
    pub fn trips(&self) -> usize {
        self.log.borrow().len()
    }

    /// Runs a batch: all of it or nothing.
    pub fn run(&self, shard: Shard, statements: &[Statement]) -> Outcome {
        let result = self.run_all(statements);
        if self.logging.get() {
            let written = result
                .as_ref()
                .map_or(0, |all| all.iter().map(|rows| rows.written).sum());
            let verdict = result
                .as_ref()
                .map_or_else(|refusal| Verdict::Refused(*refusal), |_| Verdict::Committed);
            let statements = statements.iter().map(|statement| statement.name).collect();
            self.log.borrow_mut().push(BatchRecord {
                shard,
                statements,
                written,
                verdict,
            });
        }
        result.map_or_else(Outcome::Refused, Outcome::Committed)
    }

    fn run_all(&self, statements: &[Statement]) -> Result<Vec<Rows>, Refusal> {
        // Dropped without a commit, it rolls back.
        let transaction = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)
            .map_err(|error| refusal(&error))?;
        let all = statements
            .iter()
            .map(|statement| self.run_one(statement))
            .collect::<Result<Vec<_>, _>>()?;
        transaction.commit().map_err(|error| refusal(&error))?;
        Ok(all)
    }

    fn run_one(&self, statement: &Statement) -> Result<Rows, Refusal> {
        let before = self.written();
        let mut prepared = self
            .connection
            .prepare_cached(&without_fences(statement.sql, &self.fences.borrow()))
            .map_err(|error| refusal(&error))?;
        if prepared.parameter_count() != statement.binds.len() {
            return Err(Refusal::Malformed);
        }
        for (at, value) in statement.binds.iter().enumerate() {
            prepared
                .raw_bind_parameter(at + 1, bound(value))
                .map_err(|error| refusal(&error))?;
        }
        let columns: Rc<[String]> = prepared.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        let mut cursor = prepared.raw_query();
        while let Some(row) = cursor.next().map_err(|error| refusal(&error))? {
            let values = (0..columns.len())
                .map(|at| read(row.get_ref(at).map_err(|error| refusal(&error))?))
                .collect::<Result<Vec<_>, _>>()?;
            rows.push(Row::new(Rc::clone(&columns), values));
        }
        drop(cursor);
        if self.metered && statement.sql.starts_with("CREATE") {
            meter::watch_all(&self.connection);
        }
        Ok(Rows {
            rows,
            written: self.written().saturating_sub(before),
        })
    }

    fn written(&self) -> u64 {
        if self.metered {
            meter::count(&self.connection)
        } else {
            0
        }
    }

    /// Rows of a query, outside any batch and any count; for arranging and checking. Panics on an error.
    pub fn query(&self, sql: &str, binds: &[Value]) -> Vec<Row> {
        let mut prepared = self
            .connection
            .prepare_cached(sql)
            .unwrap_or_else(|error| panic!("{error} in {sql}"));
        for (at, value) in binds.iter().enumerate() {
            prepared
                .raw_bind_parameter(at + 1, bound(value))
                .unwrap_or_else(|error| panic!("{error} in {sql}"));
        }
        let columns: Rc<[String]> = prepared.column_names().into_iter().map(str::to_owned).collect();
        let mut rows = Vec::new();
        let mut cursor = prepared.raw_query();
        while let Some(row) = cursor.next().unwrap_or_else(|error| panic!("{error} in {sql}")) {
            let values = (0..columns.len())
                .map(|at| read(row.get_ref(at).expect("a column")).expect("a value"))
                .collect();
            rows.push(Row::new(Rc::clone(&columns), values));
        }
        rows
    }

    /// Runs a script outside any batch and any count; for arranging. Panics on an error.
    pub fn execute(&self, script: &str) {
        self.connection
            .execute_batch(script)
            .unwrap_or_else(|error| panic!("{error} in {script}"));
    }

    /// The steps of a statement's query plan, as `EXPLAIN QUERY PLAN` prints them.
    pub fn plan(&self, sql: &str) -> Vec<String> {
        let mut prepared = self
            .connection
            .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
            .expect("a statement");
        let mut cursor = prepared.raw_query();
        let mut steps = Vec::new();
        while let Some(row) = cursor.next().expect("a plan step") {
            steps.push(row.get::<_, String>("detail").expect("a plan step"));
        }
        steps
    }

    /// Every table and its column names.
    pub fn tables(&self) -> BTreeMap<String, Vec<String>> {
        let rows = self.query(
            "SELECT m.name AS name, c.name AS field FROM sqlite_schema m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.cid",
            &[],
        );
        let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in rows {
            let column = row.text("field").expect("a name").to_owned();
            tables
                .entry(row.text("name").expect("a name").to_owned())
                .or_default()
                .push(column);
        }
        tables
    }
}

fn bound(value: &Value) -> ToSqlOutput<'_> {
    match value {
        Value::Null => ToSqlOutput::Owned(Native::Null),
        // Exact: a safe integer is within the doubles.
        Value::Integer(number) => ToSqlOutput::Owned(Native::Real(number.get() as f64)),
        Value::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
        Value::Blob(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
    }
}

fn read(value: ValueRef<'_>) -> Result<Value, Refusal> {
    match value {
        ValueRef::Null => Ok(Value::Null),
        ValueRef::Integer(number) => safe(number),
        ValueRef::Real(number) if number.fract() == 0.0 && number.abs() < 1e16 => safe(number as i64),
        ValueRef::Real(_) => Err(Refusal::Malformed),
        ValueRef::Text(bytes) => String::from_utf8(bytes.to_vec())
            .map(Value::Text)
            .map_err(|_| Refusal::Malformed),
        ValueRef::Blob(bytes) => Ok(Value::Blob(bytes.to_vec())),
    }
}

fn safe(number: i64) -> Result<Value, Refusal> {
    SafeInteger::new(number).map(Value::Integer).ok_or(Refusal::Malformed)
}

fn refusal(error: &rusqlite::Error) -> Refusal {
    let rusqlite::Error::SqliteFailure(code, message) = error else {
        return Refusal::Malformed;
    };
    if let Some(label) = message.as_deref().and_then(|text| text.strip_prefix("pre:")) {
        return Guard::from_label(label).map_or(Refusal::Malformed, Refusal::Guard);
    }
    if code.code == ErrorCode::ConstraintViolation {
        Refusal::Constraint
    } else {
        Refusal::Malformed
    }
}
