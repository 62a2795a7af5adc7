//! The schema manifest against the schema that the migrations really make.

use std::collections::{BTreeMap, BTreeSet};

use domain::sql::Row;
use domain::time::Millis;
use harness::sqlite::Database;
use store::manifest::{Class, Link, Owner, Placement, Retention, table, tables};
use store::outbox::purge;

struct Column {
    kind: String,
    not_null: bool,
}

/// Names that end in the keyed hash of a destination.
const END_IN_A_HASH: &[(&str, &str)] = &[
    ("outbound_messages", "idempotency_key"),
    ("outbound_messages", "lane"),
    ("send_lanes", "lane"),
];

/// Sealed under the master secret itself, in a row that may be somebody's: such a value stands only in rows of nobody.
const OF_NOBODY: &[(&str, &str)] = &[("outbound_messages", "destination_sealed")];

/// Every table's columns, as SQLite has them.
fn schema(database: &Database) -> BTreeMap<String, BTreeMap<String, Column>> {
    let mut schema: BTreeMap<String, BTreeMap<String, Column>> = BTreeMap::new();
    let rows = database.query(
        "SELECT l.name AS name, c.name AS field, c.type AS kind, c.\"notnull\" AS required
         FROM pragma_table_list l JOIN pragma_table_xinfo(l.name) c
         WHERE l.schema = 'main' AND l.type = 'table' AND l.name NOT LIKE 'sqlite_%'",
        &[],
    );
    for row in rows {
        let text = |column: &str| row.text(column).unwrap().to_owned();
        let column = Column {
            kind: text("kind"),
            not_null: row.flag("required").unwrap(),
        };
        schema.entry(text("name")).or_default().insert(text("field"), column);
    }
    schema
}

#[test]
fn every_table_and_column_is_declared_once_and_exists() {
    let schema = schema(&Database::migrated());
    let stored: BTreeSet<(&str, &str)> = schema
        .iter()
        .flat_map(|(table, columns)| columns.keys().map(move |column| (table.as_str(), column.as_str())))
        .collect();
    let listed: Vec<(&str, &str)> = tables()
        .flat_map(|table| table.columns().map(move |(column, _)| (table.name, column)))
        .collect();
    let declared: BTreeSet<(&str, &str)> = listed.iter().copied().collect();
    assert_eq!(declared.len(), listed.len(), "a column stands in two lists");
    assert_eq!(
        stored.difference(&declared).collect::<Vec<_>>(),
        Vec::<&(&str, &str)>::new(),
        "not declared"
    );
    assert_eq!(
        declared.difference(&stored).collect::<Vec<_>>(),
        Vec::<&(&str, &str)>::new(),
        "not stored"
    );
    assert_eq!(tables().count(), schema.len());
}

#[test]
fn content_and_identifiers_are_sealed_or_hashed_and_nothing_else_is() {
    let schema = schema(&Database::migrated());
    for table in tables() {
        for (name, class) in table.columns() {
            let column = &schema[table.name][name];
            let sealed = name.ends_with("_sealed");
            let hashed = name.ends_with("_hash") || END_IN_A_HASH.contains(&(table.name, name));
            match class {
                Class::Content | Class::Identifier => {
                    let expected = if sealed { "BLOB" } else { "TEXT" };
                    assert!(sealed || hashed, "{}.{name} is neither sealed nor hashed", table.name);
                    assert_eq!(column.kind, expected, "{}.{name}", table.name);
                }
                Class::Operational => {
                    assert!(
                        !sealed && !hashed,
                        "{}.{name} is protected but not declared so",
                        table.name
                    );
                }
            }
            if let Some(stem) = name.strip_suffix("_sealed") {
                let names = |what: &str, kind: &str| {
                    let column = schema[table.name].get(&format!("{stem}_{what}"));
                    column.is_some_and(|column| column.kind == kind)
                };
                assert!(
                    names("key_id", "TEXT") != names("master_version", "INTEGER"),
                    "{}.{name} does not name its key, or the version of the master secret its key comes from",
                    table.name
                );
            }
        }
    }
}

#[test]
fn all_tables_are_strict() {
    let loose: Vec<Row> = Database::migrated().query(
        "SELECT name FROM pragma_table_list
         WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite_%' AND NOT strict",
        &[],
    );
    assert_eq!(loose, Vec::new());
}

#[test]
fn owners_shards_and_retention_name_columns_that_are_there() {
    let schema = schema(&Database::migrated());
    for declared in tables() {
        let name = declared.name;
        let column = |column: &str, kind: &str| {
            let found = schema[name].get(column).unwrap_or_else(|| panic!("{name}.{column}"));
            assert_eq!(found.kind, kind, "{name}.{column}");
        };
        match declared.owner {
            Owner::User(Link::Column(id)) | Owner::Family(Link::Column(id)) | Owner::Gateway(Link::Column(id)) => {
                column(id, "TEXT");
            }
            Owner::User(Link::Through { column: id, table: to })
            | Owner::Family(Link::Through { column: id, table: to })
            | Owner::Gateway(Link::Through { column: id, table: to }) => {
                column(id, "TEXT");
                let owner = table(to).map(|next| next.owner);
                assert_eq!(
                    owner.map(|next| std::mem::discriminant(&next)),
                    Some(std::mem::discriminant(&declared.owner))
                );
            }
            Owner::UserOrFamily { kind, id } => {
                column(kind, "TEXT");
                column(id, "TEXT");
            }
            Owner::System => {}
        }
        if let Placement::Shard(key) = declared.placement {
            column(key, "TEXT");
        }
        match declared.retention {
            Retention::Until(until) | Retention::After { column: until, .. } => {
                column(until, "INTEGER");
                assert!(schema[name][until].not_null, "{name}.{until} may be missing");
            }
            Retention::With { column: id, table: to } => {
                column(id, "TEXT");
                let followed = table(to).map(|next| next.retention);
                assert!(
                    matches!(followed, Some(Retention::After { .. })),
                    "{name} goes with {to}"
                );
            }
            Retention::WhileOwned | Retention::Tombstone => {}
        }
    }
}

#[test]
fn what_a_person_owns_is_sealed_under_their_key_and_the_rest_under_the_master_secret() {
    let schema = schema(&Database::migrated());
    for table in tables() {
        for (name, _) in table.columns() {
            let Some(stem) = name.strip_suffix("_sealed") else {
                continue;
            };
            let of_nobody =
                matches!(table.owner, Owner::System | Owner::Gateway(_)) || OF_NOBODY.contains(&(table.name, name));
            let master = schema[table.name].contains_key(&format!("{stem}_master_version"));
            assert_eq!(master, of_nobody, "{}.{name}", table.name);
        }
    }
}

#[test]
fn the_schema_version_counts_the_migrations() {
    let version = Database::migrated().query("SELECT schema_version FROM meta", &[])[0].integer("schema_version");
    let count = i64::try_from(harness::sqlite::migrations().len()).unwrap();
    assert_eq!(version, Ok(count));
}

#[test]
fn what_is_kept_for_a_time_is_deleted_by_it() {
    let catalogue = store::catalogue().expect("valid sample ids");
    for table in tables() {
        let column = match table.retention {
            Retention::Until(column) | Retention::After { column, .. } => column,
            Retention::With { column, .. } => column,
            Retention::WhileOwned | Retention::Tombstone => continue,
        };
        let delete = format!("DELETE FROM {} WHERE", table.name);
        let deleted = catalogue
            .iter()
            .any(|statement| statement.sql.starts_with(&delete) && statement.sql.contains(&format!("{column} <")));
        assert!(deleted, "nothing deletes {} by {column}", table.name);
    }
}

#[test]
fn what_is_kept_for_days_is_kept_for_as_many_as_declared() {
    let kept = |name: &str| match table(name).map(|table| table.retention) {
        Some(Retention::After { days, .. }) => Millis::from_mins(days * 24 * 60),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(kept("outbound_messages"), purge::MESSAGES_KEPT);
    assert_eq!(kept("inbound_dedup"), purge::INGRESS_KEPT);
}
