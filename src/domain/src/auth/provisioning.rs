//! The bodies of the provisioning routes: what an operator may write into the directory, checked before it gets there.
//!
//! Every `PUT` replaces the resource as a whole, so everything but secrets and notes has to be said each time.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::jwk::{JWKS_BYTES_MAX, KeyRing, PublicKey};
use super::jws::Algorithm;
use super::principal::{Role, Scope};
use super::upstream::{TEXT_MAX, is_jwks_url, is_subject};
use crate::ids::{FamilyId, GatewayId, UserId};

const LIST_MAX: usize = 64;
const FAMILIES_MAX: usize = 10_000;
const NAME_MAX: usize = 64;
const EXTERNAL_MAX: usize = 128;

/// A body that does not have the form of its route; the text is constant and says which rule it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidBody(pub &'static str);

/// Whether a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    #[default]
    Active,
    Suspended,
}

impl Status {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Suspended => "suspended",
        }
    }
}

/// Whether an address counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressStatus {
    #[default]
    Active,
    Disabled,
}

impl AddressStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }
}

/// `PUT /internal/families/{family_id}`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FamilyPut {
    pub status: Status,
}

/// `PUT /internal/users/{user_id}`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserPut {
    pub family_id: FamilyId,
    pub role: Role,
    pub status: Status,
}

/// `PUT /internal/users/{user_id}/identities/{idp}`
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentityPut {
    /// The upstream's `sub` for this person.
    pub subject: String,
}

/// `PUT /internal/gateways/{gateway_id}`
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GatewayPut {
    pub scopes: Vec<Scope>,
    pub channels: Vec<String>,
    pub families: Vec<FamilyId>,
    pub production: bool,
    pub assertion_jwk: Value,
    /// Left out: the webhook route is closed.
    pub webhook_secret: Option<String>,
    /// The channel's own credential, such as a Telegram bot's token. Left out: others do this gateway's sending.
    pub bot_token: Option<String>,
    pub status: Status,
    pub profile: Option<String>,
}

/// `PUT /internal/upstreams/{idp}`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UpstreamPut {
    pub issuer: String,
    pub audience: String,
    pub algorithms: Vec<Algorithm>,
    pub jwks_url: Option<String>,
    pub jwks: Option<Value>,
    pub status: Status,
}

/// `PUT /internal/addresses/{address_id}`
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AddressPut {
    pub gateway_id: GatewayId,
    pub channel: String,
    pub user_id: UserId,
    /// The person's id on the channel.
    pub external_id: String,
    pub status: AddressStatus,
}

/// `PUT /internal/switches/{scope}/{target}`
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchPut {
    /// Whether anything is sent.
    pub enabled: bool,
}

/// `POST /internal/revocations`: whose tokens count no longer.
// Every variant has braces, because only then does the reader refuse members that it does not know.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "scope", rename_all = "snake_case", deny_unknown_fields)]
pub enum Revocation {
    User { user_id: UserId },
    Gateway { gateway_id: GatewayId },
    All {},
}

macro_rules! opaque_debug {
    ($($name:ident)+) => { $(
        // It holds a secret or says who a person is elsewhere.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(..)"))
            }
        }
    )+ };
}
opaque_debug! { IdentityPut GatewayPut AddressPut }

/// Whether `name` may name a channel: 1 to 32 of `0-9 a-z _ -`.
pub fn is_channel_name(name: &str) -> bool {
    super::upstream::is_idp_name(name)
}

fn read<T: for<'de> Deserialize<'de>>(body: &str) -> Result<T, InvalidBody> {
    // The reader would also take a struct's members in a row, as an array.
    demand(body.trim_start().starts_with('{'), "the body must be an object.")?;
    serde_json::from_str(body).map_err(|_| InvalidBody("a member is missing, unknown or has the wrong form."))
}

fn demand(holds: bool, rule: &'static str) -> Result<(), InvalidBody> {
    if holds { Ok(()) } else { Err(InvalidBody(rule)) }
}

impl FamilyPut {
    pub fn parse(body: &str) -> Result<Self, InvalidBody> {
        read(body)
    }
}

impl SwitchPut {
    pub fn parse(body: &str) -> Result<Self, InvalidBody> {
        read(body)
    }
}

impl Revocation {
    pub fn parse(body: &str) -> Result<Self, InvalidBody> {
        read(body)
    }
}

impl UserPut {
    pub fn parse(body: &str) -> Result<Self, InvalidBody> {
        read(body)
    }
}

impl IdentityPut {
    pub fn parse(body: &str) -> Result<Self, InvalidBody> {
        let put: Self = read(body)?;
        demand(
            is_subject(&put.subject),
            "subject must be 1 to 255 bytes without control characters.",
        )?;
        Ok(put)
    }
}

impl GatewayPut {
    pub fn parse(body: &str) -> Result<Self, InvalidBody> {
        let mut put: Self = read(body)?;
        let operators = [Scope::OpsRead, Scope::OpsWrite];
        demand(
            !put.scopes.iter().any(|scope| operators.contains(scope)),
            "ops scopes are for operators only.",
        )?;
        put.scopes.sort_unstable();
        put.scopes.dedup();
        demand(put.channels.len() <= LIST_MAX, "channels must be at most 64 names.")?;
        demand(
            put.channels.iter().all(|name| is_channel_name(name)),
            "a channel is 1 to 32 of 0-9 a-z _ -.",
        )?;
        put.channels.sort_unstable();
        put.channels.dedup();
        demand(
            put.families.len() <= FAMILIES_MAX,
            "families must be at most 10,000 ids.",
        )?;
        put.families.sort_unstable();
        put.families.dedup();
        demand(
            PublicKey::from_value(put.assertion_jwk.clone()).is_ok(),
            "assertion_jwk must be a public signature key.",
        )?;
        let secret = put.webhook_secret.as_deref();
        demand(
            secret.is_none_or(is_webhook_secret),
            "webhook_secret must be 16 to 256 of 0-9 A-Z a-z _ -.",
        )?;
        demand(
            put.bot_token.as_deref().is_none_or(is_bot_token),
            "bot_token must be 8 to 128 of 0-9 A-Z a-z : _ -.",
        )?;
        demand(
            put.profile.as_deref().is_none_or(is_plain_name),
            "profile must be 1 to 64 of 0-9 A-Z a-z . _ -.",
        )?;
        Ok(put)
    }
}

impl UpstreamPut {
    /// `loopback` allows keys to be fetched from this machine over plain `http`; see [`is_jwks_url`].
    pub fn parse(body: &str, loopback: bool) -> Result<Self, InvalidBody> {
        let put: Self = read(body)?;
        let bounded = |text: &str| !text.is_empty() && text.len() <= TEXT_MAX && !text.chars().any(char::is_control);
        demand(
            bounded(&put.issuer) && bounded(&put.audience),
            "issuer and audience must be 1 to 1,024 bytes.",
        )?;
        // Tokens that name a gateway as their issuer are client assertions.
        demand(
            GatewayId::parse(&put.issuer).is_err(),
            "issuer must not look like a gateway's id.",
        )?;
        demand(
            !put.algorithms.is_empty() && put.algorithms.len() <= 3,
            "algorithms must name one to three.",
        )?;
        match (&put.jwks_url, &put.jwks) {
            (Some(url), None) => demand(is_jwks_url(url, loopback), "jwks_url must be a plain https URL.")?,
            (None, Some(jwks)) => {
                let ring = KeyRing::parse(jwks.to_string().as_bytes()).ok();
                let usable = ring.is_some_and(|ring| put.algorithms.iter().any(|alg| ring.has(*alg)));
                demand(
                    usable && jwks.to_string().len() <= JWKS_BYTES_MAX,
                    "jwks holds no key of these algorithms.",
                )?;
            }
            (Some(_), Some(_)) | (None, None) => demand(false, "exactly one of jwks_url and jwks must be given.")?,
        }
        Ok(put)
    }
}

impl AddressPut {
    pub fn parse(body: &str) -> Result<Self, InvalidBody> {
        let put: Self = read(body)?;
        demand(is_channel_name(&put.channel), "a channel is 1 to 32 of 0-9 a-z _ -.")?;
        demand(
            is_external_id(&put.external_id),
            "external_id must be 1 to 128 bytes without control characters.",
        )?;
        Ok(put)
    }
}

/// Whether `id` may be a person's id on a channel: 1 to 128 bytes without control characters.
pub fn is_external_id(id: &str) -> bool {
    !id.is_empty() && id.len() <= EXTERNAL_MAX && !id.chars().any(char::is_control)
}

fn is_webhook_secret(secret: &str) -> bool {
    (16..=256).contains(&secret.len())
        && secret
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// It becomes a part of a path, so it may hold nothing that means something there.
fn is_bot_token(token: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'_' | b'-');
    (8..=128).contains(&token.len()) && token.bytes().all(plain)
}

fn is_plain_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !name.is_empty() && name.len() <= NAME_MAX && name.bytes().all(plain)
}

/// What tokens of a person in this role may do.
pub const fn scopes_of_role(role: Role) -> &'static [Scope] {
    match role {
        Role::Guardian | Role::AdultMember => &[
            Scope::Chat,
            Scope::TurnsRead,
            Scope::TurnsAck,
            Scope::ContextRead,
            Scope::ContextWrite,
            Scope::Push,
            Scope::Reminders,
            Scope::DataExport,
            Scope::DataDelete,
        ],
        Role::ChildMember | Role::CaregiverLimited => &[
            Scope::Chat,
            Scope::TurnsRead,
            Scope::TurnsAck,
            Scope::Push,
            Scope::Reminders,
        ],
        // Operators work with tokens of their own kind; the role alone opens nothing of theirs.
        Role::SystemOperator => &[Scope::Chat, Scope::TurnsRead, Scope::TurnsAck],
    }
}
