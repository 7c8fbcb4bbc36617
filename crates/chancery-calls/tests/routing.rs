//! The way of a call through a route configuration, as a script: hosts, routes, actions, and words about them.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, reason = "a test fails by a panic")]

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::filters::{
    CustomFilter, Filter, FilterChain, FilterConfig, FilterEntry, ListedFilter, Overrides,
};
use chancery_calls::matching::{
    Denominator, Fraction, HeaderKey, HeaderMatcher, HeaderRule, TextMatcher,
};
use chancery_calls::retrying::{RetryConditions, RetryPolicy};
use chancery_calls::routing::{
    Action, Call, ChosenTarget, Decision, DomainPattern, ForwardAction, HashPolicy, HashSource,
    IgnoredRoute, MergedChains, PathMatcher, Route, RouteConfig, RouteMatcher, RouteTarget,
    VirtualHost, WeightedCluster, WeightedClusters,
};
use chancery_calls::{Code, Failure, SeededDice};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

fn to(cluster: &str) -> Action {
    Action::Forward(ForwardAction::to(RouteTarget::Cluster(cluster.into())))
}

fn weighted(clusters: &[(&str, u32)]) -> Action {
    let clusters = clusters.iter().map(|(name, weight)| WeightedCluster {
        name: (*name).into(),
        weight: *weight,
        overrides: Overrides::default(),
    });
    let clusters = WeightedClusters::new(clusters).unwrap();
    Action::Forward(ForwardAction::to(RouteTarget::Weighted(clusters)))
}

fn route(prefix: &str, action: Action) -> Route {
    let path = PathMatcher::Prefix { prefix: prefix.into(), ignores_case: false };
    let matcher = RouteMatcher { path, headers: Arc::from([]), fraction: None };
    Route { name: "".into(), matcher, action, overrides: Overrides::default() }
}

fn with_header(name: &str, value: &str, mut route: Route) -> Route {
    let rule = HeaderRule::Text(TextMatcher::exact(value));
    let matcher = HeaderMatcher { key: HeaderKey::new(name), rule, is_inverted: false };
    route.matcher.headers = Arc::from([matcher]);
    route
}

fn with_fraction(percent: u32, mut route: Route) -> Route {
    route.matcher.fraction = Some(Fraction::new(percent, Denominator::Hundred));
    route
}

fn host(name: &str, domains: &[&str], routes: Vec<Route>) -> VirtualHost {
    let domains = domains.iter().map(|domain| DomainPattern::parse(domain).unwrap()).collect();
    VirtualHost { name: name.into(), domains, routes, retry: None, overrides: Overrides::default() }
}

fn any(routes: Vec<Route>) -> RouteConfig {
    RouteConfig::new(vec![host("all", &["*"], routes)])
}

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    pairs.iter().map(|(k, v)| (k.parse().unwrap(), HeaderValue::from_static(v))).collect()
}

fn call<'a>(authority: &'a str, path: &'a str, headers: &'a HeaderMap) -> Call<'a> {
    Call { authority, path, headers, channel_id: 1 }
}

fn decide<'a>(routes: &'a RouteConfig, authority: &str, path: &str) -> Result<&'a str, Failure> {
    let decision = routes.decide(&call(authority, path, &HeaderMap::new()), &mut SeededDice(1))?;
    Ok(decision.target.name())
}

#[test]
fn the_virtual_host_is_that_of_the_authority() {
    // C-094
    let routes = RouteConfig::new(vec![
        host("rest", &["*"], vec![route("", to("rest"))]),
        host("orders", &["orders:8080", "*.orders"], vec![route("", to("orders"))]),
    ]);
    assert_eq!(decide(&routes, "Orders:8080", "/a"), Ok("orders"));
    assert_eq!(decide(&routes, "eu.orders", "/a"), Ok("orders"));
    assert_eq!(decide(&routes, "orders", "/a"), Ok("rest"));
}

#[test]
fn a_call_without_a_host_or_a_route_is_unavailable() {
    // C-094: no virtual host at all is a configuration too.
    let no_host = decide(&RouteConfig::new(vec![]), "orders", "/a").unwrap_err();
    assert_eq!(no_host.code, Code::Unavailable);
    assert_eq!(&*no_host.message, "no virtual host has a domain for the authority `orders`");
    let routes = any(vec![route("/b", to("b"))]);
    let no_route = decide(&routes, "orders", "/a\u{202e}").unwrap_err();
    assert_eq!(no_route.code, Code::Unavailable);
    let text = "no route of virtual host `all` matches a call of `/a\\u{202e}`";
    assert_eq!(&*no_route.message, text);
}

#[test]
fn the_first_route_that_matches_counts() {
    // C-095
    let exact = PathMatcher::Exact { path: "/s/M".into(), ignores_case: false };
    let mut second = route("", to("second"));
    second.matcher.path = exact;
    let routes = any(vec![route("/s/", to("first")), second, route("", to("third"))]);
    assert_eq!(decide(&routes, "a", "/s/M"), Ok("first"));
    assert_eq!(decide(&routes, "a", "/t/M"), Ok("third"));
}

#[test]
fn a_route_with_query_matchers_or_an_unknown_specifier_is_as_if_it_were_not_there() {
    // C-095, C-098
    for reason in
        [IgnoredRoute::QueryParameters, IgnoredRoute::ClusterSpecifier, IgnoredRoute::UnknownPlugin]
    {
        let routes = any(vec![route("", Action::Ignored(reason)), route("", to("next"))]);
        assert_eq!(decide(&routes, "a", "/s/M"), Ok("next"));
    }
}

#[test]
fn a_route_that_leads_to_no_cluster_fails_its_calls() {
    // C-098
    for action in [Action::Unsupported, Action::NonForwarding] {
        let routes = any(vec![route("", action), route("", to("next"))]);
        let failure = decide(&routes, "a", "/s/M").unwrap_err();
        assert_eq!(failure.code, Code::Unavailable);
        assert_eq!(&*failure.message, "route 0 of virtual host `all` does not lead to a cluster");
    }
}

#[test]
fn a_route_leads_to_a_cluster_to_one_of_several_or_to_a_plugin() {
    // C-098
    let plugin = Action::Forward(ForwardAction::to(RouteTarget::Plugin("rls".into())));
    let routes = any(vec![
        route("/one", to("c")),
        route("/two", weighted(&[("none", 0), ("all", 7)])),
        route("/three", plugin),
    ]);
    let map = HeaderMap::new();
    let target = |path| {
        let decision = routes.decide(&call("a", path, &map), &mut SeededDice(1)).unwrap();
        decision.target
    };
    assert!(matches!(target("/one"), ChosenTarget::Cluster(name) if &**name == "c"));
    let ChosenTarget::Weighted { cluster, index: 0, total: 7 } = target("/two") else {
        panic!("another target: {:?}", target("/two"))
    };
    assert_eq!(&*cluster.name, "all");
    assert!(matches!(target("/three"), ChosenTarget::Plugin(name) if &**name == "rls"));
}

#[test]
fn headers_and_fractions_are_conditions_too() {
    // C-096, C-097
    let routes = any(vec![
        with_header("x-user", "1,2", route("", to("joined"))),
        with_header("content-type", "application/grpc", with_fraction(25, route("", to("some")))),
        route("", to("rest")),
    ]);
    let mut twice = headers(&[("x-user", "1")]);
    twice.append("x-user", HeaderValue::from_static("2"));
    let mut dice = SeededDice(1);
    let joined = routes.decide(&call("a", "/", &twice), &mut dice).unwrap();
    assert_eq!(&**joined.target.name(), "joined");
    let map = HeaderMap::new();
    let some = (0..10_000).filter(|_| {
        let decision = routes.decide(&call("a", "/", &map), &mut dice).unwrap();
        &**decision.target.name() == "some"
    });
    // Five standard deviations around a quarter.
    let some = some.count();
    assert!((2_283..=2_717).contains(&some), "{some}");
}

#[test]
fn a_server_takes_calls_of_its_own_routes_alone() {
    // gRFC A36.
    let routes = any(vec![route("/s/", Action::NonForwarding), route("", to("c"))]);
    let map = HeaderMap::new();
    let served = |path| {
        routes.find(&call("a", path, &map), &mut SeededDice(1)).and_then(|place| place.serve())
    };
    assert_eq!(served("/s/M"), Ok(()));
    let failure = served("/t/M").unwrap_err();
    assert_eq!(failure.code, Code::Unavailable);
    assert_eq!(&*failure.message, "route 1 of virtual host `all` is not a `non_forwarding_action`");
}

#[test]
fn the_retry_policy_of_a_route_beats_that_of_its_host() {
    // gRFC A44.
    let policy = |retries| {
        let conditions = RetryConditions::parse("unavailable");
        Arc::new(RetryPolicy::new(conditions, Some(retries), None).unwrap())
    };
    let mut own = ForwardAction::to(RouteTarget::Cluster("c".into()));
    own.retry = Some(policy(1));
    let routes = vec![route("/own", Action::Forward(own)), route("", to("c"))];
    let mut host = host("all", &["*"], routes);
    host.retry = Some(policy(3));
    let routes = RouteConfig::new(vec![host]);
    let map = HeaderMap::new();
    let attempts = |path| {
        let decision = routes.decide(&call("a", path, &map), &mut SeededDice(1)).unwrap();
        decision.retry().unwrap().attempts()
    };
    assert_eq!((attempts("/own"), attempts("/other")), (2, 4));
}

#[test]
fn a_session_names_another_cluster_of_the_same_route() {
    // gRFC A60.
    let routes = any(vec![route("/w", weighted(&[("a", 1), ("b", 1)])), route("", to("c"))]);
    let map = HeaderMap::new();
    let decide = |path| routes.decide(&call("a", path, &map), &mut SeededDice(1)).unwrap();
    let name = |decision: Option<Decision<'_>>| decision.map(|it| it.target.name().to_string());
    assert_eq!(name(decide("/w").redirected("a")).as_deref(), Some("a"));
    assert_eq!(name(decide("/w").redirected("b")).as_deref(), Some("b"));
    assert_eq!(name(decide("/w").redirected("c")), None);
    assert_eq!(name(decide("/").redirected("c")).as_deref(), Some("c"));
    assert_eq!(name(decide("/").redirected("a")), None);
}

#[derive(Debug)]
struct Toy(u32);

impl CustomFilter for Toy {
    fn kind(&self) -> &str {
        "toy"
    }
}

fn toy(name: &str, number: u32) -> Overrides {
    Overrides::new([(name.into(), FilterConfig::Custom(Arc::new(Toy(number))))])
}

/// A chain of one filter, `toy` with the number 0, and the router.
fn chain() -> FilterChain {
    let entry = |name: &str, config| {
        let filter = ListedFilter::Known(config);
        FilterEntry { name: name.into(), filter, is_disabled: false }
    };
    let toy = entry("toy", FilterConfig::Custom(Arc::new(Toy(0))));
    FilterChain::new(vec![toy, entry("router", FilterConfig::Router)]).unwrap()
}

fn number(filters: Result<&[Filter], Failure>) -> Result<u32, Failure> {
    Ok(filters?[0].config.custom::<Toy>().unwrap().0)
}

#[test]
fn filters_are_those_of_the_cluster_then_the_route_then_the_host() {
    // gRFC A39.
    let cluster =
        |name: &str, overrides| WeightedCluster { name: name.into(), weight: 1, overrides };
    let clusters = [cluster("own", toy("toy", 3)), cluster("none", Overrides::default())];
    let target = RouteTarget::Weighted(WeightedClusters::new(clusters).unwrap());
    let mut both = route("/both", Action::Forward(ForwardAction::to(target)));
    both.overrides = toy("toy", 2);
    let mut foreign = route("/foreign", to("c"));
    foreign.overrides = Overrides::new([("toy".into(), FilterConfig::Router)]);
    let mut host = host("all", &["*"], vec![both, foreign, route("/host", to("c"))]);
    host.overrides = toy("toy", 1);
    let plain = VirtualHost { name: "plain".into(), overrides: toy("other", 9), ..host.clone() };
    let plain = VirtualHost {
        domains: vec![DomainPattern::parse("plain").unwrap()],
        routes: vec![route("", to("c"))],
        ..plain
    };
    let routes = RouteConfig::new(vec![host, plain]);
    let merged = MergedChains::new(&chain(), &routes);
    let map = HeaderMap::new();
    let of = |authority, path, cluster| {
        let decision = routes.decide(&call(authority, path, &map), &mut SeededDice(1)).unwrap();
        let decision = decision.redirected(cluster).unwrap();
        let merged = number(merged.of(&decision));
        // The same as if they were looked up for this call.
        if let Ok(merged) = merged {
            let config = decision.overrides().get("toy");
            let own = config.and_then(|config| config.custom::<Toy>()).map_or(0, |toy| toy.0);
            assert_eq!(merged, own);
        }
        merged
    };
    assert_eq!(of("a", "/both", "own"), Ok(3));
    assert_eq!(of("a", "/both", "none"), Ok(2));
    assert_eq!(of("a", "/host", "c"), Ok(1));
    assert_eq!(of("plain", "/host", "c"), Ok(0));
    // A filter that cannot be merged fails the calls of its route, and those alone.
    assert_eq!(of("a", "/foreign", "c").unwrap_err().code, Code::Unavailable);
}

#[test]
fn a_decision_is_told_in_words() {
    let mut action = ForwardAction::to(RouteTarget::Cluster("v2".into()));
    action.limits.max_stream_duration = Some(Duration::from_secs(15));
    let key = HeaderKey::new("x-user");
    let source = HashSource::Header { key, rewrite: None };
    action.hash_policies = Arc::from([HashPolicy { source, is_terminal: false }]);
    let mut last = route("/orders.v1.Orders/", Action::Forward(action));
    last.name = "orders".into();
    let routes = RouteConfig::new(vec![host(
        "local",
        &["*.example", "*"],
        vec![
            route("/users", to("users")),
            with_header("x-canary", "yes", route("/orders", to("canary"))),
            route("", Action::Ignored(IgnoredRoute::QueryParameters)),
            with_fraction(0, route("", to("never"))),
            last,
        ],
    )]);
    let map = headers(&[("x-user", "a")]);
    let call = call("orders:8080", "/orders.v1.Orders/Get", &map);
    let explanation = routes.explain(&call, &mut SeededDice(1));
    assert_eq!(
        explanation.to_string(),
        "call of `/orders.v1.Orders/Get` at `orders:8080`\n\
         virtual host `local`, by its domain `*`\n\
         route 0 wants: path begins with `/users`\n\
         route 1 wants: header `x-canary` is `yes`\n\
         route 2 is ignored: it has matchers of query parameters, which gRPC has not\n\
         route 3 takes 0 of 100 calls, and not this one\n\
         route 4 `orders` matches: path begins with `/orders.v1.Orders/`\n\
         cluster `v2`\n\
         at most 15s\n\
         hash d24ec4f1a98c6e5b, by policy"
    );
    assert_eq!(explanation.passed_total(), 4);
}

#[test]
fn a_failure_is_told_too_and_the_list_of_routes_is_bounded() {
    let many = (0..1_000).map(|number| route(&format!("/{number}/"), to("c"))).collect();
    let routes = any(many);
    let map = HeaderMap::new();
    let explanation = routes.explain(&call("a", "/x", &map), &mut SeededDice(1));
    let text = explanation.to_string();
    assert_eq!(text.lines().count(), 2 + 32 + 2);
    assert!(text.ends_with(
        "968 more routes do not match\n\
         it fails with UNAVAILABLE: no route of virtual host `all` matches a call of `/x`"
    ));
    let mut strict = with_header("h", "1", route("", to("c")));
    strict.matcher.headers = strict.matcher.headers.iter().cycle().take(1_000).cloned().collect();
    let told = strict.matcher.to_string();
    assert!(told.ends_with(", header `h` is `1`, 984 more conditions on headers"), "{told}");
    let nowhere = RouteConfig::new(vec![]);
    let explanation = nowhere.explain(&call("a", "/x", &map), &mut SeededDice(1));
    assert!(explanation.host().is_none());
    assert_eq!(explanation.to_string().lines().count(), 2);
}

fn any_route() -> impl Strategy<Value = Route> {
    let action = prop_oneof![
        4 => "[a-c]".prop_map(|name| to(&name)),
        2 => (1..4_u32, 1..4_u32).prop_map(|(a, b)| weighted(&[("a", a), ("b", b)])),
        1 => Just(Action::Unsupported),
        1 => Just(Action::Ignored(IgnoredRoute::ClusterSpecifier)),
    ];
    let fraction = proptest::option::of(0..=100_u32);
    ("/?[ab]?", proptest::bool::ANY, fraction, action).prop_map(
        |(prefix, wants, percent, action)| {
            let mut route = route(&prefix, action);
            if wants {
                route = with_header("h", "1", route);
            }
            percent.map_or_else(|| route.clone(), |percent| with_fraction(percent, route.clone()))
        },
    )
}

proptest! {
    #[test]
    fn an_explanation_is_of_the_decision_that_is_made(
        all in proptest::collection::vec(any_route(), 0..6),
        path in "/[ab]",
        has_header in proptest::bool::ANY,
        seed in proptest::num::u64::ANY,
    ) {
        let routes = any(all);
        let map = if has_header { headers(&[("h", "1")]) } else { HeaderMap::new() };
        let call = call("x", &path, &map);
        let decided = routes.decide(&call, &mut SeededDice(seed));
        let explanation = routes.explain(&call, &mut SeededDice(seed));
        let place = |decision: &Result<Decision<'_>, Failure>| match decision {
            Ok(it) => Ok((it.place.route_index, it.target.name().to_string(), it.hash)),
            Err(failure) => Err(failure.clone()),
        };
        prop_assert_eq!(place(&decided), place(explanation.decision()));
        if let Ok(decision) = &decided {
            prop_assert_eq!(explanation.passed_total(), decision.place.route_index);
        }
    }
}
