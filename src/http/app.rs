//! What one isolate holds: its settings and keys, read once, and its caches.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use domain::auth::KeySet;
use domain::auth::cache::VerifiedTokens;
use domain::auth::webhook::ShownRight;
use domain::http::admission::Breaker;
use domain::ids::TokenId;
use domain::keys::MasterSecrets;
use domain::ports::Clock;
use domain::problem::{Code, Problem};
use domain::rate::{PerMinute, RateLimiter};
use domain::settings::{Environment, Settings};
use domain::sql::{NotStarted, Outcome};
use domain::time::{Millis, Timestamp};
use worker::Env;

use super::request::Arrival;
use super::upstream_keys::UpstreamKeys;
use crate::platform::checkpoint::ServiceCheckpoint;
use crate::platform::clock::WorkerClock;
use crate::platform::entropy::WorkerEntropy;
use crate::platform::{config, log};

/// How many verified tokens an isolate remembers.
const TOKENS_MAX: usize = 10_000;
/// How many webhook secrets an isolate remembers.
const WEBHOOK_SECRETS_MAX: usize = 1_000;
/// How many rate limit buckets an isolate keeps of each kind.
const BUCKETS_MAX: usize = 20_000;

/// The state of one isolate. Everything in it can be lost at any time.
pub struct App {
    pub settings: Settings,
    pub master: MasterSecrets,
    pub keys: KeySet,
    pub clock: WorkerClock,
    pub entropy: WorkerEntropy,
    /// A random name of this isolate.
    pub instance_id: String,
    pub tokens: RefCell<VerifiedTokens>,
    pub by_address: Option<RefCell<RateLimiter>>,
    pub by_caller: Option<RefCell<RateLimiter>>,
    pub by_gateway: Option<RefCell<RateLimiter>>,
    /// The webhook secrets that turned out right.
    pub webhook_secrets: RefCell<ShownRight>,
    pub breaker: Rc<RefCell<Breaker>>,
    /// When the database was last asked for its schema, and what it said.
    pub schema_seen: Cell<Option<(Timestamp, Option<i64>)>>,
    pub upstream_keys: UpstreamKeys,
}

thread_local! {
    // The variables of an isolate never change, so an unusable configuration stays unusable.
    static APP: OnceCell<Option<Rc<App>>> = const { OnceCell::new() };
}

impl App {
    /// The state of this isolate, made on first use. 503 while the configuration cannot be used.
    pub fn of_isolate(env: &Env) -> Result<Rc<Self>, Problem> {
        APP.with(|app| app.get_or_init(|| Self::load(env)).clone())
            .ok_or_else(|| Problem::new(Code::Unavailable).with_retry_after(Millis::from_secs(60)))
    }

    fn load(env: &Env) -> Option<Rc<Self>> {
        let refuse = |variable: &str, problem: &str| {
            log::fault("settings_refused", &format!("{variable} {problem}"));
            None
        };
        let settings = match config::read(env) {
            Ok(settings) => settings,
            Err(error) => return refuse(error.variable, error.problem),
        };
        let Ok(keys) = KeySet::parse(settings.token_keys.reveal()) else {
            return refuse("TOKEN_KEYS", "is not a usable key set");
        };
        let Ok(master) = MasterSecrets::from_json(settings.master_secrets.reveal()) else {
            return refuse("MASTER_SECRETS", "is not a usable set of secrets");
        };
        if settings.environment == Environment::Production && ServiceCheckpoint::new(env).is_bound() {
            return refuse("CHECKPOINT", "must not be bound in production");
        }
        let (clock, entropy) = (WorkerClock, WorkerEntropy);
        let limiter =
            |per_minute| PerMinute::new(per_minute).map(|limit| RefCell::new(RateLimiter::new(limit, BUCKETS_MAX)));
        Some(Rc::new(Self {
            by_address: limiter(settings.rate_address_per_min),
            by_caller: limiter(settings.rate_user_per_min),
            by_gateway: limiter(settings.rate_gateway_per_min),
            settings,
            master,
            keys,
            clock,
            entropy,
            instance_id: TokenId::mint(clock.now(), &entropy)
                .as_str()
                .replace("jwt_", "instance_"),
            tokens: RefCell::new(VerifiedTokens::new(TOKENS_MAX)),
            webhook_secrets: RefCell::new(ShownRight::new(WEBHOOK_SECRETS_MAX)),
            breaker: Rc::default(),
            schema_seen: Cell::new(None),
            upstream_keys: UpstreamKeys::default(),
        }))
    }
}

/// Learns from a refusal that the database is overloaded, also where the user's object met it and not this isolate.
pub fn learn(arrival: &Arrival, code: Code) {
    if let (Code::Overloaded, Ok(app)) = (code, App::of_isolate(&arrival.env)) {
        let report = Outcome::NotStarted(NotStarted::Overloaded);
        app.breaker.borrow_mut().observe(&report, app.clock.now());
    }
}
