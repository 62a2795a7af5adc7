//! What the clients of a world saw, and what was found wrong.

use std::collections::BTreeMap;
use std::fmt;

use domain::guard::Guard;
use domain::turn::protocol::{ChatAnswer, ChatRefusal};

use super::plan::Send;

/// A rule that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub rule: &'static str,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.detail)
    }
}

/// How one request ended for its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    Answer {
        answer: Box<ChatAnswer>,
        replayed: bool,
    },
    Refused(ChatRefusal),
    /// The connection broke.
    Lost,
    /// The client hung up.
    Left,
}

impl Ending {
    /// Whether the client knows how its message ended, and asking again would be pointless.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Answer { .. } => true,
            Self::Refused(refusal) => refusal.new_key_required || refusal.retry_after.is_none(),
            Self::Lost | Self::Left => false,
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Answer { replayed: false, .. } => "answered".to_owned(),
            Self::Answer { replayed: true, .. } => "replayed".to_owned(),
            Self::Refused(refusal) => refusal.code.slug().to_owned(),
            Self::Lost => "(connection lost)".to_owned(),
            Self::Left => "(client left)".to_owned(),
        }
    }
}

/// One request of a client and all that came back.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub user: usize,
    pub key: u32,
    pub variant: u32,
    pub gateway: bool,
    pub request_hash: String,
    /// The turn this request became, as far as the client was told.
    pub told_turn: Option<String>,
    /// The pieces of an answer that were shown, each with the step of the world at which it came.
    pub shown: Vec<(u64, String)>,
    pub ending: Ending,
    /// What the client said.
    pub words: String,
    /// Simulated milliseconds from the request to its end.
    pub took: i64,
}

/// What a client says in a message; no two requests that differ say the same.
pub fn words(send: &Send) -> String {
    let Send { user, key, variant, .. } = send;
    let way = if send.gateway { "posts" } else { "says" };
    format!("<u{user}> {way} {key}.{variant} {:?}", send.conversation)
}

/// Whose words `text` holds: every word of a user carries their mark.
pub fn marks(text: &str) -> Vec<usize> {
    text.split("<u")
        .skip(1)
        .filter_map(|rest| rest.split('>').next()?.parse().ok())
        .collect()
}

/// What came of one world.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub seed: u64,
    pub turns: usize,
    /// How the turns ended, by status and error code.
    pub turn_endings: BTreeMap<String, u64>,
    /// How the requests ended, by problem code.
    pub request_endings: BTreeMap<String, u64>,
    pub refusals: BTreeMap<Guard, u64>,
    pub model_calls: usize,
    pub killed: u64,
    pub batches: u64,
    pub steps: u64,
    pub violations: Vec<Violation>,
}

impl Report {
    pub fn count_attempts(&mut self, attempts: &[Attempt]) {
        for attempt in attempts {
            *self.request_endings.entry(attempt.ending.label()).or_default() += 1;
        }
    }

    /// Adds what another world saw.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.model_calls += other.model_calls;
        self.killed += other.killed;
        self.batches += other.batches;
        self.steps += other.steps;
        for (ending, count) in &other.turn_endings {
            *self.turn_endings.entry(ending.clone()).or_default() += count;
        }
        for (ending, count) in &other.request_endings {
            *self.request_endings.entry(ending.clone()).or_default() += count;
        }
        for (guard, count) in &other.refusals {
            *self.refusals.entry(*guard).or_default() += count;
        }
        self.violations.extend(other.violations.iter().cloned());
    }
}
