//! Names that stand both in wrangler.toml and in the code.

use std::collections::{BTreeMap, BTreeSet};

use queues::inbox::Inbox;

use super::source::{file, rust};

/// What the code may be bound to, and whether a deployment must have it.
const BINDINGS: &[(&str, bool)] = &[
    ("DB", true),
    ("USER_TURNS", true),
    ("JOBS", true),
    ("SENDS", true),
    ("VER", true),
    ("CHECKPOINT", false),
];

/// The value of `key = "value"`, wherever in the line it stands.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (before, rest) = line.split_once(&format!("{key} = \""))?;
    let alone = before
        .chars()
        .next_back()
        .is_none_or(|char| !char.is_alphanumeric() && char != '_');
    alone.then(|| rest.split('"').next()).flatten()
}

/// The bindings of each environment; `""` is the top level.
fn bindings() -> BTreeMap<String, BTreeSet<String>> {
    let (mut environment, mut objects) = (String::new(), false);
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in file("wrangler.toml").lines() {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_matches(['[', ']']);
            environment = header
                .strip_prefix("env.")
                .and_then(|rest| rest.split('.').next())
                .unwrap_or("")
                .to_owned();
            objects = header.ends_with("durable_objects.bindings");
        }
        let name = if objects { value_of(line, "name") } else { None };
        for binding in value_of(line, "binding").into_iter().chain(name) {
            found.entry(environment.clone()).or_default().insert(binding.to_owned());
        }
    }
    found
}

/// The root package's text.
fn root_code() -> String {
    let files = rust("src").into_iter();
    let root = files.filter(|(path, _)| !path.starts_with("src/domain/") && !path.starts_with("src/store/"));
    root.map(|(_, text)| text).collect()
}

#[test]
fn every_environment_binds_what_the_code_needs_and_no_test_door() {
    let required: BTreeSet<String> = BINDINGS
        .iter()
        .filter(|(_, required)| *required)
        .map(|(name, _)| (*name).to_owned())
        .collect();
    let bindings = bindings();
    for environment in ["staging", "production"] {
        assert_eq!(bindings.get(environment), Some(&required), "{environment}");
    }
}

#[test]
fn the_code_asks_for_the_bindings_by_these_names() {
    let code = root_code();
    for (name, _) in BINDINGS {
        assert!(code.contains(&format!("\"{name}\"")), "no code asks for {name}");
    }
}

#[test]
fn durable_object_classes_agree() {
    let wrangler = file("wrangler.toml");
    let declared: BTreeSet<&str> = wrangler
        .lines()
        .filter_map(|line| line.strip_prefix("[exports.").and_then(|rest| rest.strip_suffix(']')))
        .collect();
    let bound: BTreeSet<&str> = wrangler
        .lines()
        .filter_map(|line| value_of(line, "class_name"))
        .collect();
    assert_eq!(declared, bound);
    let exports = file("src/lib.rs");
    let written: BTreeSet<&str> = exports
        .split("#[durable_object")
        .skip(1)
        .filter_map(|tail| tail.split_once("struct ").map(|(_, name)| name))
        .map(|name| name.split(|char: char| !char.is_alphanumeric()).next().unwrap_or(""))
        .collect();
    assert_eq!(written, declared);
}

#[test]
fn every_queue_that_is_consumed_has_its_consumer() {
    let (mut consumed, mut consumers) = (0, false);
    for line in file("wrangler.toml").lines() {
        if line.starts_with('[') {
            consumers = line.ends_with("queues.consumers]]");
        } else if let Some(queue) = value_of(line, "queue").filter(|_| consumers) {
            assert!(Inbox::of(queue).is_some(), "{queue}");
            consumed += 1;
        } else if let Some(queue) = value_of(line, "dead_letter_queue").filter(|_| consumers) {
            assert_eq!(Inbox::of(queue), Some(Inbox::Dead), "{queue}");
        }
    }
    // Jobs, sends and the dead letters of both, in staging and in production.
    assert_eq!(consumed, 8);
}

#[test]
fn variables_that_are_set_are_read() {
    let settings = file("src/domain/src/settings.rs");
    let mut in_vars = false;
    for line in file("wrangler.toml").lines() {
        if line.starts_with('[') {
            in_vars = line.ends_with(".vars]");
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| in_vars) {
            assert!(
                settings.contains(&format!("\"{name}\"")),
                "{name} is set but never read"
            );
        }
    }
}

#[test]
fn toml_lines_are_read() {
    assert_eq!(
        value_of("version_metadata = { binding = \"VER\" }", "binding"),
        Some("VER")
    );
    assert_eq!(value_of("class_name = \"UserTurns\"", "name"), None);
    assert_eq!(value_of("name = \"X\"", "name"), Some("X"));
}
