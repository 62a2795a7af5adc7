//! The caller of a request, as authentication alone decided it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{FamilyId, GatewayId, TokenId, UserId};
use crate::time::Timestamp;

/// The longest operator name, in bytes.
pub const OPERATOR_NAME_MAX: usize = 64;

macro_rules! wire_names {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $wire:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum $name { $($(#[$doc])* #[serde(rename = $wire)] $variant,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The name in tokens, bodies and rows.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $wire,)+ }
            }

            /// The value of this name; `None` for any other text.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($wire => Some(Self::$variant),)+ _ => None }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

wire_names! {
    /// One thing a token allows.
    Scope {
        Chat = "chat",
        TurnsRead = "turns:read",
        TurnsAck = "turns:ack",
        ContextRead = "context:read",
        ContextWrite = "context:write",
        Push = "push",
        HooksWrite = "hooks:write",
        OutboxSend = "outbox:send",
        ProactiveWrite = "proactive:write",
        Reminders = "reminders",
        DataExport = "data:export",
        DataDelete = "data:delete",
        OpsRead = "ops:read",
        OpsWrite = "ops:write",
    }
}

wire_names! {
    /// What a person is in their family.
    Role {
        Guardian = "guardian",
        AdultMember = "adult_member",
        ChildMember = "child_member",
        CaregiverLimited = "caregiver_limited",
        SystemOperator = "system_operator",
    }
}

wire_names! {
    /// How the caller proved who they are.
    AuthMethod {
        /// A person, through an upstream identity token.
        UserJwt = "user_jwt",
        /// A service, through a client assertion.
        GatewayService = "gateway_service",
        /// A check of the service itself, acting as a person made for it.
        Synthetic = "synthetic",
        /// An operator, through a token signed offline.
        Operator = "operator",
        /// A channel's provider, through a gateway's webhook secret. No token says so.
        Webhook = "webhook",
    }
}

/// Whom a token speaks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    User(UserId),
    Gateway(GatewayId),
    /// An operator's name; see [`is_operator_name`].
    Operator(String),
}

impl Subject {
    /// The text of the `sub` claim.
    pub fn as_str(&self) -> &str {
        match self {
            Self::User(id) => id.as_str(),
            Self::Gateway(id) => id.as_str(),
            Self::Operator(name) => name,
        }
    }
}

/// Whether `name` may name an operator: 1 to [`OPERATOR_NAME_MAX`] of `0-9 A-Z a-z . _ @ -`.
pub fn is_operator_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'@' | b'-');
    !name.is_empty() && name.len() <= OPERATOR_NAME_MAX && name.bytes().all(plain)
}

/// The authenticated caller. Nothing else in a request says who it is from.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Principal {
    pub subject: Subject,
    /// The family of a user; gateways and operators have none.
    pub family: Option<FamilyId>,
    pub roles: Vec<Role>,
    pub scopes: Vec<Scope>,
    pub jti: TokenId,
    pub auth_method: AuthMethod,
    /// Set for a gateway's service token: the same id as the subject.
    pub gateway: Option<GatewayId>,
    /// The authorization revision the token was issued under; 0 for operators, who have none.
    pub revision: i64,
    /// A whole second, as in the token.
    pub issued_at: Timestamp,
    pub expires_at: Timestamp,
    /// The short name of the upstream that vouched for the user.
    pub idp: Option<String>,
    /// The upstream's own name for the user: personal, never logged.
    pub idp_sub: Option<String>,
}

impl Principal {
    /// Whether the token allows `scope`.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// The user this token speaks for; `None` for gateways and operators.
    pub fn user(&self) -> Option<&UserId> {
        match &self.subject {
            Subject::User(id) => Some(id),
            Subject::Gateway(_) | Subject::Operator(_) => None,
        }
    }
}

// Written by hand so that the upstream's name for a person never reaches a log.
impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Principal")
            .field("subject", &self.subject)
            .field("family", &self.family)
            .field("roles", &self.roles)
            .field("scopes", &self.scopes)
            .field("jti", &self.jti)
            .field("auth_method", &self.auth_method)
            .field("gateway", &self.gateway)
            .field("revision", &self.revision)
            .field("issued_at", &self.issued_at)
            .field("expires_at", &self.expires_at)
            .field("idp", &self.idp)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demo() -> Principal {
        Principal {
            subject: Subject::User(UserId::parse("user_00demo").unwrap()),
            family: Some(FamilyId::parse("family_00demo").unwrap()),
            roles: vec![Role::Guardian],
            scopes: vec![Scope::Chat, Scope::TurnsRead],
            jti: TokenId::parse("jwt_00demo").unwrap(),
            auth_method: AuthMethod::UserJwt,
            gateway: None,
            revision: 3,
            issued_at: Timestamp::from_millis(1_783_728_000_000),
            expires_at: Timestamp::from_millis(1_783_731_600_000),
            idp: Some("demo".to_owned()),
            idp_sub: Some("synthetic-person-1".to_owned()),
        }
    }

    #[test]
    fn every_name_leads_back_to_its_value() {
        for scope in Scope::ALL {
            assert_eq!(Scope::from_name(scope.as_str()), Some(*scope));
            assert_eq!(serde_json::to_string(scope).unwrap(), format!("\"{scope}\""));
        }
        for role in Role::ALL {
            assert_eq!(Role::from_name(role.as_str()), Some(*role));
        }
        for method in AuthMethod::ALL {
            assert_eq!(AuthMethod::from_name(method.as_str()), Some(*method));
        }
        assert_eq!(Scope::from_name("chat "), None);
        assert_eq!(Scope::ALL.len(), 14);
    }

    #[test]
    fn a_principal_survives_the_way_to_an_object() {
        let text = serde_json::to_string(&demo()).unwrap();
        assert_eq!(serde_json::from_str::<Principal>(&text).unwrap(), demo());
        assert!(text.contains(r#""subject":{"user":"user_00demo"}"#), "{text}");
        assert!(text.contains(r#""scopes":["chat","turns:read"]"#), "{text}");
    }

    #[test]
    fn debug_output_hides_the_upstream_subject() {
        assert!(!format!("{:?}", demo()).contains("synthetic-person-1"));
    }

    #[test]
    fn operator_names_are_short_and_plain() {
        assert!(is_operator_name("on-call@example"));
        for name in ["", "a b", "é", "a\n", &"x".repeat(65)] {
            assert!(!is_operator_name(name), "{name:?}");
        }
    }
}
