//! One suite per port: the same checks on the native fakes and inside workerd.
//!
//! A suite never panics: it gives back one named [`Check`] for each behaviour, so that it can run inside the Worker
//! and be read as JSON from outside.

pub mod clock;
pub mod entropy;
pub mod object;
pub mod queue;
pub mod sql;

use std::fmt::Debug;

use serde::Serialize;

/// Whether one behaviour is as the service relies on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: String,
    pub held: bool,
    /// What was seen where it did not hold.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub seen: String,
}

/// The checks of one suite, in the order they were made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report(pub Vec<Check>);

impl Report {
    /// The checks that did not hold.
    pub fn failures(&self) -> Vec<&Check> {
        self.0.iter().filter(|check| !check.held).collect()
    }

    fn that(&mut self, name: impl Into<String>, held: bool, seen: impl Debug) {
        let seen = if held { String::new() } else { format!("{seen:?}") };
        self.0.push(Check {
            name: name.into(),
            held,
            seen,
        });
    }

    fn equal<T: PartialEq + Debug>(&mut self, name: impl Into<String>, seen: T, wanted: T) {
        let held = seen == wanted;
        self.that(name, held, (seen, "wanted", wanted));
    }
}
