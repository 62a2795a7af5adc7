//! Reading the repository's own files.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository's top folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the top folder")
        .to_owned()
}

/// Made by tools, or not kept in the repository.
const SKIPPED: &[&str] = &["target", "build", "node_modules", "Cargo.lock", "package-lock.json"];

/// Every text file under `folder` with its path from the top, in order.
pub fn texts(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a folder entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a plain name");
            // Hidden files are state of tools, except the continuous integration's own script.
            if SKIPPED.contains(&name) || (name.starts_with('.') && name != ".ci") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                let name = path
                    .strip_prefix(root())
                    .expect("below the top")
                    .to_str()
                    .expect("a plain path");
                found.push((name.to_owned(), text));
            }
        }
    }
    found.sort();
    found
}

/// Every Rust file under `folder`.
pub fn rust(folder: &str) -> Vec<(String, String)> {
    texts(folder)
        .into_iter()
        .filter(|(path, _)| path.ends_with(".rs"))
        .collect()
}

/// One file, by its path from the top.
pub fn file(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A Rust text split in two of the same shape: code without what is quoted, and what is quoted without code.
/// Comments are in neither.
pub struct Split {
    pub code: String,
    pub quoted: String,
}

impl Split {
    pub fn of(text: &str) -> Self {
        let chars: Vec<char> = text.chars().collect();
        let mut split = Self {
            code: String::new(),
            quoted: String::new(),
        };
        let mut at = 0;
        while at < chars.len() {
            let next = end_of_piece(&chars, at);
            let piece = &chars[at..next.end];
            split.push(piece, next.kind);
            at = next.end;
        }
        split
    }

    fn push(&mut self, piece: &[char], kind: Kind) {
        for char in piece {
            let blank = if *char == '\n' { '\n' } else { ' ' };
            self.code.push(if kind == Kind::Code { *char } else { blank });
            self.quoted.push(if kind == Kind::Quoted { *char } else { blank });
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Quoted,
    Comment,
}

struct Piece {
    end: usize,
    kind: Kind,
}

fn end_of_piece(chars: &[char], at: usize) -> Piece {
    let rest = &chars[at..];
    let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    let piece = |length: usize, kind| Piece {
        end: (at + length).min(chars.len()),
        kind,
    };
    match rest {
        ['/', '/', ..] => piece(
            rest.iter().position(|char| *char == '\n').unwrap_or(rest.len()),
            Kind::Comment,
        ),
        ['/', '*', ..] => piece(
            position(rest, &['*', '/'], 2).map_or(rest.len(), |end| end + 2),
            Kind::Comment,
        ),
        ['r', '"' | '#', ..] if !after_word => raw(rest).map_or(piece(1, Kind::Code), |end| piece(end, Kind::Quoted)),
        ['"', ..] => piece(quoted(rest), Kind::Quoted),
        // A character and not a lifetime.
        ['\'', '\\', ..] => piece(
            position(rest, &['\''], 3).map_or(rest.len(), |end| end + 1),
            Kind::Quoted,
        ),
        ['\'', _, '\'', ..] => piece(3, Kind::Quoted),
        _ => piece(1, Kind::Code),
    }
}

fn position(rest: &[char], wanted: &[char], from: usize) -> Option<usize> {
    (from..rest.len()).find(|at| rest[*at..].starts_with(wanted))
}

fn quoted(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    at + 1
}

fn raw(rest: &[char]) -> Option<usize> {
    let marks = rest[1..].iter().take_while(|char| **char == '#').count();
    if rest.get(marks + 1) != Some(&'"') {
        return None;
    }
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', marks));
    position(rest, &end, marks + 2).map(|at| at + end.len())
}

/// Every function of the code with its name and how many lines it takes, signature included.
pub fn functions(code: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|char| char.is_alphanumeric() || char == '_') {
            continue;
        }
        let tail = &code[at + 3..];
        let name: String = tail
            .chars()
            .take_while(|char| char.is_alphanumeric() || *char == '_')
            .collect();
        if let Some(length) = body_end(tail) {
            found.push((name, tail[..length].lines().count()));
        }
    }
    found
}

/// Where the body behind a signature ends; `None` when there is no body.
fn body_end(tail: &str) -> Option<usize> {
    let (mut round, mut curly) = (0_i32, 0_i32);
    for (at, char) in tail.char_indices() {
        match char {
            '(' | '[' => round += 1,
            ')' | ']' => round -= 1,
            ';' if round == 0 && curly == 0 => return None,
            '{' => curly += 1,
            '}' => {
                curly -= 1;
                if curly == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[test]
fn code_quotes_and_comments_are_told_apart() {
    let text = "let a = \"x\\\"y\"; // c\nlet b = r#\"p\"q\"#; /* d */ f('\"', 'l: loop, '\\'');";
    let split = Split::of(text);
    let squeezed: String = split.code.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed, "let a = ; let b = ; f( , 'l: loop, );");
    let squeezed: String = split.quoted.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(squeezed, "\"x\\\"y\" r#\"p\"q\"# '\"' '\\''");
    assert_eq!(split.code.lines().count(), 2);
}

#[test]
fn functions_are_measured() {
    let code =
        "trait T {\n  fn no_body(a: [u8; 2]);\n}\nasync fn two() {\n}\nfn four<T>(\n  a: T,\n) {\n}\nlet fnord = 1;";
    assert_eq!(functions(code), [("two".to_owned(), 2), ("four".to_owned(), 4)]);
}
