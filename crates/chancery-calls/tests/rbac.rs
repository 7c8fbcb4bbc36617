//! RBAC as scripts: every rule, its negation, and the names of peers.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

use chancery_calls::Code;
use chancery_calls::filters::rbac::{
    ArrivedCall, ForbiddenHeader, PeerCertificate, PeerIdentity, Permission, Principal, Rbac,
    RbacAction, RbacHeader, RbacPolicy, Verdict,
};
use chancery_calls::matching::{
    AddressRange, HeaderKey, HeaderMatcher, HeaderRule, TextMatcher, TextPattern,
};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

fn call(headers: &HeaderMap) -> ArrivedCall<'_> {
    ArrivedCall {
        method: "POST",
        authority: "orders.example",
        path: "/orders.v1.Orders/Get",
        headers,
        local: "[::ffff:10.1.0.2]:8080".parse().unwrap(),
        peer: "192.168.7.9:51000".parse().unwrap(),
        identity: PeerIdentity::Plain,
    }
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-team", "a"),
        ("x-team", "b"),
        ("content-type", "application/grpc+proto"),
        ("te", "trailers"),
        ("host", "other.example"),
        ("x-key-bin", "AAE="),
    ] {
        headers.append(name, HeaderValue::from_static(value));
    }
    headers
}

fn exact(text: &str) -> TextMatcher {
    TextMatcher::exact(text)
}

fn range(prefix: &str, bits: u32) -> AddressRange {
    AddressRange::new(prefix.parse().unwrap(), bits)
}

fn header(name: &str, rule: HeaderRule) -> Result<RbacHeader, ForbiddenHeader> {
    RbacHeader::new(HeaderMatcher { key: HeaderKey::new(name), rule, is_inverted: false })
}

fn value(name: &str, value: &str) -> RbacHeader {
    header(name, HeaderRule::Text(exact(value))).unwrap()
}

fn present(name: &str) -> RbacHeader {
    header(name, HeaderRule::Present(true)).unwrap()
}

#[test]
fn every_permission_has_calls_that_it_matches_and_others() {
    // gRFC A41.
    let headers = headers();
    let call = call(&headers);
    let prefix = TextPattern::Prefix("/orders.v1.Orders/".to_owned());
    let name = |text| Permission::RequestedServerName(exact(text));
    for (permission, matches) in [
        (Permission::Any, true),
        (Permission::And(vec![]), true),
        (Permission::And(vec![Permission::Any, name("x")]), false),
        (Permission::And(vec![Permission::Any, Permission::Any]), true),
        (Permission::Or(vec![]), false),
        (Permission::Or(vec![name("x"), Permission::Any]), true),
        (Permission::Header(value("x-team", "a,b")), true),
        (Permission::Header(value("x-team", "a")), false),
        (Permission::UrlPath(TextMatcher::new(prefix, false).unwrap()), true),
        (Permission::UrlPath(exact("/orders.v1.Orders/Put")), false),
        (Permission::DestinationIp(range("10.0.0.0", 8)), true),
        (Permission::DestinationIp(range("11.0.0.0", 8)), false),
        (Permission::DestinationIp(range("::", 0)), false),
        (Permission::DestinationPort(8080), true),
        (Permission::DestinationPort(8081), false),
        (Permission::Metadata { is_inverted: false }, false),
        (Permission::Metadata { is_inverted: true }, true),
        (name(""), true),
        (name("orders.example"), false),
    ] {
        assert_eq!(permission.matches(&call), matches, "{permission:?}");
        let negation = Permission::Not(Box::new(permission));
        assert_eq!(negation.matches(&call), !matches, "{negation:?}");
    }
}

#[test]
fn every_principal_has_calls_that_it_matches_and_others() {
    // gRFC A41.
    let headers = headers();
    let call = call(&headers);
    for (principal, matches) in [
        (Principal::Any, true),
        (Principal::And(vec![]), true),
        (Principal::And(vec![Principal::Any, Principal::Or(vec![])]), false),
        (Principal::Or(vec![]), false),
        (Principal::Or(vec![Principal::Authenticated(None), Principal::Any]), true),
        (Principal::Authenticated(None), false),
        (Principal::Authenticated(Some(exact(""))), false),
        (Principal::RemoteIp(range("192.168.0.0", 16)), true),
        (Principal::RemoteIp(range("10.0.0.0", 8)), false),
        (Principal::Header(value("x-team", "a,b")), true),
        (Principal::Header(value("x-team", "b")), false),
        (Principal::UrlPath(exact("/orders.v1.Orders/Get")), true),
        (Principal::UrlPath(exact("/")), false),
        (Principal::Metadata { is_inverted: false }, false),
        (Principal::Metadata { is_inverted: true }, true),
    ] {
        assert_eq!(principal.matches(&call), matches, "{principal:?}");
        let negation = Principal::Not(Box::new(principal));
        assert_eq!(negation.matches(&call), !matches, "{negation:?}");
    }
}

#[test]
fn headers_are_those_that_arrived() {
    // gRFC A41.
    let headers = headers();
    let call = call(&headers);
    for (header, matches) in [
        (value(":method", "POST"), true),
        (value(":path", "/orders.v1.Orders/Get"), true),
        (value(":authority", "orders.example"), true),
        // Both names of the authority mean the same, and a header `host` beside it is nothing.
        (value("Host", "orders.example"), true),
        (value("host", "other.example"), false),
        (value("content-type", "application/grpc+proto"), true),
        (value("x-key-bin", "AAE="), true),
        (present("te"), false),
        (present("connection"), false),
        (present("x-none"), false),
        (present(":other"), false),
    ] {
        assert_eq!(Permission::Header(header.clone()).matches(&call), matches, "{header:?}");
    }
}

#[test]
fn some_headers_cannot_be_asked_about() {
    // gRFC A41.
    for name in [":scheme", "grpc-timeout", "GRPC-Encoding", "grpc-"] {
        let fault = header(name, HeaderRule::Present(true)).unwrap_err();
        let name = name.to_lowercase();
        let text =
            format!("an RBAC policy has a matcher of the header `{name}`, and gRPC allows none");
        assert_eq!(fault.to_string(), text);
    }
    assert!(header("x-grpc-", HeaderRule::Present(true)).is_ok());
}

#[test]
fn the_name_of_a_peer_is_a_uri_else_of_dns_else_the_subject_else_empty() {
    // gRFC A41.
    let headers = HeaderMap::new();
    let all = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (uris, dns) = (all(&["spiffe://a/x", "spiffe://a/y"]), all(&["x.example", "y.example"]));
    let certificate = |uris, dns_names| {
        let subject = "CN=x,O=team";
        PeerIdentity::Tls(Some(PeerCertificate { uris, dns_names, subject }))
    };
    let both = certificate(&uris, &dns);
    let only_dns = certificate(&[], &dns);
    let only_subject = certificate(&[], &[]);
    let none = PeerIdentity::Tls(None);
    for (identity, name, matches) in [
        (both, "spiffe://a/y", true),
        (both, "x.example", false),
        (both, "CN=x,O=team", false),
        (only_dns, "y.example", true),
        (only_dns, "CN=x,O=team", false),
        (only_subject, "CN=x,O=team", true),
        (only_subject, "", false),
        (none, "", true),
        (none, "CN=x,O=team", false),
        (PeerIdentity::Plain, "", false),
    ] {
        let call = ArrivedCall { identity, ..call(&headers) };
        let principal = Principal::Authenticated(Some(exact(name)));
        assert_eq!(principal.matches(&call), matches, "{identity:?} {name}");
        let is_tls = !matches!(identity, PeerIdentity::Plain);
        assert_eq!(Principal::Authenticated(None).matches(&call), is_tls);
    }
}

fn policy(permission: Permission, principal: Principal) -> RbacPolicy {
    RbacPolicy { permissions: vec![permission], principals: vec![principal] }
}

#[test]
fn allowing_and_denying_are_opposites_and_the_rest_is_ignored() {
    // gRFC A41.
    let headers = headers();
    let call = call(&headers);
    let never = || Permission::Or(vec![]);
    let policies = || {
        [
            ("a".into(), policy(never(), Principal::Any)),
            ("b".into(), policy(Permission::Any, Principal::Or(vec![]))),
            ("d".into(), policy(Permission::Any, Principal::Any)),
            ("c".into(), policy(Permission::Any, Principal::Any)),
        ]
    };
    let verdict = |is_permitted, policy| Verdict { is_permitted, policy };
    let check = |action, count| {
        let rbac = Rbac::new(action, policies().into_iter().take(count));
        let verdict = rbac.check(&call);
        (verdict.is_permitted, verdict.policy.map(str::to_owned), verdict.failure())
    };
    assert_eq!(Rbac::new(RbacAction::Allow, policies()).check(&call), verdict(true, Some("c")));
    assert_eq!(Rbac::new(RbacAction::Deny, policies()).check(&call), verdict(false, Some("c")));
    let (is_permitted, policy, failure) = check(RbacAction::Allow, 2);
    assert_eq!((is_permitted, policy), (false, None));
    assert_eq!(failure.unwrap().code, Code::PermissionDenied);
    assert_eq!(check(RbacAction::Deny, 2), (true, None, None));
    assert_eq!(check(RbacAction::Ignore, 4), (true, None, None));
    assert!(!check(RbacAction::Allow, 0).0);
    // A policy without a principal or a permission matches nothing.
    let empty = Rbac::new(RbacAction::Allow, [("e".into(), RbacPolicy::default())]);
    assert_eq!(empty.check(&call), verdict(false, None));
}

/// A tree of rules, and whether it holds.
fn tree() -> impl Strategy<Value = (Permission, bool)> {
    let leaf = prop_oneof![
        Just((Permission::Any, true)),
        Just((Permission::DestinationPort(1), false)),
        Just((Permission::DestinationPort(8080), true)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let all = proptest::collection::vec(inner.clone(), 0..4);
        let split = |all: Vec<(Permission, bool)>| all.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
        prop_oneof![
            all.clone().prop_map(move |all| {
                let (rules, holds) = split(all);
                (Permission::And(rules), holds.into_iter().all(|it| it))
            }),
            all.prop_map(move |all| {
                let (rules, holds) = split(all);
                (Permission::Or(rules), holds.into_iter().any(|it| it))
            }),
            inner.prop_map(|(rule, holds)| (Permission::Not(Box::new(rule)), !holds)),
        ]
    })
}

proptest! {
    #[test]
    fn rules_within_rules_mean_what_they_say((rule, holds) in tree()) {
        // gRFC A41.
        prop_assert_eq!(rule.matches(&call(&HeaderMap::new())), holds);
    }
}
