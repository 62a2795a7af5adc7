//! What may be printed: types that hold words, names or secrets write their own `Debug`.

use super::{none, shipped};

/// Fields that by their name hold what someone said, who they are, or what lets someone in.
const PRIVATE: &[&str] = &[
    "text",
    "message",
    "reply",
    "content",
    "body",
    "plaintext",
    "subject",
    "external_id",
    "token",
    "secret",
    "password",
    "api_key",
    "key",
    "assertion",
    "authorization",
    "value",
    "idp_sub",
];

/// The definitions that derive `Debug`, each from its name to the end of its fields.
fn deriving_debug(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("#[derive(") {
        let tail = &code[at..];
        let Some((derived, rest)) = tail.split_once(")]") else {
            continue;
        };
        let debug = derived.split(['(', ',', ' ']).any(|name| name.trim() == "Debug");
        let end = rest.find("\n}").or_else(|| rest.find(';')).unwrap_or(rest.len());
        if debug {
            found.push(&rest[..end]);
        }
    }
    found
}

/// Whether `line` declares a private field that is bare text or bytes.
fn bare(line: &str) -> Option<&str> {
    let (name, kind) = line.split_once(": ")?;
    let name = name.rsplit([' ', '{']).next()?;
    let kind = kind
        .trim_start_matches("Option<")
        .trim_start_matches("&'a ")
        .trim_start_matches("Cow<'a, ");
    let loose = ["String", "str", "Vec<u8>", "[u8"]
        .iter()
        .any(|loose| kind.starts_with(loose));
    (PRIVATE.contains(&name) && loose).then_some(name)
}

#[test]
fn types_that_hold_words_names_or_secrets_do_not_derive_debug() {
    let mut found = Vec::new();
    for (path, split) in shipped() {
        for definition in deriving_debug(&split.code) {
            let title = definition
                .split(['{', '('])
                .next()
                .unwrap_or("")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            let fields = definition.split([',', '\n']).filter_map(|line| bare(line.trim()));
            found.extend(fields.map(|field| format!("{path}: {title} prints {field}")));
        }
    }
    none(found);
}

#[test]
fn bare_fields_are_found() {
    let code = "#[derive(Clone, Debug)]\npub struct A {\n    pub text: String,\n}\n#[derive(Clone)]\nstruct B {\n  text: String,\n}\n\
        #[derive(Debug)]\nenum C {\n    D { secret: Option<String> },\n}\n";
    let found: Vec<_> = deriving_debug(code)
        .into_iter()
        .flat_map(|definition| definition.split([',', '\n']))
        .filter_map(|line| bare(line.trim()))
        .collect();
    assert_eq!(found, ["text", "secret"]);
}
