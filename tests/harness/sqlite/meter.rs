//! Counts rows written the way D1 bills them, by temporary triggers on every table.

use rusqlite::Connection;

/// Starts to count on `connection`.
pub fn install(connection: &Connection) {
    connection
        .execute_batch("CREATE TEMP TABLE written (rows INTEGER NOT NULL); INSERT INTO temp.written VALUES (0);")
        .expect("the count");
    watch_all(connection);
}

/// Counts for the tables and indexes that exist now.
pub fn watch_all(connection: &Connection) {
    for (name, _) in strings(
        connection,
        "SELECT name, '' FROM main.sqlite_schema WHERE type = ?1",
        "table",
    ) {
        if !name.starts_with("sqlite_") {
            watch(connection, &name);
        }
    }
}

/// Rows written since [`install`].
pub fn count(connection: &Connection) -> u64 {
    let mut prepared = connection
        .prepare_cached("SELECT rows FROM temp.written")
        .expect("the count");
    prepared.query_row([], |row| row.get(0)).expect("the count")
}

struct Index {
    /// An UPDATE that sets one of these writes the index anew.
    columns: Vec<String>,
    /// Whether the new row is in the index, as an SQL expression over `NEW`.
    covers: String,
}

fn watch(connection: &Connection, table: &str) {
    let indexes = indexes(connection, table);
    let add = |rows: &str| format!("UPDATE written SET rows = rows + {rows};");
    let entries: String = indexes
        .iter()
        .map(|index| format!(" + ({} IS TRUE)", index.covers))
        .collect();
    let mut triggers = vec![
        (
            "insert".to_owned(),
            "AFTER INSERT".to_owned(),
            String::new(),
            add(&format!("1{entries}")),
        ),
        ("delete".to_owned(), "AFTER DELETE".to_owned(), String::new(), add("1")),
        ("update".to_owned(), "AFTER UPDATE".to_owned(), String::new(), add("1")),
    ];
    for (at, index) in indexes.iter().enumerate() {
        let event = format!("AFTER UPDATE OF {}", index.columns.join(", "));
        triggers.push((
            format!("update_{at}"),
            event,
            format!("WHEN {}", index.covers),
            add("1"),
        ));
    }
    for (name, event, condition, action) in triggers {
        let sql = format!(
            "DROP TRIGGER IF EXISTS temp.written_{table}_{name};
             CREATE TEMP TRIGGER written_{table}_{name} {event} ON main.{table} {condition} BEGIN {action} END"
        );
        connection
            .execute_batch(&sql)
            .unwrap_or_else(|error| panic!("{error} in {sql}"));
    }
}

fn indexes(connection: &Connection, table: &str) -> Vec<Index> {
    let columns: Vec<String> = strings(connection, "SELECT name, '' FROM pragma_table_info(?1)", table)
        .into_iter()
        .map(|(column, _)| column)
        .collect();
    let keys: Vec<String> = strings(
        connection,
        "SELECT name, '' FROM pragma_table_info(?1) WHERE pk > 0",
        table,
    )
    .into_iter()
    .map(|(column, _)| column)
    .collect();
    let without_rowid: bool = connection
        .query_row("SELECT wr FROM pragma_table_list WHERE name = ?1", [table], |row| {
            row.get(0)
        })
        .expect("a table");
    let row: Vec<String> = columns
        .iter()
        .map(|column| format!("NEW.{column} AS {column}"))
        .collect();
    let found = strings(
        connection,
        "SELECT l.name, l.origin || ':' || coalesce(s.sql, '') FROM pragma_index_list(?1) l
         LEFT JOIN main.sqlite_schema s ON s.name = l.name",
        table,
    );
    found
        .into_iter()
        // The primary key of a WITHOUT ROWID table is the row itself.
        .filter(|(_, about)| !(without_rowid && about.starts_with("pk:")))
        .map(|(index, about)| {
            let named = strings(
                connection,
                "SELECT coalesce(name, ''), '' FROM pragma_index_info(?1)",
                &index,
            );
            let condition = about
                .find(" WHERE ")
                .and_then(|at| about.get(at + " WHERE ".len()..))
                .unwrap_or("1");
            // An index entry ends with the key of its row, so moving the row moves the entry.
            let touched = |column: &&String| {
                named.iter().any(|(name, _)| name == *column) || keys.contains(column) || names(condition, column)
            };
            Index {
                columns: columns.iter().filter(touched).cloned().collect(),
                covers: format!("(SELECT {condition} FROM (SELECT {}))", row.join(", ")),
            }
        })
        .collect()
}

fn names(condition: &str, column: &str) -> bool {
    condition
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| word == column)
}

fn strings(connection: &Connection, sql: &str, argument: &str) -> Vec<(String, String)> {
    let mut prepared = connection.prepare(sql).expect("a schema query");
    let rows = prepared
        .query_map([argument], |row| Ok((row.get(0)?, row.get(1)?)))
        .expect("a schema query");
    rows.map(|row| row.expect("a schema row")).collect()
}
