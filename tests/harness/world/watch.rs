//! The rules that are checked at the very moment a batch commits, against the database as it is then.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use domain::auth::Principal;
use domain::guard::Guard;
use domain::ids::TurnId;
use domain::sql::{Outcome, Refusal, Row, Statement, Value};

use crate::sqlite::Database;
use crate::world::people::People;
use crate::world::record::Violation;

/// Who runs in a user's line.
#[derive(Clone, PartialEq, Eq)]
struct Head {
    running_turn: Option<String>,
    run_until: Option<i64>,
}

/// The watcher of one world. Clones are the same.
#[derive(Clone)]
pub struct Watch(Rc<Inner>);

struct Inner {
    people: Rc<People>,
    /// Messages come from clients with tokens.
    clients: bool,
    /// The token that each request came with, by the turn id the edge gave it.
    tokens: RefCell<BTreeMap<String, (usize, Principal)>>,
    heads: RefCell<BTreeMap<String, Head>>,
    refusals: RefCell<BTreeMap<Guard, u64>>,
    violations: RefCell<Vec<Violation>>,
}

impl Watch {
    pub fn new(people: Rc<People>) -> Self {
        Self::over(people, true)
    }

    /// For a world where nobody comes with a token.
    pub fn without_clients(people: Rc<People>) -> Self {
        Self::over(people, false)
    }

    fn over(people: Rc<People>, clients: bool) -> Self {
        Self(Rc::new(Inner {
            people,
            clients,
            tokens: RefCell::default(),
            heads: RefCell::default(),
            refusals: RefCell::default(),
            violations: RefCell::default(),
        }))
    }

    pub fn expect_turn(&self, turn: &TurnId, user: usize, principal: Principal) {
        self.0.tokens.borrow_mut().insert(turn.to_string(), (user, principal));
    }

    pub fn wrong(&self, rule: &'static str, detail: String) {
        self.0.violations.borrow_mut().push(Violation { rule, detail });
    }

    /// Notes a violation unless `held`.
    pub fn that(&self, held: bool, rule: &'static str, detail: impl FnOnce() -> String) {
        if !held {
            self.wrong(rule, detail());
        }
    }

    pub fn violations(&self) -> Vec<Violation> {
        self.0.violations.borrow().clone()
    }

    pub fn refusals(&self) -> BTreeMap<Guard, u64> {
        self.0.refusals.borrow().clone()
    }

    /// Looks at a batch that just ran.
    pub fn look(&self, database: &Database, batch: &[Statement], outcome: &Outcome) {
        match outcome {
            Outcome::Committed(_) => {}
            Outcome::Refused(Refusal::Guard(guard)) => {
                *self.0.refusals.borrow_mut().entry(*guard).or_default() += 1;
                return;
            }
            Outcome::Refused(refusal @ (Refusal::Constraint | Refusal::Malformed)) => {
                let names: Vec<&str> = batch.iter().map(|statement| statement.name).collect();
                return self.wrong("no_defect", format!("{refusal:?} in {}", names.join(", ")));
            }
            Outcome::NotStarted(_) | Outcome::Unknown => return,
        }
        for statement in batch {
            match statement.name {
                "epoch_current" => self.epoch(database, statement),
                "insert_turn" if self.0.clients => self.accepted(database, statement),
                "insert_user_message" | "insert_assistant_message" => self.sealed(database, statement),
                "take_line" => self.started(database, statement),
                _ => {}
            }
        }
        let held = batch.iter().any(|statement| statement.name == "run_held");
        for statement in batch
            .iter()
            .filter(|statement| statement.name == "end_in_failure" && !held)
        {
            self.ended_from_outside(database, statement);
        }
        let moves = |statement: &Statement| matches!(statement.name, "take_line" | "advance_head" | "free_line");
        if batch.iter().any(moves) {
            self.note_heads(database);
        }
    }

    fn epoch(&self, database: &Database, statement: &Statement) {
        let rows = database.query("SELECT epoch FROM meta", &[]);
        let now = rows.first().and_then(|row| row.value("epoch").ok());
        if now != statement.binds.first() {
            self.wrong(
                "old_epoch",
                format!("written under epoch {:?}, now {now:?}", statement.binds.first()),
            );
        }
    }

    fn accepted(&self, database: &Database, statement: &Statement) {
        let turn = bound_text(statement, 0);
        let tokens = self.0.tokens.borrow();
        let Some((user, token)) = tokens.get(turn) else {
            return self.wrong("accept", format!("{turn} was never asked for"));
        };
        if !self.0.people.is_current(database, *user, token) {
            self.wrong("stale_token", format!("{turn} was accepted with a stale token"));
        }
    }

    fn sealed(&self, database: &Database, statement: &Statement) {
        let turn = bound_text(statement, 0);
        let sql = "SELECT 1 AS v FROM messages m JOIN data_keys k ON k.key_id = m.content_key_id
                   WHERE m.turn_id = ?1 AND k.destroyed_at IS NOT NULL AND m.role = ?2";
        let role = if statement.name == "insert_user_message" {
            "user"
        } else {
            "assistant"
        };
        if !database.query(sql, &[turn.into(), role.into()]).is_empty() {
            self.wrong(
                "destroyed_key",
                format!("{role} message of {turn} written under a destroyed key"),
            );
        }
    }

    fn started(&self, database: &Database, statement: &Statement) {
        let (user, turn) = (bound_text(statement, 0), bound_text(statement, 1));
        let sql = "SELECT generation_started_at AS at, arrival_no,
                     (SELECT count(*) FROM turns o WHERE o.user_id = t.user_id AND o.terminal_at IS NULL
                        AND o.status IN ('accepted', 'processing') AND o.arrival_no < t.arrival_no) AS older
                   FROM turns t WHERE turn_id = ?1";
        let rows = database.query(sql, &[turn.into()]);
        let Some(row) = rows.first() else { return };
        if row.integer("older") != Ok(0) {
            self.wrong(
                "arrival_order",
                format!("{turn} started before an older turn had ended"),
            );
        }
        let started = row.integer("at").unwrap_or_default();
        if let Some(head) = self.0.heads.borrow().get(user)
            && head.run_until.is_some_and(|until| until > started)
        {
            self.wrong(
                "one_at_a_time",
                format!("{turn} started while {:?} held the line", head.running_turn),
            );
        }
    }

    /// While a run's lease lasts, no one but that run may end its turn.
    fn ended_from_outside(&self, database: &Database, statement: &Statement) {
        let turn = bound_text(statement, 0);
        let rows = database.query(
            "SELECT user_id, terminal_at FROM turns WHERE turn_id = ?1",
            &[turn.into()],
        );
        let Some(row) = rows.first() else { return };
        let ended = row.integer("terminal_at").unwrap_or_default();
        if let Ok(user) = row.text("user_id")
            && let Some(head) = self.0.heads.borrow().get(user)
            && head.running_turn.as_deref() == Some(turn)
            && head.run_until.is_some_and(|until| until > ended)
        {
            self.wrong("one_at_a_time", format!("{turn} was ended while a living run held it"));
        }
    }

    fn note_heads(&self, database: &Database) {
        let mut heads = self.0.heads.borrow_mut();
        for row in database.query("SELECT user_id, running_turn, run_until FROM user_heads", &[]) {
            heads.insert(row.text("user_id").expect("a user").to_owned(), head(&row));
        }
    }
}

fn head(row: &Row) -> Head {
    Head {
        running_turn: row
            .optional_text("running_turn")
            .expect("a turn or NULL")
            .map(str::to_owned),
        run_until: row.optional_integer("run_until").expect("a time or NULL"),
    }
}

pub fn bound_text(statement: &Statement, at: usize) -> &str {
    match statement.binds.get(at) {
        Some(Value::Text(text)) => text,
        other => panic!("{} binds {other:?} where an id is looked for", statement.name),
    }
}
