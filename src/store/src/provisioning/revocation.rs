//! Revocation times: tokens issued before them are refused.

use domain::auth::provisioning::Revocation;
use domain::ids::{GatewayId, UserId};
use domain::sql::Statement;
use domain::time::Timestamp;

use super::Command;
use crate::idempotency::store_result;

/// `tokens_valid_from` as `domain::rfc3339::format` would write it. Whole numbers only: through a floating-point
/// second the last digit could be off by one.
macro_rules! valid_from_text {
    () => {
        "strftime('%Y-%m-%dT%H:%M:%S', tokens_valid_from / 1000, 'unixepoch')
  || printf('.%03dZ', tokens_valid_from % 1000)"
    };
}

/// Tokens to be revoked.
pub struct Revoke<'a> {
    pub revocation: &'a Revocation,
    /// Tokens issued before this count no longer. A later time that is set already stays.
    pub now: Timestamp,
}

impl Revoke<'_> {
    /// The whole command. Refused by `token_current` or `key_unused`, and as `Constraint` when there is no such user
    /// or gateway.
    ///
    /// The guards come first, so the operator's own token may be among those that the batch makes stale.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        match self.revocation {
            Revocation::User { user_id } => self.user(command, user_id),
            Revocation::Gateway { gateway_id } => self.gateway(command, gateway_id),
            Revocation::All {} => self.all(command),
        }
    }

    fn user(&self, command: &Command<'_>, user_id: &UserId) -> Vec<Statement> {
        let revoke = Statement {
            name: "revoke_user",
            sql: "UPDATE users SET tokens_valid_from = ?2, updated_at = ?2
WHERE user_id = ?1 AND tokens_valid_from < CAST(?2 AS INTEGER)",
            binds: vec![user_id.into(), self.now.into()],
        };
        // Where the user is not there, the response is NULL, which the table refuses.
        let result = store_result!(
            concat!(
                "200, (SELECT json_object('scope', 'user', 'user_id', user_id, 'tokens_valid_from', ",
                valid_from_text!(),
                ") FROM users WHERE user_id = ?7)"
            ),
            "WHERE true"
        );
        command.batch(vec![revoke], command.result(result, user_id.as_str()))
    }

    fn gateway(&self, command: &Command<'_>, gateway_id: &GatewayId) -> Vec<Statement> {
        let revoke = Statement {
            name: "revoke_gateway",
            sql: "UPDATE gateways SET tokens_valid_from = ?2, updated_at = ?2
WHERE gateway_id = ?1 AND tokens_valid_from < CAST(?2 AS INTEGER)",
            binds: vec![gateway_id.into(), self.now.into()],
        };
        // As for users.
        let result = store_result!(
            concat!(
                "200, (SELECT json_object('scope', 'gateway', 'gateway_id', gateway_id, 'tokens_valid_from', ",
                valid_from_text!(),
                ") FROM gateways WHERE gateway_id = ?7)"
            ),
            "WHERE true"
        );
        command.batch(vec![revoke], command.result(result, gateway_id.as_str()))
    }

    fn all(&self, command: &Command<'_>) -> Vec<Statement> {
        let revoke = Statement {
            name: "revoke_all",
            sql: "UPDATE meta SET tokens_valid_from = ?1 WHERE id = 1 AND tokens_valid_from < CAST(?1 AS INTEGER)",
            binds: vec![self.now.into()],
        };
        let result = store_result!(
            concat!(
                "200, json_object('scope', ?7, 'tokens_valid_from', ",
                valid_from_text!(),
                ")"
            ),
            "FROM meta WHERE id = 1"
        );
        command.batch(vec![revoke], command.result(result, "all"))
    }
}
