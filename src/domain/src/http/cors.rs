//! Cross-origin requests (the Fetch standard's CORS protocol): which browsers' pages may call, decided purely.

use url::Url;

use super::routes::{self, Method};

/// How long a browser may remember a preflight, in seconds.
const MAX_AGE_SECONDS: u32 = 600;

/// Request headers that pages may send.
const ALLOWED_HEADERS: &[&str] = &[
    "accept",
    "authorization",
    "content-type",
    "idempotency-key",
    "traceparent",
    "x-oimy-protocol-version",
    "x-request-id",
];

/// Answer headers that pages may read besides the safelisted ones.
const EXPOSED_HEADERS: &str = "Idempotency-Replayed, Retry-After, Traceparent, WWW-Authenticate, X-Request-Id";

/// A web origin as browsers serialize it: `scheme://host[:port]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// The origin of this exact serialization; `None` for `*`, `null` and anything with a path.
    pub fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let plain = matches!(url.scheme(), "https" | "http") && url.origin().ascii_serialization() == text;
        plain.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The parts of a request that CORS looks at.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    pub origin: Option<&'a str>,
    pub method: Option<Method>,
    /// `Access-Control-Request-Method`, which makes an `OPTIONS` request a preflight.
    pub request_method: Option<&'a str>,
    /// `Access-Control-Request-Headers`.
    pub request_headers: Option<&'a str>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Answer at once with 204 and these headers; without any `Access-Control-*` the browser refuses the request.
    Preflight(Vec<(&'static str, String)>),
    /// Go on, and add these headers to the answer.
    Continue(Vec<(&'static str, String)>),
}

/// Decides for `ask` on a path whose methods are `path_methods`.
///
/// Credentials travel in `Authorization`, never in cookies, so `Access-Control-Allow-Credentials` is never sent.
pub fn decide(ask: Ask<'_>, allowlist: &[Origin], path_methods: &[Method]) -> Decision {
    let Some(origin) = ask.origin else {
        return Decision::Continue(Vec::new());
    };
    let vary = ("Vary", "Origin".to_owned());
    let known = allowlist.iter().find(|known| known.as_str() == origin);
    let preflight = ask.method == Some(Method::Options) && ask.request_method.is_some();
    let Some(known) = known else {
        return if preflight {
            Decision::Preflight(vec![vary])
        } else {
            Decision::Continue(vec![vary])
        };
    };
    let allow_origin = ("Access-Control-Allow-Origin", known.as_str().to_owned());
    if !preflight {
        let expose = ("Access-Control-Expose-Headers", EXPOSED_HEADERS.to_owned());
        return Decision::Continue(vec![vary, allow_origin, expose]);
    }
    let method_fits = ask
        .request_method
        .and_then(Method::parse)
        .is_some_and(|method| path_methods.contains(&method));
    let headers_fit = ask
        .request_headers
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .all(|header| {
            header.is_empty()
                || ALLOWED_HEADERS
                    .iter()
                    .any(|allowed| allowed.eq_ignore_ascii_case(header))
        });
    if !method_fits || !headers_fit {
        return Decision::Preflight(vec![vary]);
    }
    Decision::Preflight(vec![
        vary,
        allow_origin,
        ("Access-Control-Allow-Methods", routes::allow(path_methods)),
        ("Access-Control-Allow-Headers", ALLOWED_HEADERS.join(", ")),
        ("Access-Control-Max-Age", MAX_AGE_SECONDS.to_string()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const APP: &str = "https://app.example";

    fn allowlist() -> Vec<Origin> {
        vec![Origin::parse(APP).unwrap()]
    }

    fn preflight<'a>(origin: &'a str, method: &'a str, headers: &'a str) -> Ask<'a> {
        Ask {
            origin: Some(origin),
            method: Some(Method::Options),
            request_method: Some(method),
            request_headers: Some(headers),
        }
    }

    #[test]
    fn an_allowed_page_may_ask() {
        let ask = preflight(APP, "POST", "Authorization, content-type,idempotency-key");
        let Decision::Preflight(headers) = decide(ask, &allowlist(), &[Method::Post]) else {
            panic!("no preflight")
        };
        assert!(headers.contains(&("Access-Control-Allow-Origin", APP.to_owned())));
        assert!(headers.contains(&("Access-Control-Allow-Methods", "POST".to_owned())));
        assert!(headers.contains(&("Access-Control-Max-Age", "600".to_owned())));
        assert!(
            headers
                .iter()
                .all(|(name, _)| *name != "Access-Control-Allow-Credentials")
        );
    }

    #[test]
    fn others_get_no_permission() {
        let refused = Decision::Preflight(vec![("Vary", "Origin".to_owned())]);
        for ask in [
            preflight("https://evil.example", "POST", ""),
            preflight("null", "POST", ""),
            preflight("https://app.example.evil.example", "POST", ""),
            preflight(APP, "DELETE", ""),
            preflight(APP, "POST", "x-sneaky"),
        ] {
            assert_eq!(decide(ask, &allowlist(), &[Method::Post]), refused, "{ask:?}");
        }
    }

    #[test]
    fn the_real_request_goes_on_with_or_without_permission() {
        let ask = |origin| Ask {
            origin,
            method: Some(Method::Post),
            request_method: None,
            request_headers: None,
        };
        assert_eq!(
            decide(ask(None), &allowlist(), &[Method::Post]),
            Decision::Continue(vec![])
        );
        assert_eq!(
            decide(ask(Some("https://evil.example")), &allowlist(), &[Method::Post]),
            Decision::Continue(vec![("Vary", "Origin".to_owned())])
        );
        let Decision::Continue(headers) = decide(ask(Some(APP)), &allowlist(), &[Method::Post]) else {
            panic!("preflight")
        };
        assert_eq!(headers.get(1), Some(&("Access-Control-Allow-Origin", APP.to_owned())));
    }

    #[test]
    fn origins_are_exact() {
        assert!(Origin::parse("http://localhost:3000").is_some());
        for text in [
            "*",
            "null",
            "https://a.example/",
            "https://A.example",
            "https://a.example:443",
            "ftp://a",
            "",
        ] {
            assert_eq!(Origin::parse(text), None, "{text}");
        }
    }
}
