//! Which provider answers, out of the service's configuration.

use std::fmt;

use serde::Deserialize;
use url::Url;

use super::Usage;
use crate::time::Millis;

/// What a million tokens cost, in millionths of the currency unit. The default costs nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub input_per_million: u32,
    pub output_per_million: u32,
}

impl Prices {
    /// The usage with its cost, rounded up so that it is never told too low.
    pub fn usage(self, input_tokens: u32, output_tokens: u32) -> Usage {
        let part = |tokens: u32, price: u32| u128::from(tokens).saturating_mul(u128::from(price));
        let sum =
            part(input_tokens, self.input_per_million).saturating_add(part(output_tokens, self.output_per_million));
        let cost_microunits = u32::try_from(sum.div_ceil(1_000_000)).unwrap_or(u32::MAX);
        Usage {
            input_tokens,
            output_tokens,
            cost_microunits,
        }
    }
}

/// A secret of the configuration. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// The secret itself, for the `Authorization` header and nothing else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(..)")
    }
}

/// A provider and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelConfig {
    /// The built-in provider that needs no key and says that it is scripted.
    Scripted { delay_per_delta: Millis, prices: Prices },
    /// Any service that speaks OpenAI's `chat/completions`.
    OpenAi(OpenAiConfig),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAiConfig {
    /// The full address that requests are posted to.
    pub url: String,
    pub model: String,
    /// `None` for a service that wants no key.
    pub api_key: Option<ApiKey>,
    pub prices: Prices,
}

/// The configuration variable that is missing or wrong. Its value is not quoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidVariable(pub &'static str);

impl ModelConfig {
    /// Reads `MODEL_PROVIDER` (`scripted`, the default, or `openai`), `MODEL_BASE_URL` (up to and without
    /// `/chat/completions`), `MODEL_NAME`, `MODEL_API_KEY`, `MODEL_PRICES`
    /// (`{"input_per_million":3000000,"output_per_million":15000000}`) and `SCRIPTED_DELAY_MS`.
    pub fn read(variable: impl Fn(&'static str) -> Option<String>) -> Result<Self, InvalidVariable> {
        let given = |name| variable(name).filter(|value| !value.is_empty());
        let prices = match given("MODEL_PRICES") {
            Some(text) => serde_json::from_str(&text).map_err(|_| InvalidVariable("MODEL_PRICES"))?,
            None => Prices::default(),
        };
        match given("MODEL_PROVIDER").as_deref() {
            None | Some("scripted") => {
                let delay: u32 = match given("SCRIPTED_DELAY_MS") {
                    Some(text) => text.parse().map_err(|_| InvalidVariable("SCRIPTED_DELAY_MS"))?,
                    None => 0,
                };
                Ok(Self::Scripted {
                    delay_per_delta: Millis::new(delay.into()),
                    prices,
                })
            }
            Some("openai") => Ok(Self::OpenAi(OpenAiConfig {
                url: given("MODEL_BASE_URL")
                    .and_then(|text| endpoint(&text))
                    .ok_or(InvalidVariable("MODEL_BASE_URL"))?,
                model: given("MODEL_NAME").ok_or(InvalidVariable("MODEL_NAME"))?,
                api_key: api_key(given("MODEL_API_KEY"))?,
                prices,
            })),
            Some(_) => Err(InvalidVariable("MODEL_PROVIDER")),
        }
    }
}

fn api_key(given: Option<String>) -> Result<Option<ApiKey>, InvalidVariable> {
    match given {
        // A header value: anything else would break the request, or another header, open.
        Some(key) if key.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(ApiKey(key))),
        Some(_) => Err(InvalidVariable("MODEL_API_KEY")),
        None => Ok(None),
    }
}

fn endpoint(base: &str) -> Option<String> {
    const PATH: &str = "/chat/completions";
    let url = Url::parse(base).ok()?;
    let plain =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    if !plain || !matches!(url.scheme(), "https" | "http") {
        return None;
    }
    let text = url.as_str().trim_end_matches('/');
    Some(text.strip_suffix(PATH).unwrap_or(text).to_owned() + PATH)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<ModelConfig, InvalidVariable> {
        let find = |name| {
            variables
                .iter()
                .find(|(given, _)| *given == name)
                .map(|(_, value)| (*value).to_owned())
        };
        ModelConfig::read(find)
    }

    #[test]
    fn nothing_configured_means_scripted_and_free() {
        let expected = ModelConfig::Scripted {
            delay_per_delta: Millis::ZERO,
            prices: Prices::default(),
        };
        assert_eq!(read(&[]), Ok(expected.clone()));
        assert_eq!(read(&[("MODEL_PROVIDER", ""), ("SCRIPTED_DELAY_MS", "")]), Ok(expected));
        let slow = read(&[("MODEL_PROVIDER", "scripted"), ("SCRIPTED_DELAY_MS", "250")]);
        assert!(
            matches!(slow, Ok(ModelConfig::Scripted { delay_per_delta, .. }) if delay_per_delta == Millis::new(250))
        );
    }

    const OPENAI: [(&str, &str); 3] = [
        ("MODEL_PROVIDER", "openai"),
        ("MODEL_BASE_URL", "https://api.example/v1/"),
        ("MODEL_NAME", "grok-4"),
    ];

    #[test]
    fn a_compatible_service_needs_an_address_and_a_model() {
        let Ok(ModelConfig::OpenAi(config)) = read(&OPENAI) else {
            panic!("openai")
        };
        assert_eq!(config.url, "https://api.example/v1/chat/completions");
        assert_eq!((config.model.as_str(), config.api_key), ("grok-4", None));
        assert_eq!(read(&OPENAI[..1]), Err(InvalidVariable("MODEL_BASE_URL")));
        assert_eq!(read(&OPENAI[..2]), Err(InvalidVariable("MODEL_NAME")));
        assert_eq!(
            read(&[("MODEL_PROVIDER", "other")]),
            Err(InvalidVariable("MODEL_PROVIDER"))
        );
        assert_eq!(
            read(&[("SCRIPTED_DELAY_MS", "-1")]),
            Err(InvalidVariable("SCRIPTED_DELAY_MS"))
        );
        assert_eq!(read(&[("MODEL_PRICES", "{}")]), Err(InvalidVariable("MODEL_PRICES")));
    }

    #[test]
    fn addresses_are_completed_and_odd_ones_refused() {
        assert_eq!(
            endpoint("http://127.0.0.1:9/x"),
            Some("http://127.0.0.1:9/x/chat/completions".to_owned())
        );
        assert_eq!(
            endpoint("https://a.example/chat/completions"),
            Some("https://a.example/chat/completions".to_owned())
        );
        for text in [
            "",
            "a.example",
            "file:///x",
            "https://u:p@a.example",
            "https://a.example/?k=1",
            "https://a.example/#x",
        ] {
            assert_eq!(endpoint(text), None, "{text}");
        }
    }

    #[test]
    fn the_api_key_is_kept_out_of_sight_and_free_of_line_breaks() {
        let with_key = |key| read(&[OPENAI[0], OPENAI[1], OPENAI[2], ("MODEL_API_KEY", key)]);
        let printed = format!("{:?}", with_key("test-secret"));
        assert!(
            printed.contains("ApiKey(..)") && !printed.contains("test-secret"),
            "{printed}"
        );
        assert_eq!(with_key("a\r\nx: y"), Err(InvalidVariable("MODEL_API_KEY")));
    }

    #[test]
    fn costs_round_up_and_saturate() {
        let prices = Prices {
            input_per_million: 1,
            output_per_million: u32::MAX,
        };
        assert_eq!(prices.usage(0, 0).cost_microunits, 0);
        assert_eq!(prices.usage(1, 0).cost_microunits, 1);
        assert_eq!(prices.usage(1_000_001, 0).cost_microunits, 2);
        assert_eq!(prices.usage(0, u32::MAX).cost_microunits, u32::MAX);
    }
}
