//! Families, users, and who a user is at an upstream.

use domain::auth::provisioning::{FamilyPut, UserPut};
use domain::ids::{FamilyId, UserId};
use domain::sql::Statement;
use domain::time::Timestamp;

use super::{Command, NewKey};
use crate::idempotency::store_result;
use crate::keys;

/// A family to be written.
pub struct Family<'a> {
    pub family_id: &'a FamilyId,
    pub put: &'a FamilyPut,
    pub new_key: NewKey<'a>,
}

impl Family<'_> {
    /// The whole command. Refused by `token_current` or `key_unused`.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        let now = command.key.now;
        let changes = vec![
            Statement {
                name: "bump_users_of_family",
                sql: "UPDATE users SET authorization_revision = authorization_revision + 1, updated_at = ?3
WHERE family_id = ?1 AND EXISTS (SELECT 1 FROM families WHERE family_id = ?1 AND status <> ?2)",
                binds: vec![self.family_id.into(), self.put.status.as_str().into(), now.into()],
            },
            Statement {
                name: "put_family",
                sql: "INSERT INTO families (family_id, status, created_at, updated_at) VALUES (?1, ?2, ?3, ?3)
ON CONFLICT (family_id) DO UPDATE SET status = excluded.status, updated_at = excluded.updated_at
WHERE families.status <> excluded.status",
                binds: vec![self.family_id.into(), self.put.status.as_str().into(), now.into()],
            },
            keys::insert_key(self.new_key.key, self.new_key.wrapped, now),
        ];
        let result = store_result!(
            "200, json_object('family_id', family_id, 'status', status)",
            "FROM families WHERE family_id = ?7"
        );
        command.batch(changes, command.result(result, self.family_id.as_str()))
    }
}

/// A user to be written.
pub struct User<'a> {
    pub user_id: &'a UserId,
    pub put: &'a UserPut,
    pub new_key: NewKey<'a>,
}

impl User<'_> {
    /// The whole command. Refused by `token_current` or `key_unused`, and as `Constraint` when there is no such
    /// family.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        let now = command.key.now;
        let changes = vec![
            self.put_user(now),
            keys::insert_key(self.new_key.key, self.new_key.wrapped, now),
            Statement {
                name: "open_user_head",
                sql: "INSERT INTO user_heads (user_id) VALUES (?1) ON CONFLICT (user_id) DO NOTHING",
                binds: vec![self.user_id.into()],
            },
        ];
        let result = store_result!(
            "200, json_object('user_id', user_id, 'family_id', family_id, 'role', role, 'status', status,
  'authorization_revision', authorization_revision)",
            "FROM users WHERE user_id = ?7"
        );
        command.batch(changes, command.result(result, self.user_id.as_str()))
    }

    fn put_user(&self, now: Timestamp) -> Statement {
        Statement {
            name: "put_user",
            sql: "INSERT INTO users (user_id, family_id, role, status, authorization_revision, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, 1, ?5, ?5)
ON CONFLICT (user_id) DO UPDATE SET family_id = excluded.family_id, role = excluded.role, status = excluded.status,
  authorization_revision = users.authorization_revision + 1, updated_at = excluded.updated_at
WHERE users.family_id <> excluded.family_id OR users.role <> excluded.role OR users.status <> excluded.status",
            binds: vec![
                self.user_id.into(),
                (&self.put.family_id).into(),
                self.put.role.as_str().into(),
                self.put.status.as_str().into(),
                now.into(),
            ],
        }
    }
}

/// Who a user is at an upstream.
pub struct Identity<'a> {
    pub user_id: &'a UserId,
    pub idp: &'a str,
    /// Keyed hash of (idp, subject).
    pub subject_hash: &'a str,
}

impl Identity<'_> {
    /// The whole command. Refused by `token_current` or `key_unused`, and as `Constraint` when there is no such user
    /// or upstream, or when the subject is somebody else: an identity never moves silently to another person.
    pub fn batch(&self, command: &Command<'_>) -> Vec<Statement> {
        let now = command.key.now;
        let binds = || vec![self.user_id.into(), self.idp.into(), self.subject_hash.into()];
        let with_time = || [binds(), vec![now.into()]].concat();
        let changes = vec![
            // Tokens that were issued to the former subject no longer count.
            Statement {
                name: "bump_user_of_replaced_identity",
                sql: "UPDATE users SET authorization_revision = authorization_revision + 1, updated_at = ?4
WHERE user_id = ?1
  AND EXISTS (SELECT 1 FROM identities WHERE user_id = ?1 AND idp = ?2 AND subject_hash <> ?3)",
                binds: with_time(),
            },
            Statement {
                name: "replace_identity",
                sql: "DELETE FROM identities WHERE user_id = ?1 AND idp = ?2 AND subject_hash <> ?3",
                binds: binds(),
            },
            Statement {
                name: "put_identity",
                sql: "INSERT INTO identities (user_id, idp, subject_hash, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?4)
ON CONFLICT (idp, subject_hash) DO UPDATE SET
  user_id = CASE WHEN identities.user_id = excluded.user_id THEN identities.user_id ELSE NULL END",
                binds: with_time(),
            },
        ];
        // The stored answer names no subject: that is personal.
        let result = store_result!("200, json_object('user_id', ?7, 'idp', ?8)", "WHERE true");
        let mut result = command.result(result, self.user_id.as_str());
        result.binds.push(self.idp.into());
        command.batch(changes, result)
    }
}
