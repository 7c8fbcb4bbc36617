//! Explanations of calls, compared with where calls go.

use std::time::Duration;

use bytes::Bytes;
use chancery_grpc::{
    CallPlace, Channel, ChannelBuilder, ChannelPolicy, Credentials, ExplainedOutcome,
};
use chancery_testkit::TestServer;
use http::HeaderMap;
use http_body_util::{BodyExt, Empty};
use tonic::Code;
use tower_service::Service;

use crate::one_route;
use crate::support::ports::Port;
use crate::support::{Backend, PATIENCE, Resources, call, channel, name, until};

/// Makes a call and returns its place and the code in its headers, if that is there.
async fn place(channel: &Channel, path: &str) -> (CallPlace, Option<String>) {
    let request = http::Request::post(path).body(Empty::<Bytes>::new()).expect("a request");
    let call = async {
        let response = channel.clone().call(request).await.expect("a response");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body");
        let trailers = body.trailers().cloned().unwrap_or_default();
        let status = trailers.get("grpc-status").map(|it| it.to_str().expect("a text").to_owned());
        (head.extensions.get::<CallPlace>().cloned().expect("it was sent"), status)
    };
    tokio::time::timeout(PATIENCE, call).await.expect("a call in time")
}

/// C-095, C-098, C-110, C-113: what passes a route, a priority and an endpoint over, and the next call goes
/// where it was said.
#[tokio::test]
async fn a_call_goes_where_it_was_explained() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let gone = Port::reserve();
    let gone = Backend::at(gone.address().parse().expect("an address"));
    let routes = "[{name: vip, match: {prefix: /, headers: [{name: tier, string_match: {exact: gold}}]}, route: {cluster: y}}, \
                   {match: {prefix: /t/}, route: {weighted_clusters: {clusters: [{name: x, weight: 3}]}}}]";
    let resources = Resources::default().routes(routes).cluster("x", "").cluster("y", "");
    let resources = resources.endpoints("x", &[&[&gone], &[&a, &b]]).endpoints("y", &[&[&a]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "both", |result| name(result) == Some("a")).await;
    until(&channel, "both", |result| name(result) == Some("b")).await;
    for _ in 0..4 {
        let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
        let ExplainedOutcome::Sent(told) = &explained.outcome else { panic!("{explained}") };
        let (place, status) = place(&channel, "/t/echo").await;
        assert_eq!(told.address, place.address(), "{explained}");
        assert_eq!((place.cluster(), place.attempts(), status.as_deref()), ("x", 1, Some("0")));
        assert_eq!((told.cluster.as_str(), told.priority), ("x", Some(1)));
        assert_eq!(place.locality().name.zone, "z");
    }
    let explained = channel.explain("t/echo", &HeaderMap::new(), PATIENCE).await;
    assert_eq!(explained.virtual_host.as_deref(), Some("all"));
    assert_eq!((explained.passed_total, explained.passed[0].name.as_str()), (1, "vip"));
    assert!(explained.passed[0].reason.contains("tier"), "{:?}", explained.passed);
    assert_eq!(explained.route.as_ref().map(|route| route.index), Some(1));
    let cluster = explained.cluster.as_ref().expect("a cluster");
    assert_eq!((cluster.name.as_str(), cluster.share), ("x", Some((3, 3))));
    let text = explained.to_string();
    for part in [
        "route 0 `vip` wants: ",
        "cluster `x`, which has 3 of 3 calls",
        "cluster `x` is READY, ",
        // The calls of the process count, and so do those of other tests.
        " of 1024 calls under way",
        "priority 0 is passed over: ",
        "TRANSIENT_FAILURE: ",
        "\n  priority 1: ",
        "locality /z, weight 1 of 1: round_robin, READY",
        ", in cluster `x`, priority 1, locality /z",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

/// A call that the server fails has a place too.
#[tokio::test]
async fn a_call_that_fails_says_where_it_was() {
    let bad = Backend::start("bad").await;
    let resources = Resources::default().routes(&one_route("x")).cluster("x", "");
    let server =
        TestServer::start(resources.endpoints("x", &[&[&bad]]).snapshot()).await.expect("a server");
    let (place, status) = place(&channel(&server), "/t/fail").await;
    assert_eq!((place.address(), status.as_deref()), (bad.address, Some("9")));
}

/// C-094, C-103: why a call fails or waits.
#[tokio::test]
async fn a_call_that_goes_nowhere_is_explained() {
    let a = Backend::start("a").await;
    let server = TestServer::start(chancery_core::Snapshot::new()).await.expect("a server");
    let waiting = channel(&server);
    let explained = waiting.explain("/t/x", &HeaderMap::new(), Duration::from_millis(1)).await;
    assert!(matches!(explained.outcome, ExplainedOutcome::Waits(_)), "{explained}");
    assert!(explained.to_string().contains("which the control plane has not sent"), "{explained}");
    let routes = "[{match: {path: /t/echo}, route: {cluster: x}}, {match: {path: /t/empty}, route: {cluster: y}}]";
    let resources = Resources::default().routes(routes).cluster("x", "").cluster("y", "");
    server.publish(resources.endpoints("x", &[&[&a]]).endpoints("y", &[]).snapshot());
    until(&waiting, "an answer", |result| result.is_ok()).await;
    for (method, why) in [("/t/none", "no route of virtual host"), ("/t/empty", "has no endpoints")]
    {
        let explained = waiting.explain(method, &HeaderMap::new(), PATIENCE).await;
        let ExplainedOutcome::Fails { code, message, .. } = &explained.outcome else {
            panic!("{explained}")
        };
        assert_eq!(*code, Code::Unavailable, "{explained}");
        assert!(message.contains(why), "{explained}");
        assert_eq!(explained.to_string().matches(why).count(), 1, "{explained}");
    }
}

/// C-109, C-119: endpoints that take no calls, and clusters that cannot be used.
#[tokio::test]
async fn what_is_left_out_is_explained() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let routes = "[{match: {path: /t/echo}, route: {cluster: all}}, {match: {path: /t/sick}, route: {cluster: y}}]";
    let resources = Resources::default().routes(routes).aggregate("all", &["w", "x"]);
    let resources = resources.cluster("x", "").cluster("y", "");
    let resources = resources.endpoints_of_health("x", &[(&a, "HEALTHY"), (&b, "UNHEALTHY")]);
    let resources = resources.endpoints_of_health("y", &[(&a, "DRAINING"), (&b, "TIMEOUT")]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "an answer", |result| name(result) == Some("a")).await;
    let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
    let [missing, sick] = explained.left_out.as_slice() else { panic!("{explained}") };
    assert!(missing.starts_with("cluster `w`: "), "{missing}");
    assert_eq!(*sick, format!("cluster `x`: {} is not healthy", b.address));
    let text = explained.to_string();
    assert!(text.contains(&format!("\nleft out: {sick}\n")), "{text}");
    let explained = channel.explain("/t/sick", &HeaderMap::new(), PATIENCE).await;
    let ExplainedOutcome::Fails { message, .. } = &explained.outcome else { panic!("{explained}") };
    assert!(explained.left_out.is_empty(), "{explained}");
    let why = format!("{} is not healthy, and {} is draining", b.address, a.address);
    assert_eq!(*message, format!("cluster `y`: no endpoint takes calls: {why}"));
}

/// C-061, C-067: a configuration that is in use although the control plane wants another one, or has gone.
#[tokio::test]
async fn a_configuration_that_may_be_old_is_explained() {
    let a = Backend::start("a").await;
    let resources = Resources::default().endpoints("x", &[&[&a]]);
    let good = resources.clone().routes("[{match: {path: /t/echo}, route: {cluster: x}}]");
    let server = TestServer::start(good.cluster("x", "").snapshot()).await.expect("a server");
    let channel = channel(&server);
    until(&channel, "an answer", |result| result.is_ok()).await;
    let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
    assert_eq!(explained.outdated, Vec::<String>::new(), "{explained}");
    // The route of the call is in a version that is rejected, and so is the cluster.
    let routes =
        "[{match: {path: /t/new}, route: {weighted_clusters: {clusters: [{name: x, weight: 0}]}}}]";
    server.publish(resources.routes(routes).cluster("x", "lb_policy: MAGLEV").snapshot());
    for (method, kinds) in [("/t/new", &["lds"][..]), ("/t/echo", &["lds", "cds"])] {
        let told = async {
            loop {
                let explained = channel.explain(method, &HeaderMap::new(), PATIENCE).await;
                if explained.outdated.len() == kinds.len() {
                    return explained;
                }
                tokio::task::yield_now().await;
            }
        };
        let explained = tokio::time::timeout(PATIENCE, told).await.expect("both in time");
        for (error, kind) in explained.outdated.iter().zip(kinds) {
            assert!(error.starts_with(kind) && error.contains(" is rejected: "), "{explained}");
            assert!(
                explained.to_string().contains(&format!("\nmay be old: {error}\n")),
                "{explained}"
            );
        }
    }
    drop(server);
    let told = async {
        loop {
            let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
            if explained.outdated.iter().any(|error| !error.contains("is rejected")) {
                return explained;
            }
            tokio::task::yield_now().await;
        }
    };
    let explained = tokio::time::timeout(PATIENCE, told).await.expect("an outage in time");
    assert!(matches!(explained.outcome, ExplainedOutcome::Sent(_)), "{explained}");
}

/// C-114: nothing is connected for an explanation.
#[tokio::test]
async fn an_explanation_connects_nothing() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let routes =
        "[{match: {prefix: /}, route: {cluster: x, hash_policy: [{header: {header_name: k}}]}}]";
    let resources = Resources::default().routes(routes).cluster("x", "lb_policy: RING_HASH");
    let server = TestServer::start(resources.endpoints("x", &[&[&a, &b]]).snapshot())
        .await
        .expect("a server");
    let channel = channel(&server);
    let mut headers = HeaderMap::new();
    headers.insert("k", "v".parse().expect("a value"));
    let explained = channel.explain("/t/echo", &headers, PATIENCE).await;
    let ExplainedOutcome::Waits(what) = &explained.outcome else { panic!("{explained}") };
    let chosen = [&a, &b].into_iter().find(|it| what.contains(&it.address.to_string()));
    let chosen = chosen.unwrap_or_else(|| panic!("it names the endpoint: {explained}"));
    assert_eq!((a.connections(), b.connections()), (0, 0));
    let answer = crate::support::call_to(&channel, "/t/echo", crate::support::with("k", "v")).await;
    assert!(answer.is_ok(), "{answer:?}");
    assert_eq!(chosen.connections(), 1, "the call goes where it was said");
    let explained = channel.explain("/t/echo", &headers, PATIENCE).await;
    assert!(
        matches!(&explained.outcome, ExplainedOutcome::Sent(to) if to.address == chosen.address),
        "{explained}"
    );
    assert!(explained.to_string().contains("ring_hash, READY"), "{explained}");
    assert_eq!(a.connections() + b.connections(), 1);
}

/// C-119: an aggregate is described as an order of clusters, and a call knows the one it went to.
#[tokio::test]
async fn clusters_of_an_aggregate_are_told() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let resources = Resources::default().routes(&one_route("both")).aggregate("both", &["x", "y"]);
    let resources = resources.cluster("x", "").cluster("y", "");
    let resources = resources.endpoints("x", &[&[&a]]).endpoints("y", &[&[&b]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let result = call(&channel).await;
    assert_eq!(name(&result), Some("a"), "{result:?}");
    let (place, _) = place(&channel, "/t/echo").await;
    assert_eq!(place.cluster(), "x");
    let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
    let text = explained.to_string();
    assert!(
        text.contains("clusters in this order, READY\n  priority 0: cluster `x` is READY"),
        "{text}"
    );
    assert!(text.contains("\n  priority 1: cluster `y` is not connected"), "{text}");
    let ExplainedOutcome::Sent(to) = &explained.outcome else { panic!("{text}") };
    assert_eq!((to.cluster.as_str(), to.priority), ("x", Some(0)));
}

/// C-150: a filter that does something to calls is told, with its chances.
#[tokio::test]
async fn faults_are_told() {
    let a = Backend::start("a").await;
    let fault = "\"@type\": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault, \
                 delay: {fixed_delay: 0.5s, percentage: {numerator: 5}}, \
                 abort: {grpc_status: 14, percentage: {numerator: 1, denominator: MILLION}}, max_active_faults: 3";
    let filters = format!("- {{name: chaos, typed_config: {{{fault}}}}}");
    let resources = Resources::default().filtered_routes(&filters, &one_route("x"));
    let resources = resources.cluster("x", "").endpoints("x", &[&[&a]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let explained = channel(&server).explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
    let text = explained.to_string();
    let expected = "\nfilter `chaos` delays 5 of 100 calls by 500ms, ends 1 of 1000000 calls with UNAVAILABLE, \
                    at most 3 at a time\n";
    assert!(text.contains(expected), "{text}");
    assert!(matches!(explained.outcome, ExplainedOutcome::Sent(_)), "{text}");
}

/// C-117: there are no routes without a control plane, and a tree all the same.
#[tokio::test]
async fn an_ordinary_target_is_explained() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let builder = ChannelBuilder::new(&format!("ipv4:{},{}", a.address, b.address));
    let builder = builder.credentials(Credentials::insecure()).policy(ChannelPolicy::RoundRobin);
    let channel = builder.authority("orders").build().expect("a channel");
    let explained = channel.explain("/t/echo", &HeaderMap::new(), PATIENCE).await;
    let ExplainedOutcome::Sent(to) = &explained.outcome else { panic!("{explained}") };
    assert!([a.address, b.address].contains(&to.address), "{explained}");
    assert_eq!((explained.virtual_host.as_ref(), explained.route.as_ref()), (None, None));
    let text = explained.to_string();
    assert!(text.starts_with("call of `/t/echo` at `orders`\ncluster `"), "{text}");
    assert!(text.contains("priority 0: round_robin, READY"), "{text}");
}
