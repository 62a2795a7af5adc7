//! Who is calling, and whether they may: the one place where access tokens are accepted.

use std::cell::RefCell;

use domain::auth::{Principal, Subject, token, webhook};
use domain::http::routes::{Auth, Params, Route};
use domain::idempotency;
use domain::ids::{GatewayId, UserId};
use domain::problem::{Code, Problem};
use domain::rate::{RateLimiter, Verdict};
use domain::settings::Secret;
use domain::time::Timestamp;

use super::app::App;
use super::request::Arrival;

/// The longest credential that is looked at, in bytes.
const CREDENTIAL_MAX: usize = 8 * 1_024;

/// The header in which Telegram shows a webhook's secret.
const WEBHOOK_SECRET: &str = "x-telegram-bot-api-secret-token";

/// Counts the request against its sender's address. Before any signature is checked, so that a flood of tokens costs
/// next to nothing; health checks are never limited.
fn limit_address(app: &App, arrival: &Arrival, route: &Route) -> Result<(), Problem> {
    if route.is_health() {
        return Ok(());
    }
    let sender = arrival
        .source
        .map_or_else(|| "unknown".to_owned(), |source| source.sender());
    limit(app.by_address.as_ref(), &sender, arrival.received_at)
}

/// The hash of the secret that a webhook's caller shows, on routes that have one. Several header lines arrive as one
/// text, which is nobody's secret.
pub fn shown_secret(app: &App, arrival: &Arrival, route: &Route, params: &Params) -> Option<String> {
    if route.auth != Auth::Webhook {
        return None;
    }
    let gateway = params.get("gateway_id").and_then(|id| GatewayId::parse(id).ok());
    let secret = arrival
        .header(WEBHOOK_SECRET)
        .filter(|secret| secret.len() <= CREDENTIAL_MAX);
    gateway
        .zip(secret)
        .map(|(gateway, secret)| webhook::secret_hash(&app.master, &gateway, &secret))
}

/// Counts the request against whoever sends it: its address; or, where a webhook's secret was right before, the gateway,
/// because all of a provider's messages come from a few addresses.
pub fn limit_sender(
    app: &App,
    arrival: &Arrival,
    route: &Route,
    params: &Params,
    shown: Option<&str>,
) -> Result<(), Problem> {
    let known = shown.is_some_and(|hash| app.webhook_secrets.borrow().contains(hash));
    match params.get("gateway_id") {
        Some(gateway) if known => limit(
            app.by_gateway.as_ref(),
            &format!("webhook:{gateway}"),
            arrival.received_at,
        ),
        Some(_) | None => limit_address(app, arrival, route),
    }
}

/// Counts a request that a gateway hands in against the person it is from.
pub fn limit_person(app: &App, user: &UserId, now: Timestamp) -> Result<(), Problem> {
    limit(app.by_caller.as_ref(), user.as_str(), now)
}

fn limit(limiter: Option<&RefCell<RateLimiter>>, key: &str, now: Timestamp) -> Result<(), Problem> {
    match limiter.map(|limiter| limiter.borrow_mut().check(key, now)) {
        None | Some(Verdict::Allowed) => Ok(()),
        Some(Verdict::Limited(wait)) => Err(Problem::new(Code::RateLimited).with_retry_after(wait)),
    }
}

/// Turns the request away at once while the database is overloaded.
pub fn turn_away(app: &App, route: &Route, now: Timestamp) -> Result<(), Problem> {
    let needs_database = route.auth != Auth::Public;
    match app.breaker.borrow().turned_away(now) {
        Some(wait) if needs_database => Err(Problem::new(Code::Overloaded).with_retry_after(wait)),
        Some(_) | None => Ok(()),
    }
}

/// The one bearer credential of the request (RFC 6750 §2.1). Credentials in the query or the body do not count.
pub fn bearer(arrival: &Arrival) -> Result<Secret, Problem> {
    let refused = || Problem::new(Code::Unauthenticated);
    let header = arrival.header("authorization").ok_or_else(refused)?;
    let (scheme, token) = header.split_once(' ').ok_or_else(refused)?;
    let token = token.trim_matches(' ');
    // The `b64token` alphabet; the comma that two header lines are joined by is not in it.
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let well_formed = !token.is_empty() && token.len() <= CREDENTIAL_MAX && token.bytes().all(plain);
    if !scheme.eq_ignore_ascii_case("Bearer") || !well_formed {
        return Err(refused());
    }
    Ok(Secret::new(token.to_owned()))
}

/// The principal of an access token that holds every scope the route asks for.
///
/// Whether the token was revoked since stands in the route's first batch.
pub fn principal(app: &App, token: &Secret, route: &Route, now: Timestamp) -> Result<Principal, Problem> {
    let known = app.tokens.borrow_mut().get(token.reveal(), now);
    let principal = match known {
        Some(principal) => principal,
        None => {
            let settings = &app.settings;
            let principal = token::verify(token.reveal(), &app.keys, &settings.issuer, &settings.audience, now)
                .map_err(|_| Problem::new(Code::Unauthenticated))?;
            app.tokens.borrow_mut().insert(token.reveal(), principal.clone());
            principal
        }
    };
    let caller = idempotency::caller(&principal);
    match principal.subject {
        Subject::User(_) => limit(app.by_caller.as_ref(), &caller, now)?,
        // One gateway speaks for many people, each of whom is limited once they are known: see `limit_person`.
        Subject::Gateway(_) => limit(app.by_gateway.as_ref(), &caller, now)?,
        // Operators set up and repair things in bulk; their tokens are few and short-lived.
        Subject::Operator(_) => {}
    }
    if route.scopes.iter().all(|scope| principal.allows(*scope)) {
        Ok(principal)
    } else {
        Err(Problem::new(Code::InsufficientScope))
    }
}
