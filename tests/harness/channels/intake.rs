//! The rules of taking updates in that are checked the moment a batch commits.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use domain::sql::{Statement, Value};

use crate::sqlite::Database;
use crate::world::watch::{Watch, bound_text};

/// Clones are the same.
#[derive(Clone)]
pub struct Intake {
    watch: Watch,
    /// Codes that have bound a chat.
    used: Rc<RefCell<BTreeSet<String>>>,
}

/// Whether the turn's sender may be spoken for at this moment, by what the directory says.
const SENDER: &str = "
SELECT d.status = 'active' AND d.user_id = t.user_id AND d.gateway_id = t.gateway_id AND d.channel = t.channel
   AND u.status = 'active' AND u.family_id = t.family_id AND u.authorization_revision = t.authorization_revision
   AND f.status = 'active' AND g.status IN ('active', 'broken')
   AND EXISTS (SELECT 1 FROM gateway_families p WHERE p.gateway_id = g.gateway_id AND p.family_id = u.family_id)
   AS current
FROM turns t LEFT JOIN channel_addresses d ON d.address_id = t.address_id
JOIN users u ON u.user_id = t.user_id JOIN families f ON f.family_id = u.family_id
LEFT JOIN gateways g ON g.gateway_id = t.gateway_id
WHERE t.turn_id = ?1";

impl Intake {
    pub fn new(watch: Watch) -> Self {
        Self {
            watch,
            used: Rc::default(),
        }
    }

    /// Looks at a batch that just committed.
    pub fn look(&self, database: &Database, batch: &[Statement]) {
        for statement in batch {
            match statement.name {
                "insert_turn" => self.check_sender(database, bound_text(statement, 0)),
                "use_link_code" => self.check_code(database, statement),
                "bind_address" => self.check_bond(database, batch, statement),
                _ => {}
            }
        }
    }

    fn check_sender(&self, database: &Database, turn: &str) {
        let rows = database.query(SENDER, &[turn.into()]);
        let current = rows
            .first()
            .is_some_and(|row| row.optional_integer("current") == Ok(Some(1)));
        self.watch.that(current, "sender_known", || {
            format!("{turn} was accepted from who may not be spoken for")
        });
    }

    fn check_code(&self, database: &Database, statement: &Statement) {
        let code = bound_text(statement, 0);
        let first = self.used.borrow_mut().insert(code.to_owned());
        self.watch
            .that(first, "code_used_once", || "a link code was used twice".to_owned());
        let sql = "SELECT 1 AS v FROM link_codes WHERE code_hash = ?1 AND used_at < expires_at";
        let alive = !database.query(sql, &[code.into()]).is_empty();
        self.watch
            .that(alive, "code_alive", || "a link code was used after its end".to_owned());
    }

    fn check_bond(&self, database: &Database, batch: &[Statement], bond: &Statement) {
        let code = batch.iter().find(|statement| statement.name == "use_link_code");
        let code = code.map_or("", |statement| bound_text(statement, 0));
        let sql = "SELECT 1 AS v FROM link_codes WHERE code_hash = ?1 AND user_id = ?2";
        let bind = |at: usize| bond.binds.get(at).cloned().unwrap_or(Value::Null);
        let own = !database.query(sql, &[code.into(), bind(3)]).is_empty();
        self.watch.that(own, "code_proves", || {
            "a chat was bound to someone other than the code was made for".to_owned()
        });
        let sql = "SELECT user_id AS v FROM channel_addresses
                   WHERE gateway_id = ?1 AND channel = ?2 AND external_hash = ?3 AND status = 'active'";
        let rows = database.query(sql, &[bind(1), bind(2), bind(4)]);
        let theirs = rows.first().and_then(|row| row.value("v").ok()) == Some(&bind(3));
        self.watch
            .that(theirs, "code_binds", || "a code did not bind its chat".to_owned());
    }
}
