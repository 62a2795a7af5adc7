//! Writing the directory: one guarded batch per command, which also stores the command's result under its key.
//!
//! Every command but a revocation replaces a resource as a whole; each may be repeated. What a token's holder may do is read from these
//! rows when the token is issued, so each change of it moves `authorization_revision` and makes older tokens stale.

mod catalogue;
mod people;
mod revocation;
mod services;

pub use catalogue::catalogue;
pub use people::{Family, Identity, User};
pub use revocation::Revoke;
pub use services::{Address, Gateway, Switch, Upstream};

use domain::auth::Principal;
use domain::keys::{DataKey, WrappedKey};
use domain::sql::Statement;

use crate::idempotency::KeyUse;
use crate::token;

/// Who commands, and under which key.
pub struct Command<'a> {
    pub principal: &'a Principal,
    pub key: KeyUse<'a>,
}

/// A data key made for a subject that may not have one yet.
pub struct NewKey<'a> {
    pub key: &'a DataKey,
    pub wrapped: &'a WrappedKey,
}

impl Command<'_> {
    /// Guards, then the changes, then the result.
    pub(crate) fn batch(&self, changes: Vec<Statement>, result: Statement) -> Vec<Statement> {
        let mut batch = vec![token::token_current(self.principal), self.key.key_unused()];
        batch.extend(changes);
        batch.push(result);
        batch
    }

    /// Stores a failure as this command's result, under the same guards.
    pub fn fail(&self, status: u16, response: &str) -> Vec<Statement> {
        self.batch(vec![], self.key.store(status, response))
    }

    pub(crate) fn result(&self, sql: &'static str, id: &str) -> Statement {
        let mut binds = self.key.result_binds();
        binds.push(id.into());
        Statement {
            name: "store_result",
            sql,
            binds,
        }
    }
}

/// A list as it is bound for `json_each`. Serialising plain strings cannot fail; a lost list would grant nothing.
fn json_list<T: serde::Serialize>(list: &[T]) -> String {
    serde_json::to_string(list).unwrap_or_else(|_| "[]".to_owned())
}
