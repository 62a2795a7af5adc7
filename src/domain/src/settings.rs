//! The configuration of a running service, read from its variables and checked as a whole.

use std::fmt;

use serde::Deserialize;
use url::Url;

use crate::http::cors::Origin;
use crate::telegram::send::{Api, ParseMode};
use crate::time::Millis;

/// A configured secret. Printing it shows nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself, to be handed on at once and never kept or printed.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A variable is missing or cannot be used. Names it; never quotes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingError {
    pub variable: &'static str,
    pub problem: &'static str,
}

/// Where this is running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    Dev,
    Staging,
    Production,
}

impl Environment {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Staging => "staging",
            Self::Production => "production",
        }
    }
}

/// What a model's tokens cost, in millionths of a currency unit for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input: u32,
    pub output: u32,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelProvider {
    /// The built-in deterministic one; `delay` before each piece of the answer.
    Scripted { delay: Millis },
    /// Any service that speaks OpenAI's chat completions.
    OpenAi {
        base_url: Url,
        model: String,
        api_key: Secret,
        prices: Prices,
    },
}

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub environment: Environment,
    /// `iss` of our access tokens and the audience of client assertions.
    pub issuer: String,
    /// `aud` of our access tokens.
    pub audience: String,
    /// The key set that signs and checks access tokens: JSON.
    pub token_keys: Secret,
    /// The master secrets that wrap data keys: JSON.
    pub master_secrets: Secret,
    pub model: ModelProvider,
    /// How many model calls one isolate makes at a time.
    pub model_calls_max: u32,
    /// How long one model call may take.
    pub model_deadline: Millis,
    /// How long a turn may take in all, waiting in line included.
    pub turn_deadline: Millis,
    /// How much longer than the model's deadline a run is held.
    pub run_lease_slack: Millis,
    /// How many messages of one user may wait at once.
    pub line_max: usize,
    pub cors_origins: Vec<Origin>,
    /// Where messages to Telegram are sent to, and how.
    pub telegram: Api,
    /// Requests a minute of one person; 0 turns the limit off.
    pub rate_user_per_min: u32,
    /// Requests a minute of one gateway, for all its people; 0 turns the limit off.
    pub rate_gateway_per_min: u32,
    /// Requests a minute; 0 turns the limit off.
    pub rate_address_per_min: u32,
    /// What the operator calls this configuration.
    pub config_revision: String,
    /// Of the deployed bundle, hexadecimal; set by the deploy script.
    pub bundle_sha256: Option<String>,
    /// Adds the database costs of a request to its answer. Tests only; refused in production.
    pub expose_costs: bool,
}

type Source<'a> = &'a dyn Fn(&str) -> Option<String>;

impl Settings {
    /// Reads every variable through `source`. An empty variable counts as missing.
    pub fn read(source: Source<'_>) -> Result<Self, SettingError> {
        let environment = match text(source, "ENVIRONMENT")?.as_deref() {
            None | Some("dev") => Environment::Dev,
            Some("staging") => Environment::Staging,
            Some("production") => Environment::Production,
            Some(_) => return Err(wrong("ENVIRONMENT", "must be dev, staging or production")),
        };
        let expose_costs = flag(source, "EXPOSE_COSTS")?;
        if expose_costs && environment == Environment::Production {
            return Err(wrong("EXPOSE_COSTS", "must not be set in production"));
        }
        let model_deadline = millis(source, "MODEL_DEADLINE_MS", 60_000, 1..=600_000)?;
        let turn_deadline = millis(source, "TURN_DEADLINE_MS", 90_000, 1..=900_000)?;
        Ok(Self {
            environment,
            issuer: issuer(source)?,
            audience: text(source, "AUDIENCE")?.unwrap_or_else(|| "oimy-api".to_owned()),
            token_keys: secret(source, "TOKEN_KEYS")?,
            master_secrets: secret(source, "MASTER_SECRETS")?,
            model: provider(source)?,
            model_calls_max: u32::try_from(number(source, "MODEL_CALLS_MAX", 128, 1..=10_000)?).unwrap_or(128),
            model_deadline,
            turn_deadline,
            run_lease_slack: millis(source, "RUN_LEASE_SLACK_MS", 5_000, 0..=60_000)?,
            line_max: usize::try_from(number(source, "LINE_MAX", 32, 1..=1_024)?).unwrap_or(32),
            cors_origins: origins(source)?,
            telegram: telegram(source)?,
            rate_user_per_min: rate(source, "RATE_USER_PER_MIN", 60)?,
            rate_gateway_per_min: rate(source, "RATE_GATEWAY_PER_MIN", 1_200)?,
            rate_address_per_min: rate(source, "RATE_ADDRESS_PER_MIN", 300)?,
            config_revision: text(source, "CONFIG_REVISION")?.unwrap_or_else(|| "unset".to_owned()),
            bundle_sha256: text(source, "BUNDLE_SHA256")?,
            expose_costs,
        })
    }
}

const fn wrong(variable: &'static str, problem: &'static str) -> SettingError {
    SettingError { variable, problem }
}

/// The longest plain variable, in bytes; the platform allows 5 KB.
const TEXT_MAX: usize = 2_048;

fn text(source: Source<'_>, variable: &'static str) -> Result<Option<String>, SettingError> {
    match source(variable) {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(None),
        Some(text) if text.len() > TEXT_MAX || text.chars().any(char::is_control) => {
            Err(wrong(variable, "must be one line of at most 2,048 bytes"))
        }
        Some(text) => Ok(Some(text)),
    }
}

fn secret(source: Source<'_>, variable: &'static str) -> Result<Secret, SettingError> {
    source(variable)
        .filter(|text| !text.is_empty())
        .map(Secret)
        .ok_or(wrong(variable, "must be set"))
}

fn number(
    source: Source<'_>,
    variable: &'static str,
    default: i64,
    range: std::ops::RangeInclusive<i64>,
) -> Result<i64, SettingError> {
    let Some(text) = text(source, variable)? else {
        return Ok(default);
    };
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong(variable, "must be a whole number"));
    }
    text.parse()
        .ok()
        .filter(|value| range.contains(value))
        .ok_or(wrong(variable, "is out of range"))
}

fn millis(
    source: Source<'_>,
    variable: &'static str,
    default: i64,
    range: std::ops::RangeInclusive<i64>,
) -> Result<Millis, SettingError> {
    number(source, variable, default, range).map(Millis::new)
}

fn rate(source: Source<'_>, variable: &'static str, default: i64) -> Result<u32, SettingError> {
    number(source, variable, default, 0..=i64::from(u32::MAX)).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
}

fn flag(source: Source<'_>, variable: &'static str) -> Result<bool, SettingError> {
    match text(source, variable)?.as_deref() {
        None | Some("0") => Ok(false),
        Some("1") => Ok(true),
        Some(_) => Err(wrong(variable, "must be 0 or 1")),
    }
}

fn issuer(source: Source<'_>) -> Result<String, SettingError> {
    let issuer = text(source, "ISSUER")?.unwrap_or_else(|| "https://hermod.local".to_owned());
    let url = Url::parse(&issuer).map_err(|_| wrong("ISSUER", "must be a URL"))?;
    if url.query().is_some() || url.fragment().is_some() || !matches!(url.scheme(), "https" | "http") {
        return Err(wrong("ISSUER", "must be an http(s) URL without query and fragment"));
    }
    Ok(issuer)
}

fn provider(source: Source<'_>) -> Result<ModelProvider, SettingError> {
    match text(source, "MODEL_PROVIDER")?.as_deref() {
        None | Some("scripted") => Ok(ModelProvider::Scripted {
            delay: millis(source, "SCRIPTED_DELAY_MS", 0, 0..=600_000)?,
        }),
        Some("openai") => {
            let base_url = text(source, "MODEL_BASE_URL")?.ok_or(wrong("MODEL_BASE_URL", "must be set"))?;
            let base_url = endpoint("MODEL_BASE_URL", &base_url)?;
            let prices = match text(source, "MODEL_PRICES")? {
                None => Prices::default(),
                Some(json) => serde_json::from_str(&json)
                    .map_err(|_| wrong("MODEL_PRICES", "must be {\"input\": number, \"output\": number}"))?,
            };
            Ok(ModelProvider::OpenAi {
                base_url,
                model: text(source, "MODEL_NAME")?.ok_or(wrong("MODEL_NAME", "must be set"))?,
                api_key: secret(source, "MODEL_API_KEY")?,
                prices,
            })
        }
        Some(_) => Err(wrong("MODEL_PROVIDER", "must be scripted or openai")),
    }
}

/// An address that requests with secrets in them are sent to.
fn endpoint(variable: &'static str, text: &str) -> Result<Url, SettingError> {
    let url = Url::parse(text).map_err(|_| wrong(variable, "must be a URL"))?;
    let loopback = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    if url.scheme() != "https" && !(url.scheme() == "http" && loopback) {
        return Err(wrong(variable, "must be https, or http on this machine"));
    }
    Ok(url)
}

fn telegram(source: Source<'_>) -> Result<Api, SettingError> {
    const BASE: &str = "TELEGRAM_API_BASE";
    let base = text(source, BASE)?.unwrap_or_else(|| "https://api.telegram.org".to_owned());
    let base = endpoint(BASE, &base)?;
    if base.query().is_some() || base.fragment().is_some() {
        return Err(wrong(BASE, "must have no query and no fragment"));
    }
    let parse_mode = match text(source, "TELEGRAM_PARSE_MODE")?.as_deref() {
        None | Some("none") => None,
        Some(name) => Some(ParseMode::parse(name).ok_or(wrong(
            "TELEGRAM_PARSE_MODE",
            "must be none, Markdown, MarkdownV2 or HTML",
        ))?),
    };
    Ok(Api {
        base,
        // A send and its margin fit in the lease of a minute.
        deadline: millis(source, "TELEGRAM_DEADLINE_MS", 10_000, 1..=50_000)?,
        parse_mode,
    })
}

fn origins(source: Source<'_>) -> Result<Vec<Origin>, SettingError> {
    let Some(list) = text(source, "CORS_ORIGINS")? else {
        return Ok(Vec::new());
    };
    list.split(',')
        .map(|origin| Origin::parse(origin.trim()).ok_or(wrong("CORS_ORIGINS", "must list origins, with commas")))
        .collect()
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;
