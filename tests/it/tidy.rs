//! The habits of this repository, held by tests: small files and functions, SQL and the platform in their places,
//! no ambient time or randomness, and names that agree across files.

mod bindings;
mod privacy;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use source::{Split, file, functions, rust, texts};

pub use source::rust as sources;

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
/// Tests may be tables of cases, which read better whole.
const TEST_LINES_MAX: usize = 100;

/// What ships: everything but tests.
const PRODUCT: &[&str] = &["src", "durable_objects", "queues"];
/// Crates that must not know the platform.
const PURE: &[&str] = &["src/domain", "src/store", "durable_objects", "queues"];

fn none(found: Vec<String>) {
    assert_eq!(found, Vec::<String>::new());
}

fn split(folders: &[&str]) -> Vec<(String, Split)> {
    let files = folders.iter().flat_map(|folder| rust(folder));
    files.map(|(path, text)| (path, Split::of(&text))).collect()
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.ends_with("tests.rs") || path.contains("/tests/")
}

/// The product without its tests.
fn shipped() -> Vec<(String, Split)> {
    let files = PRODUCT
        .iter()
        .flat_map(|folder| rust(folder))
        .filter(|(path, _)| !is_test(path));
    files
        .map(|(path, text)| {
            let product = text.split("#[cfg(test)]\nmod tests").next().unwrap_or("");
            (path, Split::of(product))
        })
        .collect()
}

/// Which of `words` stand in `text` as whole words.
fn words_in<'a>(text: &str, words: &[&'a str]) -> Vec<&'a str> {
    let joins = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    let stands = |word: &str| {
        text.match_indices(word)
            .any(|(at, _)| !joins(text[..at].chars().next_back()) && !joins(text[at + word.len()..].chars().next()))
    };
    words.iter().copied().filter(|word| stands(word)).collect()
}

#[test]
fn files_stay_small() {
    let measured = texts("").into_iter().filter(|(path, _)| {
        [".rs", ".mjs", ".sh", ".sql", ".toml"]
            .iter()
            .any(|ending| path.ends_with(ending))
    });
    let long = measured.filter(|(_, text)| text.lines().count() > FILE_LINES_MAX);
    none(
        long.map(|(path, text)| format!("{path}: {} lines", text.lines().count()))
            .collect(),
    );
}

#[test]
fn functions_stay_small() {
    let mut long = Vec::new();
    for (path, split) in split(&["src", "durable_objects", "queues", "tests"]) {
        let most = if is_test(&path) {
            TEST_LINES_MAX
        } else {
            FUNCTION_LINES_MAX
        };
        let found = functions(&split.code).into_iter().filter(|(_, lines)| *lines > most);
        long.extend(found.map(|(name, lines)| format!("{path}: {name} has {lines} lines")));
    }
    none(long);
}

#[test]
fn sql_is_written_in_the_store_only() {
    const SQL: &[&str] = &[
        "SELECT",
        "INSERT INTO",
        "DELETE FROM",
        "CREATE TABLE",
        "PRAGMA",
        "RETURNING",
    ];
    let mut found = Vec::new();
    for (path, split) in shipped() {
        // The D1 adapter tells reads from writes by the first word.
        if !path.starts_with("src/store/") && path != "src/platform/d1_wire.rs" {
            let words = words_in(&split.quoted, SQL);
            found.extend(words.iter().map(|word| format!("{path}: {word}")));
        }
    }
    none(found);
}

#[test]
fn only_the_root_package_knows_the_platform() {
    let mut found = Vec::new();
    for (path, split) in split(PURE) {
        let words = words_in(&split.code, &["worker", "js_sys", "web_sys", "wasm_bindgen"]);
        found.extend(words.iter().map(|word| format!("{path}: {word}")));
    }
    for crate_folder in PURE {
        let manifest = file(&format!("{crate_folder}/Cargo.toml"));
        found.extend(
            words_in(&manifest, &["worker", "js-sys"])
                .iter()
                .map(|word| format!("{crate_folder}: {word}")),
        );
    }
    none(found);
}

#[test]
fn the_arrows_between_crates_point_one_way() {
    let mut found = BTreeMap::new();
    for crate_folder in PURE {
        let manifest = file(&format!("{crate_folder}/Cargo.toml"));
        let (_, dependencies) = manifest.split_once("[dependencies]").expect("dependencies");
        let dependencies = dependencies.split("\n[").next().unwrap_or("");
        let ours = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
        let ours = ours.filter(|name| ["domain", "store", "objects", "queues", "conformance"].contains(name));
        found.insert(*crate_folder, ours.map(str::to_owned).collect::<Vec<_>>());
    }
    assert_eq!(found["src/domain"], Vec::<String>::new());
    assert_eq!(found["src/store"], ["domain"]);
    assert_eq!(found["durable_objects"], ["domain", "store"]);
    assert_eq!(found["queues"], ["domain", "store"]);
}

#[test]
fn time_and_randomness_come_from_the_platform_folder_only() {
    const AMBIENT: &[&str] = &[
        "SystemTime::now",
        "Instant::now",
        "Date::now",
        "getrandom",
        "thread_rng",
        "OsRng",
        "set_timeout",
    ];
    let mut found = Vec::new();
    for (path, split) in shipped() {
        if !path.starts_with("src/platform/") {
            found.extend(
                words_in(&split.code, AMBIENT)
                    .iter()
                    .map(|word| format!("{path}: {word}")),
            );
        }
    }
    none(found);
}

#[test]
fn logs_are_written_in_one_place() {
    const PRINTS: &[&str] = &[
        "println",
        "eprintln",
        "print",
        "eprint",
        "dbg",
        "console_log",
        "console_error",
        "console_warn",
        "console_debug",
    ];
    let mut found = Vec::new();
    for (path, split) in shipped() {
        if !path.starts_with("src/platform/") {
            let code = split.code.replace('!', " !");
            let called = words_in(&code, PRINTS)
                .into_iter()
                .filter(|word| code.contains(&format!("{word} !")));
            found.extend(called.map(|word| format!("{path}: {word}")));
        }
    }
    none(found);
}

#[test]
fn nothing_unfinished_or_private_is_left_in_the_text() {
    // Put together here, so that this file does not find itself.
    let whole = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("HA", "CK"),
        concat!("for", " now"),
        concat!("SP", "EC.md"),
        concat!("SP", "EC §"),
        concat!("PLAT", "FORM.md"),
        concat!("TOOL", "CHAIN.md"),
        concat!("AN", "CHORS.md"),
    ];
    let parts = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/tm", "p/brief"),
        concat!("local", "host:4873"),
    ];
    let mut found = Vec::new();
    for (path, text) in texts("") {
        found.extend(words_in(&text, &whole).iter().map(|word| format!("{path}: {word}")));
        found.extend(
            parts
                .iter()
                .filter(|part| text.contains(*part))
                .map(|part| format!("{path}: {part}")),
        );
    }
    none(found);
}

#[test]
fn lock_files_name_no_download_addresses() {
    let npm = file("package-lock.json");
    none(
        npm.lines()
            .filter(|line| line.contains("\"resolved\""))
            .map(str::to_owned)
            .collect(),
    );
    let cargo = file("Cargo.lock");
    let sources: BTreeSet<&str> = cargo
        .lines()
        .filter_map(|line| line.strip_prefix("source = "))
        .collect();
    assert_eq!(sources.len(), 1, "one registry, cargo's own: {sources:?}");
}

#[test]
fn migrations_are_numbered_without_gaps() {
    let names: Vec<String> = texts("migrations").into_iter().map(|(path, _)| path).collect();
    let sql: Vec<&String> = names.iter().filter(|path| path.ends_with(".sql")).collect();
    assert!(!sql.is_empty());
    for (at, path) in sql.iter().enumerate() {
        let number = path
            .strip_prefix("migrations/")
            .and_then(|name| name.split_once('_'))
            .map(|(number, _)| number);
        assert_eq!(number, Some(format!("{:04}", at + 1).as_str()), "{path}");
    }
}

#[test]
fn every_file_belongs_to_a_module() {
    let mut orphans = Vec::new();
    let files: Vec<(String, String)> = ["src", "durable_objects", "queues", "tests"]
        .iter()
        .flat_map(|f| rust(f))
        .collect();
    let declared: String = files.iter().map(|(_, text)| text.as_str()).collect();
    for (path, _) in &files {
        let parts: Vec<&str> = path.rsplitn(3, '/').collect();
        let stem = parts[0].trim_end_matches(".rs");
        let name = if stem == "mod" { parts[1] } else { stem };
        let root = ["lib", "main"].contains(&stem) || path.contains("/bin/");
        let known = words_in(&declared, &[format!("mod {name}").as_str()]).len() == 1
            || declared.contains(&format!("#[path = \"{stem}.rs\"]"));
        if !root && !known {
            orphans.push(path.clone());
        }
    }
    none(orphans);
}
