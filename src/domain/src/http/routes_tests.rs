use super::*;

fn endpoint(method: Method, path: &str) -> Option<Endpoint> {
    match find(Some(method), path) {
        Match::Found(route, _) => Some(route.endpoint),
        Match::MethodNotAllowed(_) | Match::NotFound | Match::Malformed => None,
    }
}

#[test]
fn every_route_is_found_by_its_own_pattern_and_no_other() {
    for route in ROUTES {
        let path = route.pattern.replace(['{', '}'], "");
        assert_eq!(endpoint(route.method, &path), Some(route.endpoint), "{}", route.label());
    }
}

#[test]
fn params_are_decoded_and_named() {
    let Match::Found(route, params) = find(Some(Method::Put), "/internal/users/user_00%64emo/identities/demo") else {
        panic!("no route")
    };
    assert_eq!(route.endpoint, Endpoint::PutIdentity);
    assert_eq!(params.get("user_id"), Some("user_00demo"));
    assert_eq!(params.get("idp"), Some("demo"));
    assert_eq!(params.get("nothing"), None);
    assert_eq!(format!("{params:?}"), r#"["user_id", "idp"]"#);
}

#[test]
fn a_wrong_method_names_the_right_ones() {
    assert_eq!(
        find(Some(Method::Get), "/chat"),
        Match::MethodNotAllowed(vec![Method::Post])
    );
    assert_eq!(
        find(None, "/turns/x"),
        Match::MethodNotAllowed(vec![Method::Get, Method::Head])
    );
    assert_eq!(allow(&[Method::Get, Method::Head]), "GET, HEAD");
}

#[test]
fn head_is_answered_where_get_is() {
    assert_eq!(endpoint(Method::Head, "/health/live"), Some(Endpoint::Live));
    assert_eq!(endpoint(Method::Head, "/chat"), None);
}

#[test]
fn near_misses_are_not_found() {
    for path in [
        "/",
        "/chat/",
        "//chat",
        "/Chat",
        "/turns",
        "/turns/",
        "/turns//ack",
        "/turns/x/ack/y",
        "/health",
    ] {
        assert_eq!(find(Some(Method::Get), path), Match::NotFound, "{path}");
    }
    assert_eq!(find(Some(Method::Get), "/turns/a%2Fb"), Match::Malformed);
}

#[test]
fn what_changes_something_for_a_caller_needs_a_key_and_a_scope() {
    for route in ROUTES {
        let protected = route.auth == Auth::AccessToken;
        assert_eq!(protected, !route.scopes.is_empty(), "{}", route.label());
        let mutates = protected && route.method != Method::Get;
        assert_eq!(mutates, route.idempotent_key, "{}", route.label());
        assert_eq!(
            route.method != Method::Get,
            route.body != BodyRule::None,
            "{}",
            route.label()
        );
    }
}
