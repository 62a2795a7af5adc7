//! Every route there is, as data. The dispatcher, the API description and its test all read this one table.

use super::path::{self, InvalidPath};
use crate::auth::Scope;

/// The methods that occur in the table. `HEAD` is answered wherever `GET` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
}

impl Method {
    /// The method of this name, which is case-sensitive (RFC 9110 §9.1).
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "GET" => Self::Get,
            "HEAD" => Self::Head,
            "POST" => Self::Post,
            "PUT" => Self::Put,
            "DELETE" => Self::Delete,
            "OPTIONS" => Self::Options,
            _ => return None,
        })
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Options => "OPTIONS",
        }
    }
}

/// Which handler answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    RemovedToken,
    ExchangeToken,
    Jwks,
    Chat,
    ReadTurn,
    AckTurn,
    Live,
    Ready,
    Version,
    OpenApi,
    PutFamily,
    PutUser,
    PutIdentity,
    PutGateway,
    PutUpstream,
    PutAddress,
    PutSwitch,
    ClaimOutbox,
    BeginAttempt,
    ConfirmAttempt,
    FailAttempt,
    Revoke,
    Telegram,
    LinkChannel,
    UnlinkChannel,
}

/// How a route finds out who is calling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// Open to everyone.
    Public,
    /// `Authorization: Bearer` with a foreign credential that the handler itself exchanges: an upstream identity
    /// token or a client assertion.
    Exchange,
    /// `Authorization: Bearer` with one of our access tokens, which must hold every scope of the route.
    AccessToken,
    /// `X-Telegram-Bot-Api-Secret-Token`: the secret of the gateway in the path.
    Webhook,
}

/// A media type that a route can answer with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    Json,
    EventStream,
}

impl Media {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::EventStream => "text/event-stream",
        }
    }
}

/// The largest request body in bytes, unless a route says less.
pub const BODY_MAX: usize = 64 * 1_024;

/// What body a route takes. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRule {
    /// None is read.
    None,
    /// JSON, or nothing at all.
    OptionalJson {
        max: usize,
    },
    Json {
        max: usize,
    },
}

impl BodyRule {
    /// The largest body that is read.
    pub const fn max(self) -> usize {
        match self {
            Self::None => 0,
            Self::OptionalJson { max } | Self::Json { max } => max,
        }
    }
}

/// One route.
#[derive(Debug, PartialEq, Eq)]
pub struct Route {
    pub endpoint: Endpoint,
    pub method: Method,
    /// Segments between slashes; `{name}` takes any one non-empty segment.
    pub pattern: &'static str,
    pub auth: Auth,
    /// Each of these must be in the token.
    pub scopes: &'static [Scope],
    /// Requests must carry an `Idempotency-Key`.
    pub idempotent_key: bool,
    pub body: BodyRule,
    /// What it can answer with when it succeeds, the default first.
    pub produces: &'static [Media],
}

impl Route {
    /// The name in logs and metrics: never a value out of the path.
    pub fn label(&self) -> String {
        format!("{} {}", self.method.as_str(), self.pattern)
    }

    /// Whether it is a health check, which no limit applies to.
    pub const fn is_health(&self) -> bool {
        matches!(self.endpoint, Endpoint::Live | Endpoint::Ready | Endpoint::Version)
    }
}

const fn open(endpoint: Endpoint, pattern: &'static str) -> Route {
    Route {
        endpoint,
        method: Method::Get,
        pattern,
        auth: Auth::Public,
        scopes: &[],
        idempotent_key: false,
        body: BodyRule::None,
        produces: &[Media::Json],
    }
}

const fn provisioning(endpoint: Endpoint, pattern: &'static str) -> Route {
    Route {
        endpoint,
        method: Method::Put,
        pattern,
        auth: Auth::AccessToken,
        scopes: &[Scope::OpsWrite],
        idempotent_key: true,
        body: BodyRule::Json { max: BODY_MAX },
        produces: &[Media::Json],
    }
}

const fn linking(endpoint: Endpoint, pattern: &'static str) -> Route {
    Route {
        endpoint,
        method: Method::Post,
        pattern,
        auth: Auth::AccessToken,
        scopes: &[Scope::Chat],
        idempotent_key: true,
        body: BodyRule::OptionalJson { max: BODY_MAX },
        produces: &[Media::Json],
    }
}

/// What senders outside the service do.
const fn sending(endpoint: Endpoint, pattern: &'static str) -> Route {
    Route {
        endpoint,
        method: Method::Post,
        pattern,
        auth: Auth::AccessToken,
        scopes: &[Scope::OutboxSend],
        idempotent_key: true,
        body: BodyRule::Json { max: BODY_MAX },
        produces: &[Media::Json],
    }
}

/// The route table.
pub const ROUTES: &[Route] = &[
    open(Endpoint::RemovedToken, "/token"),
    Route {
        method: Method::Post,
        auth: Auth::Exchange,
        body: BodyRule::OptionalJson { max: BODY_MAX },
        ..open(Endpoint::ExchangeToken, "/auth/token")
    },
    open(Endpoint::Jwks, "/.well-known/jwks.json"),
    Route {
        endpoint: Endpoint::Chat,
        method: Method::Post,
        pattern: "/chat",
        auth: Auth::AccessToken,
        scopes: &[Scope::Chat],
        idempotent_key: true,
        body: BodyRule::Json { max: BODY_MAX },
        produces: &[Media::Json, Media::EventStream],
    },
    Route {
        auth: Auth::AccessToken,
        scopes: &[Scope::TurnsRead],
        ..open(Endpoint::ReadTurn, "/turns/{turn_id}")
    },
    Route {
        endpoint: Endpoint::AckTurn,
        method: Method::Post,
        pattern: "/turns/{turn_id}/ack",
        auth: Auth::AccessToken,
        scopes: &[Scope::TurnsAck],
        idempotent_key: true,
        body: BodyRule::Json { max: BODY_MAX },
        produces: &[Media::Json],
    },
    open(Endpoint::Live, "/health/live"),
    open(Endpoint::Ready, "/health/ready"),
    open(Endpoint::Version, "/health/version"),
    open(Endpoint::OpenApi, "/openapi.json"),
    provisioning(Endpoint::PutFamily, "/internal/families/{family_id}"),
    provisioning(Endpoint::PutUser, "/internal/users/{user_id}"),
    provisioning(Endpoint::PutIdentity, "/internal/users/{user_id}/identities/{idp}"),
    provisioning(Endpoint::PutGateway, "/internal/gateways/{gateway_id}"),
    provisioning(Endpoint::PutUpstream, "/internal/upstreams/{idp}"),
    provisioning(Endpoint::PutAddress, "/internal/addresses/{address_id}"),
    provisioning(Endpoint::PutSwitch, "/internal/switches/{scope}/{target}"),
    Route {
        method: Method::Post,
        ..provisioning(Endpoint::Revoke, "/internal/revocations")
    },
    sending(Endpoint::ClaimOutbox, "/internal/outbox/claim"),
    sending(Endpoint::BeginAttempt, "/internal/outbox/{outbox_id}/attempt"),
    sending(Endpoint::ConfirmAttempt, "/internal/outbox/{outbox_id}/confirm"),
    sending(Endpoint::FailAttempt, "/internal/outbox/{outbox_id}/fail"),
    Route {
        method: Method::Post,
        auth: Auth::Webhook,
        body: BodyRule::Json { max: BODY_MAX },
        ..open(Endpoint::Telegram, "/telegram/{gateway_id}")
    },
    linking(Endpoint::LinkChannel, "/channels/{channel}/link"),
    linking(Endpoint::UnlinkChannel, "/channels/{channel}/unlink"),
];

/// The decoded values of a pattern's `{name}` segments.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Params(Vec<(&'static str, String)>);

impl Params {
    /// The value of `{name}`; a name that the route's pattern does not have gives `None`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.as_str())
    }
}

impl std::fmt::Debug for Params {
    /// Names only: the values identify people and things.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

/// What the table says about a request line.
#[derive(Debug, PartialEq, Eq)]
pub enum Match {
    Found(&'static Route, Params),
    /// The path exists, the method does not; the methods for `Allow` (RFC 9110 §10.2.1).
    MethodNotAllowed(Vec<Method>),
    NotFound,
    /// The path cannot be decoded in exactly one way.
    Malformed,
}

/// Finds the route of a request. `method` is `None` for one that occurs nowhere.
pub fn find(method: Option<Method>, path: &str) -> Match {
    let segments = match path::segments(path) {
        Ok(segments) => segments,
        Err(InvalidPath) => return Match::Malformed,
    };
    let mut allowed = Vec::new();
    for route in ROUTES {
        let Some(params) = fits(route.pattern, &segments) else {
            continue;
        };
        let as_head = method == Some(Method::Head) && route.method == Method::Get;
        if method == Some(route.method) || as_head {
            return Match::Found(route, params);
        }
        allowed.push(route.method);
        if route.method == Method::Get {
            allowed.push(Method::Head);
        }
    }
    if allowed.is_empty() {
        Match::NotFound
    } else {
        Match::MethodNotAllowed(allowed)
    }
}

/// The value of an `Allow` header.
pub fn allow(methods: &[Method]) -> String {
    methods
        .iter()
        .map(|method| method.as_str())
        .collect::<Vec<_>>()
        .join(", ")
}

fn fits(pattern: &'static str, segments: &[String]) -> Option<Params> {
    let wanted = pattern.strip_prefix('/')?.split('/');
    if wanted.clone().count() != segments.len() {
        return None;
    }
    let mut params = Vec::new();
    for (wanted, found) in wanted.zip(segments) {
        match wanted.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
            Some(_) if found.is_empty() => return None,
            Some(name) => params.push((name, found.clone())),
            None if wanted == found => {}
            None => return None,
        }
    }
    Some(Params(params))
}

#[cfg(test)]
#[path = "routes_tests.rs"]
mod tests;
