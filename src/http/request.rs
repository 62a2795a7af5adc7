//! A request on its way in: what it says for itself, and what it is once it was let in.

use std::rc::Rc;

use domain::auth::Principal;
use domain::http::json::{self, MalformedJson};
use domain::http::negotiate;
use domain::http::routes::{self, Auth, BodyRule, Match, Media, Method, Params, Route};
use domain::http::source::SourceAddress;
use domain::http::trace::{self, Trace};
use domain::idempotency::IdempotencyKey;
use domain::ids::RequestId;
use domain::keys::HashLabel;
use domain::ports::Clock;
use domain::problem::{Code, Problem};
use domain::settings::Secret;
use domain::time::{Millis, Timestamp};
use futures::StreamExt;
use worker::{Context, Env, Headers, Request};

use super::app::App;
use super::authenticate;
use crate::platform::clock::WorkerClock;
use crate::platform::costs::{Costs, CountingSql};
use crate::platform::d1::{D1, WatchedSql};
use crate::platform::entropy::WorkerEntropy;
use crate::platform::spawn::RequestSpawn;

/// The database as handlers use it: counted, and watched for overload.
pub type Database = CountingSql<WatchedSql>;

/// What is known of a request before anything was decided.
pub struct Arrival {
    pub method: Option<Method>,
    pub path: String,
    pub headers: Headers,
    pub env: Env,
    pub spawn: RequestSpawn,
    pub request_id: RequestId,
    pub client_request_id: Option<String>,
    pub trace: Trace,
    pub received_at: Timestamp,
    pub source: Option<SourceAddress>,
    pub costs: Costs,
}

impl Arrival {
    pub fn new(request: &Request, env: Env, context: Context) -> Self {
        let received_at = WorkerClock.now();
        let headers = request.headers().clone();
        Self {
            // The crate's own method type turns unknown names into GET.
            method: Method::parse(&request.inner().method()),
            path: request.path(),
            request_id: RequestId::mint(received_at, &WorkerEntropy),
            client_request_id: trace::client_request_id(header(&headers, "x-request-id").as_deref()),
            trace: Trace::continue_from(header(&headers, "traceparent").as_deref(), &WorkerEntropy),
            received_at,
            source: header(&headers, "cf-connecting-ip")
                .as_deref()
                .and_then(SourceAddress::parse),
            headers,
            env,
            spawn: RequestSpawn::new(context),
            costs: Costs::default(),
        }
    }

    /// Looks the request up in the route table.
    pub fn find(&self) -> Match {
        routes::find(self.method, &self.path)
    }

    pub fn header(&self, name: &str) -> Option<String> {
        header(&self.headers, name)
    }

    pub fn elapsed(&self) -> Millis {
        WorkerClock.now().since(self.received_at)
    }
}

/// A header's value; several lines of one name arrive joined by commas.
fn header(headers: &Headers, name: &str) -> Option<String> {
    headers.get(name).ok().flatten()
}

/// A request that was let in: within limits, authenticated where the route asks for it, its body read.
pub struct Call {
    pub app: Rc<App>,
    pub env: Env,
    pub sql: Database,
    pub costs: Costs,
    pub spawn: RequestSpawn,
    pub route: &'static Route,
    pub params: Params,
    /// The path as it was sent: part of what an idempotency key stands for. Never logged.
    pub path: String,
    pub request_id: RequestId,
    pub client_request_id: Option<String>,
    pub trace: Trace,
    pub received_at: Timestamp,
    /// Keyed hash of the caller's network address.
    pub source_address_hash: Option<String>,
    /// What to answer with.
    pub accepts: Media,
    /// The body's text; empty where there was none.
    pub body: String,
    principal: Option<Principal>,
    credential: Option<Secret>,
    shown_secret: Option<String>,
    idempotency_key: Option<IdempotencyKey>,
}

impl Call {
    /// Lets a request in, or says why not. Cheap refusals come first, and nothing is computed for a sender who is
    /// over a limit.
    pub async fn admit(
        app: Rc<App>,
        arrival: &Arrival,
        route: &'static Route,
        params: Params,
        request: Request,
    ) -> Result<Self, Problem> {
        let shown_secret = authenticate::shown_secret(&app, arrival, route, &params);
        authenticate::limit_sender(&app, arrival, route, &params, shown_secret.as_deref())?;
        let credential = match route.auth {
            Auth::Public | Auth::Webhook => None,
            Auth::Exchange | Auth::AccessToken => Some(authenticate::bearer(arrival)?),
        };
        let principal = match (route.auth, &credential) {
            (Auth::AccessToken, Some(token)) => Some(authenticate::principal(&app, token, route, arrival.received_at)?),
            (Auth::AccessToken, None) => return Err(Problem::new(Code::Unauthenticated)),
            (Auth::Public | Auth::Exchange | Auth::Webhook, _) => None,
        };
        authenticate::turn_away(&app, route, arrival.received_at)?;
        let idempotency_key = idempotency_key(arrival, route)?;
        let accepts = negotiate::accept(arrival.header("accept").as_deref(), route.produces)
            .ok_or(Problem::new(Code::NotAcceptable))?;
        let body = read_body(arrival, route.body, request).await?;
        let database = D1::bound(&arrival.env).ok_or(Problem::new(Code::Unavailable))?;
        let watched = WatchedSql::new(database, Rc::clone(&app.breaker));
        let source_address_hash = arrival.source.map(|source| {
            app.master
                .keyed_hash(HashLabel::SourceAddress, source.canonical().as_bytes())
        });
        Ok(Self {
            app,
            env: arrival.env.clone(),
            sql: CountingSql::new(watched, arrival.costs.clone()),
            costs: arrival.costs.clone(),
            spawn: arrival.spawn.clone(),
            route,
            params,
            path: arrival.path.clone(),
            request_id: arrival.request_id.clone(),
            client_request_id: arrival.client_request_id.clone(),
            trace: arrival.trace.clone(),
            received_at: arrival.received_at,
            source_address_hash,
            accepts,
            body,
            principal,
            credential,
            shown_secret,
            idempotency_key,
        })
    }

    /// The caller, on routes that need an access token.
    pub fn principal(&self) -> Result<&Principal, Problem> {
        self.principal.as_ref().ok_or(Problem::new(Code::Unauthenticated))
    }

    /// The credential to be exchanged, on routes that exchange one.
    pub fn credential(&self) -> Result<&str, Problem> {
        self.credential
            .as_ref()
            .map(Secret::reveal)
            .ok_or(Problem::new(Code::Unauthenticated))
    }

    /// Keyed hash of the secret that a webhook's caller showed; `None` where none was.
    pub fn shown_secret(&self) -> Option<&str> {
        self.shown_secret.as_deref()
    }

    /// The idempotency key, on routes that need one.
    pub fn idempotency_key(&self) -> Result<&IdempotencyKey, Problem> {
        self.idempotency_key
            .as_ref()
            .ok_or(Problem::new(Code::IdempotencyKeyRequired))
    }

    /// A path parameter of the route's pattern.
    pub fn param(&self, name: &str) -> Result<&str, Problem> {
        self.params.get(name).ok_or(Problem::new(Code::NotFound))
    }

    /// The body as strict JSON.
    pub fn json(&self) -> Result<serde_json::Value, Problem> {
        json::parse(&self.body).map_err(|MalformedJson| Problem::new(Code::MalformedJson))
    }

    /// The time now; later than `received_at`.
    pub fn now(&self) -> Timestamp {
        self.app.clock.now()
    }
}

fn idempotency_key(arrival: &Arrival, route: &Route) -> Result<Option<IdempotencyKey>, Problem> {
    if !route.idempotent_key {
        return Ok(None);
    }
    let header = arrival
        .header("idempotency-key")
        .ok_or(Problem::new(Code::IdempotencyKeyRequired))?;
    IdempotencyKey::parse(&header)
        .map(Some)
        .map_err(|_| Problem::new(Code::IdempotencyKeyInvalid))
}

/// Reads the body, never more of it than the route takes.
async fn read_body(arrival: &Arrival, rule: BodyRule, mut request: Request) -> Result<String, Problem> {
    let max = rule.max();
    if rule == BodyRule::None {
        return Ok(String::new());
    }
    let too_large = || Problem::new(Code::PayloadTooLarge);
    let declared = arrival
        .header("content-length")
        .and_then(|length| length.trim().parse::<u64>().ok());
    if declared.is_some_and(|length| usize::try_from(length).map_or(true, |length| length > max)) {
        return Err(too_large());
    }
    let is_json = negotiate::is_json(arrival.header("content-type").as_deref());
    let required = matches!(rule, BodyRule::Json { .. });
    if required && !is_json {
        return Err(Problem::new(Code::UnsupportedMediaType));
    }
    let bytes = match declared {
        // The runtime holds the client to the length it declared, so this is bounded too, and one crossing.
        Some(_) => request.bytes().await.map_err(|_| broke_off())?,
        None => read_stream(request, max).await?,
    };
    if bytes.len() > max {
        return Err(too_large());
    }
    if !required && !bytes.is_empty() && !is_json {
        return Err(Problem::new(Code::UnsupportedMediaType));
    }
    String::from_utf8(bytes).map_err(|_| Problem::new(Code::MalformedJson))
}

fn broke_off() -> Problem {
    Problem::new(Code::InvalidRequest).with_detail("The body broke off.")
}

/// Reads a body of unknown length, giving up as soon as it is longer than `max`.
async fn read_stream(mut request: Request, max: usize) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    // A request without a body has no stream.
    if let Ok(mut stream) = request.stream() {
        while let Some(chunk) = stream.next().await {
            bytes.extend_from_slice(&chunk.map_err(|_| broke_off())?);
            if bytes.len() > max {
                return Err(Problem::new(Code::PayloadTooLarge));
            }
        }
    }
    Ok(bytes)
}
