use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingError> {
    Settings::read(&|name| {
        let secrets = [
            ("TOKEN_KEYS", "synthetic-token-keys"),
            ("MASTER_SECRETS", "synthetic-master"),
        ];
        let all = || variables.iter().chain(&secrets);
        all()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn defaults_run_the_scripted_model() {
    let settings = read(&[]).unwrap();
    assert_eq!(settings.environment, Environment::Dev);
    assert_eq!(settings.issuer, "https://hermod.local");
    assert_eq!(settings.audience, "oimy-api");
    assert_eq!(settings.model, ModelProvider::Scripted { delay: Millis::ZERO });
    assert_eq!(settings.model_deadline, Millis::from_secs(60));
    assert_eq!(settings.turn_deadline, Millis::from_secs(90));
    assert_eq!(settings.line_max, 32);
    assert_eq!(settings.cors_origins, []);
    assert!(!settings.expose_costs);
}

#[test]
fn an_openai_provider_needs_its_parts() {
    let full = [
        ("MODEL_PROVIDER", "openai"),
        ("MODEL_BASE_URL", "https://models.example/v1"),
        ("MODEL_NAME", "demo-1"),
        ("MODEL_API_KEY", "synthetic-key"),
        ("MODEL_PRICES", r#"{"input":200000,"output":500000}"#),
    ];
    let ModelProvider::OpenAi { prices, model, .. } = read(&full).unwrap().model else {
        panic!("scripted")
    };
    assert_eq!(
        (prices.input, prices.output, model.as_str()),
        (200_000, 500_000, "demo-1")
    );
    for missing in ["MODEL_BASE_URL", "MODEL_NAME", "MODEL_API_KEY"] {
        let rest: Vec<_> = full.into_iter().filter(|(name, _)| *name != missing).collect();
        assert_eq!(read(&rest).unwrap_err().variable, missing);
    }
}

#[test]
fn unusable_values_name_their_variable() {
    for (variable, value) in [
        ("ENVIRONMENT", "prod"),
        ("ISSUER", "hermod"),
        ("ISSUER", "https://hermod.local/?x"),
        ("MODEL_PROVIDER", "magic"),
        ("MODEL_DEADLINE_MS", "0"),
        ("MODEL_DEADLINE_MS", "-1"),
        ("MODEL_DEADLINE_MS", "1e3"),
        ("TURN_DEADLINE_MS", "99999999999999999999"),
        ("LINE_MAX", "0"),
        ("LINE_MAX", " 3"),
        ("CORS_ORIGINS", "*"),
        ("CORS_ORIGINS", "https://a.example/path"),
        ("EXPOSE_COSTS", "yes"),
        ("AUDIENCE", "a\nb"),
        ("TELEGRAM_API_BASE", "http://api.telegram.org"),
        ("TELEGRAM_API_BASE", "https://api.telegram.org/?x"),
        ("TELEGRAM_API_BASE", "api.telegram.org"),
        ("TELEGRAM_DEADLINE_MS", "0"),
        ("TELEGRAM_DEADLINE_MS", "50001"),
        ("TELEGRAM_PARSE_MODE", "markdown"),
    ] {
        assert_eq!(read(&[(variable, value)]).unwrap_err().variable, variable, "{value:?}");
    }
    let openai = [
        ("MODEL_PROVIDER", "openai"),
        ("MODEL_BASE_URL", "http://models.example/v1"),
    ];
    assert_eq!(read(&openai).unwrap_err().variable, "MODEL_BASE_URL");
}

#[test]
fn production_shows_no_costs() {
    let error = read(&[("ENVIRONMENT", "production"), ("EXPOSE_COSTS", "1")]).unwrap_err();
    assert_eq!(error.variable, "EXPOSE_COSTS");
    assert!(
        read(&[("ENVIRONMENT", "staging"), ("EXPOSE_COSTS", "1")])
            .unwrap()
            .expose_costs
    );
}

#[test]
fn secrets_are_needed_and_not_printed() {
    assert_eq!(Settings::read(&|_| None).unwrap_err().variable, "TOKEN_KEYS");
    let printed = format!("{:?}", read(&[]).unwrap());
    assert!(!printed.contains("synthetic"), "{printed}");
}

#[test]
fn telegram_is_sent_plain_texts_unless_told_otherwise() {
    let api = read(&[]).unwrap().telegram;
    assert_eq!(api.base.as_str(), "https://api.telegram.org/");
    assert_eq!((api.deadline, api.parse_mode), (Millis::from_secs(10), None));
    let told = [
        ("TELEGRAM_API_BASE", "http://127.0.0.1:8081/telegram"),
        ("TELEGRAM_DEADLINE_MS", "50000"),
        ("TELEGRAM_PARSE_MODE", "MarkdownV2"),
    ];
    let api = read(&told).unwrap().telegram;
    assert_eq!(api.base.as_str(), "http://127.0.0.1:8081/telegram");
    assert_eq!(
        (api.deadline, api.parse_mode),
        (Millis::from_secs(50), Some(ParseMode::MarkdownV2))
    );
    assert_eq!(
        read(&[("TELEGRAM_PARSE_MODE", "none")]).unwrap().telegram.parse_mode,
        None
    );
}
