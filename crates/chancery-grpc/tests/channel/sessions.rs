//! Sessions by cookie: the program sends the cookie of a response with its next call, and that goes to the same endpoint.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use chancery_grpc::{CallPlace, Channel, ExplainedOutcome};
use chancery_testkit::TestServer;
use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, Empty};
use tower_service::Service;

use crate::one_route;
use crate::support::{Backend, Resources, channel, message, status_alone, within};

const FILTER: &str = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3";
const STATE: &str = "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3";

/// The fields of sessions with this cookie.
fn sessions(cookie: &str) -> String {
    let state = format!("{{\"@type\": {STATE}.CookieBasedSessionState, cookie: {{{cookie}}}}}");
    format!("session_state: {{name: cookie, typed_config: {state}}}")
}

/// The filter of a listener, with this cookie.
fn filter(cookie: &str) -> String {
    let fields = sessions(cookie);
    format!("- {{name: sessions, typed_config: {{\"@type\": {FILTER}.StatefulSession, {fields}}}}}")
}

/// All calls go to a cluster, with sessions by the cookie `c`.
fn to(cluster: &str) -> Resources {
    Resources::default().filtered_routes(&filter("name: c"), &one_route(cluster))
}

/// Adds a cluster whose endpoints that are draining keep their sessions.
fn cluster(resources: Resources, name: &str) -> Resources {
    resources.cluster(
        name,
        "common_lb_config: {override_host_status: {statuses: [UNKNOWN, HEALTHY, DRAINING]}}",
    )
}

/// The end of a call: where it went, and the cookies that its response sets.
struct Ended {
    place: CallPlace,
    set: Vec<String>,
}

impl Ended {
    fn address(&self) -> SocketAddr {
        self.place.address()
    }

    /// The cookie as the next call has it. It has to be the only one.
    fn cookie(&self) -> String {
        assert_eq!(self.set.len(), 1, "one cookie is set: {:?}", self.set);
        self.set[0].split(';').next().expect("a pair").to_owned()
    }
}

/// Makes a call with this cookie, or without one if it is empty.
async fn call(channel: &Channel, path: &str, cookie: &str) -> Ended {
    let mut request = http::Request::post(path);
    if !cookie.is_empty() {
        request = request.header(COOKIE, cookie);
    }
    let request = request.body(Empty::<Bytes>::new()).expect("a request");
    within(async {
        let response = channel.clone().call(request).await.expect("a response");
        let (head, body) = response.into_parts();
        let _ = body.collect().await.expect("a body");
        let set = head.headers.get_all(SET_COOKIE).iter();
        let set = set.map(|value| value.to_str().expect("a text").to_owned()).collect();
        Ended { place: head.extensions.get().cloned().expect("it was sent"), set }
    })
    .await
}

/// The cookie of a session with this endpoint.
fn cookie_of(name: &str, addresses: &[SocketAddr], cluster: &str) -> String {
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let text = format!("{};{cluster}", addresses.join(","));
    format!("{name}={}", chancery_core::base64::encode(text.as_bytes()))
}

/// Makes calls without a cookie until one goes to this backend.
async fn until_at(channel: &Channel, backend: &Backend) -> Ended {
    until_at_path(channel, "/t/echo", backend).await
}

/// C-106, C-109, C-120: a session stays with its endpoint when others come, and while it is draining; a call goes
/// elsewhere when it is gone, and has a new cookie.
#[tokio::test]
async fn a_session_stays_with_its_endpoint() {
    let (a, b, c, d) = (
        Backend::start("a").await,
        Backend::start("b").await,
        Backend::start("c").await,
        Backend::start("d").await,
    );
    let resources = cluster(to("x"), "x");
    let version =
        |all: &[(&Backend, &str)]| resources.clone().endpoints_of_health("x", all).snapshot();
    let server = TestServer::start(version(&[(&a, "HEALTHY"), (&b, "HEALTHY")])).await;
    let server = server.expect("a server");
    let channel = channel(&server);
    let first = until_at(&channel, &a).await;
    let cookie = first.cookie();
    assert_eq!(first.set, [format!("{}; HttpOnly", cookie_of("c", &[a.address], "x"))]);
    let stays = async |why: &str| {
        for _ in 0..10 {
            let ended = call(&channel, "/t/echo", &cookie).await;
            assert_eq!((ended.address(), ended.set.len()), (a.address, 0), "{why}");
        }
    };
    stays("nothing has changed").await;
    server.publish(version(&[(&a, "UNKNOWN"), (&b, "HEALTHY"), (&c, "UNKNOWN")]));
    until_at(&channel, &c).await;
    stays("another endpoint has come").await;
    server.publish(version(&[(&a, "DRAINING"), (&d, "HEALTHY")]));
    until_at(&channel, &d).await;
    stays("it is draining").await;
    for _ in 0..5 {
        assert_eq!(call(&channel, "/t/echo", "").await.address(), d.address);
    }
    assert_eq!(a.connections(), 1, "it had one connection all the time");
    server.publish(version(&[(&b, "HEALTHY")]));
    until_at(&channel, &b).await;
    let moved = call(&channel, "/t/echo", &cookie).await;
    assert_eq!(moved.cookie(), cookie_of("c", &[b.address], "x"));
}

/// C-106: without `override_host_status` an endpoint that is draining loses its sessions.
#[tokio::test]
async fn the_cluster_says_which_endpoints_keep_sessions() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let resources = to("x").cluster("x", "");
    let version =
        |all: &[(&Backend, &str)]| resources.clone().endpoints_of_health("x", all).snapshot();
    let server = TestServer::start(version(&[(&a, "HEALTHY")])).await.expect("a server");
    let channel = channel(&server);
    let cookie = call(&channel, "/t/echo", "").await.cookie();
    server.publish(version(&[(&a, "DRAINING"), (&b, "HEALTHY")]));
    until_at(&channel, &b).await;
    assert_eq!(call(&channel, "/t/echo", &cookie).await.address(), b.address);
}

/// C-106, C-098: of weighted clusters a session has one, as long as its route leads there.
#[tokio::test]
async fn a_session_has_one_of_weighted_clusters() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let weighted = |clusters: &str| {
        format!(
            "[{{match: {{prefix: /}}, route: {{weighted_clusters: {{clusters: [{clusters}]}}}}}}]"
        )
    };
    let version = |clusters: &str| {
        let resources =
            Resources::default().filtered_routes(&filter("name: c"), &weighted(clusters));
        let resources = resources.cluster("x", "").cluster("y", "");
        resources.endpoints("x", &[&[&a]]).endpoints("y", &[&[&b]]).snapshot()
    };
    let both = version("{name: x, weight: 1}, {name: y, weight: 1}");
    let server = TestServer::start(both).await.expect("a server");
    let channel = channel(&server);
    for backend in [&a, &b] {
        let cookie = until_at(&channel, backend).await.cookie();
        for _ in 0..20 {
            let ended = call(&channel, "/t/echo", &cookie).await;
            assert_eq!((ended.address(), ended.set.len()), (backend.address, 0));
        }
        let headers = [(COOKIE, cookie.parse().expect("a header"))].into_iter().collect();
        let explained = channel.explain("/t/echo", &headers, crate::support::PATIENCE).await;
        let name = if backend.address == a.address { "x" } else { "y" };
        let told = explained.cluster.as_ref().expect("a cluster");
        assert_eq!((told.name.as_str(), told.share), (name, Some((1, 2))), "{explained}");
        let chosen = format!("\ncluster `{name}`, which has 1 of 2 calls\n");
        let text = explained.to_string();
        assert!(text.contains(&chosen) && text.matches(", which has ").count() == 1, "{text}");
    }
    // The address alone, of a cookie without a cluster, is looked for in the cluster that was rolled.
    let cookie = cookie_of("c", &[b.address], "y");
    server.publish(version("{name: x, weight: 1}"));
    within(async {
        loop {
            let ended = call(&channel, "/t/echo", &cookie).await;
            if ended.address() == a.address {
                return assert_eq!(ended.cookie(), cookie_of("c", &[a.address], "x"));
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// C-106, C-119: the cookie names the aggregate, and the endpoint is one of the cluster that has the calls; after a
/// failover there is a new cookie.
#[tokio::test]
async fn a_session_in_an_aggregate_goes_on_after_a_failover() {
    let (a, b, c) =
        (Backend::start("a").await, Backend::start("b").await, Backend::start("c").await);
    let version = |first: &[&Backend]| {
        let resources = to("both").aggregate("both", &["x", "y"]).cluster("x", "").cluster("y", "");
        resources.endpoints("x", &[first]).endpoints("y", &[&[&b, &c]]).snapshot()
    };
    let server = TestServer::start(version(&[&a])).await.expect("a server");
    let channel = channel(&server);
    let first = call(&channel, "/t/echo", "").await;
    assert_eq!(first.place.cluster(), "x");
    let cookie = first.cookie();
    assert_eq!(cookie, cookie_of("c", &[a.address], "both"));
    assert!(call(&channel, "/t/echo", &cookie).await.set.is_empty());
    server.publish(version(&[]));
    until_at(&channel, &b).await;
    let moved = call(&channel, "/t/echo", &cookie).await;
    assert_eq!(moved.place.cluster(), "y");
    let cookie = moved.cookie();
    assert_eq!(cookie, cookie_of("c", &[moved.address()], "both"));
    for _ in 0..10 {
        assert_eq!(call(&channel, "/t/echo", &cookie).await.address(), moved.address());
    }
}

/// C-106, C-119: a name of DNS has endpoints, with which there are sessions.
#[tokio::test]
async fn a_session_stays_with_an_address_of_a_name() {
    let a = Backend::start("a").await;
    let resources = to("x").dns("x", "localhost", &a);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let cookie = call(&channel, "/t/echo", "").await.cookie();
    for _ in 0..3 {
        let ended = call(&channel, "/t/echo", &cookie).await;
        assert_eq!((ended.address(), ended.set.len()), (a.address, 0));
    }
    let headers = [(COOKIE, cookie.parse().expect("a header"))].into_iter().collect();
    let explained = channel.explain("/t/echo", &headers, crate::support::PATIENCE).await;
    let ExplainedOutcome::Sent(to) = &explained.outcome else { panic!("{explained}") };
    assert!(to.by_session, "{explained}");
}

/// C-106, C-093: sessions are off on a route, or have another cookie there; a cookie is for its path alone.
#[tokio::test]
async fn routes_have_sessions_of_their_own() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let per_route = |fields: &str| {
        format!(
            "typed_per_filter_config: {{sessions: {{\"@type\": {FILTER}.StatefulSessionPerRoute, {fields}}}}}"
        )
    };
    let (off, other) = (
        per_route("disabled: true"),
        per_route(&format!(
            "stateful_session: {{{}}}",
            sessions("name: other, path: /other, ttl: 60s")
        )),
    );
    let routes = format!(
        "[{{match: {{path: /t/off}}, route: {{cluster: x}}, {off}}}, \
          {{match: {{prefix: /other}}, route: {{cluster: x}}, {other}}}, \
          {{match: {{prefix: /}}, route: {{cluster: x}}}}]"
    );
    let resources = Resources::default().filtered_routes(&filter("name: c, path: /t"), &routes);
    let resources = resources.cluster("x", "").endpoints("x", &[&[&a, &b]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until_at(&channel, &b).await;
    let at_a = until_at(&channel, &a).await;
    assert!(at_a.set[0].ends_with("; HttpOnly; Path=/t"), "{:?}", at_a.set);
    let cookies = format!("{}; {}", at_a.cookie(), cookie_of("other", &[b.address], "x"));
    for _ in 0..6 {
        assert_eq!(call(&channel, "/t/echo", &cookies).await.address(), a.address);
        assert_eq!(call(&channel, "/other/echo", &cookies).await.address(), b.address);
    }
    for path in ["/t/off", "/u/echo"] {
        let calls = [call(&channel, path, &cookies).await, call(&channel, path, &cookies).await];
        let went: Vec<_> = calls.iter().map(Ended::address).collect();
        assert_ne!(went[0], went[1], "{path}: in turn");
        assert!(calls.iter().all(|ended| ended.set.is_empty()), "{path}");
    }
    let other = call(&channel, "/other/echo", "").await;
    assert!(other.set[0].ends_with("; HttpOnly; Path=/other; Max-Age=60"), "{:?}", other.set);
}

/// C-106, C-093: sessions that are off in the listener are on for a route, or for one of its weighted clusters.
#[tokio::test]
async fn a_route_turns_sessions_on() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let on = format!(
        "typed_per_filter_config: {{sessions: {{\"@type\": {FILTER}.StatefulSessionPerRoute, stateful_session: {{{}}}}}}}",
        sessions("name: c")
    );
    for routes in [
        format!(
            "[{{match: {{prefix: /t}}, route: {{cluster: x}}, {on}}}, {{match: {{prefix: /}}, route: {{cluster: x}}}}]"
        ),
        format!(
            "[{{match: {{prefix: /t}}, route: {{weighted_clusters: {{clusters: [{{name: x, weight: 1, {on}}}]}}}}}}, \
              {{match: {{prefix: /}}, route: {{cluster: x}}}}]"
        ),
    ] {
        let off =
            format!("- {{name: sessions, typed_config: {{\"@type\": {FILTER}.StatefulSession}}}}");
        let resources = Resources::default().filtered_routes(&off, &routes);
        let resources = resources.cluster("x", "").endpoints("x", &[&[&a, &b]]);
        let server = TestServer::start(resources.snapshot()).await.expect("a server");
        let channel = channel(&server);
        let cookie = call(&channel, "/t/echo", "").await.cookie();
        let first = call(&channel, "/t/echo", &cookie).await;
        for _ in 0..4 {
            let ended = call(&channel, "/t/echo", &cookie).await;
            assert_eq!((ended.address(), ended.set.len()), (first.address(), 0), "{routes}");
            assert!(call(&channel, "/u/echo", &cookie).await.set.is_empty(), "{routes}");
        }
    }
}

/// C-106, C-148: all attempts of a call go to the endpoint of its session, and the cookie of the last one is set, also
/// beside a status that is all of the response; cookies of the server stay.
#[tokio::test]
async fn attempts_of_a_session_go_to_its_endpoint() {
    let (a, b) = (flaky().await, Backend::start("b").await);
    let retry = "retry_policy: {retry_on: unavailable, num_retries: 3, retry_back_off: {base_interval: 0.001s}}";
    let routes = format!(
        "[{{match: {{path: /t/once}}, route: {{cluster: x}}}}, \
          {{match: {{prefix: /}}, route: {{cluster: x, {retry}}}}}]"
    );
    let resources = Resources::default().filtered_routes(&filter("name: c"), &routes);
    let version = |backends: &[&Backend]| {
        let resources = resources.clone().cluster("x", "");
        resources.endpoints("x", &[backends]).snapshot()
    };
    let server = TestServer::start(version(&[&a, &b])).await.expect("a server");
    let channel = channel(&server);
    until_at(&channel, &b).await;
    for _ in 0..4 {
        let ended = call(&channel, "/t/third", &cookie_of("c", &[a.address], "x")).await;
        assert_eq!((ended.address(), ended.place.attempts()), (a.address, 3));
        assert_eq!(ended.set, ["of=server"]);
    }
    server.publish(version(&[&a]));
    // A response that has a status and nothing else.
    let alone = until_at_path(&channel, "/t/once", &a).await;
    assert_eq!(alone.cookie(), cookie_of("c", &[a.address], "x"));
}

/// A server that answers each third call of `/t/third`, and no call of `/t/once`.
async fn flaky() -> Backend {
    let calls = Arc::<AtomicUsize>::default();
    Backend::serve(move |request| {
        let calls = Arc::clone(&calls);
        async move {
            let is_third = || calls.fetch_add(1, Ordering::Relaxed) % 3 == 2;
            let mut response = match request.uri().path() {
                "/t/once" => status_alone("14"),
                "/t/third" if !is_third() => status_alone("14"),
                _ => message("a", "0"),
            };
            if request.uri().path() == "/t/third" {
                response.headers_mut().insert(SET_COOKIE, HeaderValue::from_static("of=server"));
            }
            Ok::<_, Infallible>(response)
        }
    })
    .await
}

async fn until_at_path(channel: &Channel, path: &str, backend: &Backend) -> Ended {
    within(async {
        loop {
            let ended = call(channel, path, "").await;
            if ended.address() == backend.address {
                return ended;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// C-106: a cookie that means nothing begins a session, and connects nothing that is no endpoint of the cluster.
#[tokio::test]
async fn a_cookie_of_nonsense_is_as_none() {
    let (a, stranger) = (Backend::start("a").await, Backend::start("stranger").await);
    let resources = to("x").cluster("x", "").endpoints("x", &[&[&a]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    let known = cookie_of("c", &[a.address], "x");
    let huge = cookie_of("c", &[stranger.address; 1_000], "x");
    for cookie in [
        "c=".to_owned(),
        "c=%%%".to_owned(),
        format!("c={}", "A".repeat(9_000)),
        huge,
        cookie_of("c", &[stranger.address], "x"),
        cookie_of("c", &[a.address], "no-such-cluster"),
        format!("d={}", known.strip_prefix("c=").expect("a value")),
    ] {
        let ended = call(&channel, "/t/echo", &cookie).await;
        assert_eq!((ended.address(), ended.cookie()), (a.address, known.clone()), "{cookie}");
    }
    assert_eq!(stranger.connections(), 0);
}

/// C-106: an explanation says that the session has chosen the endpoint, or what it waits for; it connects nothing.
#[tokio::test]
async fn a_session_is_explained() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let resources = to("x").cluster("x", "").endpoints("x", &[&[&a], &[&b]]);
    let server = TestServer::start(resources.snapshot()).await.expect("a server");
    let channel = channel(&server);
    until_at(&channel, &a).await;
    let explain = async |cookie: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, cookie.parse().expect("a header"));
        channel.explain("/t/echo", &headers, crate::support::PATIENCE).await
    };
    let begins = explain("other=1").await;
    let ExplainedOutcome::Sent(to) = &begins.outcome else { panic!("{begins}") };
    assert!(!to.by_session, "{begins}");
    let text = "filter `sessions` begins a session, as the call has no cookie `c` of one";
    assert!(begins.to_string().contains(text), "{begins}");
    let cookie = cookie_of("c", &[b.address], "x");
    let waits = explain(&cookie).await;
    let text =
        format!("a call waits for a connection to {}, the endpoint of its session", b.address);
    assert!(waits.to_string().contains(&text), "{waits}");
    assert_eq!(b.connections(), 0);
    assert_eq!(call(&channel, "/t/echo", &cookie).await.address(), b.address);
    let sent = explain(&cookie).await;
    let ExplainedOutcome::Sent(to) = &sent.outcome else { panic!("{sent}") };
    assert_eq!((to.by_session, to.address), (true, b.address), "{sent}");
    let text = sent.to_string();
    for part in [
        &format!(
            "filter `sessions` finds a session with {} in cluster `x`, by the cookie `c`",
            b.address
        ),
        "\n  sessions: READY\n",
        &format!("\n    {} READY\n", b.address),
        &format!("the call would go to {}, in cluster `x`, locality /z, by its session", b.address),
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
}

/// C-106: sessions begin and end with the filter of the listener.
#[tokio::test]
async fn sessions_come_and_go_with_the_listener() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let with =
        |resources: Resources| resources.cluster("x", "").endpoints("x", &[&[&a, &b]]).snapshot();
    let without = || with(Resources::default().routes(&one_route("x")));
    let server = TestServer::start(without()).await.expect("a server");
    let channel = channel(&server);
    for backend in [&a, &b] {
        assert!(until_at(&channel, backend).await.set.is_empty());
    }
    server.publish(with(to("x")));
    let until_set = async |is_set: bool| {
        within(async {
            loop {
                let ended = call(&channel, "/t/echo", "").await;
                if ended.set.is_empty() != is_set {
                    return ended;
                }
                tokio::task::yield_now().await;
            }
        })
        .await
    };
    let cookie = until_set(true).await.cookie();
    let first = call(&channel, "/t/echo", &cookie).await.address();
    for _ in 0..4 {
        assert_eq!(call(&channel, "/t/echo", &cookie).await.address(), first);
    }
    server.publish(without());
    until_set(false).await;
    let went = [call(&channel, "/t/echo", &cookie).await, call(&channel, "/t/echo", &cookie).await];
    assert_ne!(went[0].address(), went[1].address(), "in turn");
}
