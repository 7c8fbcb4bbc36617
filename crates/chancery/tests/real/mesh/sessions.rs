//! Sessions by cookie, in the C core of gRPC and in channels: each takes the cookies of the other. The other clients have
//! no sessions, and reject listeners with them.

use std::net::{Ipv4Addr, SocketAddr};

use super::backends::{Backends, NAMES};
use super::clients::Outcome;
use super::resources::Service;
use super::{Batch, Mesh, UNAVAILABLE, with_mesh};

const STATEFUL: &str = "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3";

/// The filter of a listener, with this cookie.
fn filter(cookie: &str) -> String {
    let state = format!(
        "{{\"@type\": type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState, cookie: {{{cookie}}}}}"
    );
    format!(
        "- {{name: sessions, typed_config: {{\"@type\": {STATEFUL}.StatefulSession, session_state: {{name: cookie, typed_config: {state}}}}}}}"
    )
}

fn to(name: &str, cookie: &str) -> Service {
    let routes = format!("[{{match: {{prefix: /}}, route: {{cluster: {name}}}}}]");
    Service::filtered(name, &filter(cookie), &routes)
}

fn services(backends: &Backends) -> Vec<Service> {
    let [a, b, c, _] = NAMES.map(|name| backends.port(name));
    let draining =
        "common_lb_config: {override_host_status: {statuses: [UNKNOWN, HEALTHY, DRAINING]}}";
    let all = [(a, "HEALTHY"), (b, "UNKNOWN"), (c, "DRAINING")];
    let weighted = format!(
        "[{{match: {{path: /t/off}}, route: {{cluster: one}}, \
            typed_per_filter_config: {{sessions: {{\"@type\": {STATEFUL}.StatefulSessionPerRoute, disabled: true}}}}}}, \
          {{match: {{prefix: /}}, route: {{weighted_clusters: {{clusters: [{{name: one, weight: 1}}, {{name: two, weight: 1}}]}}}}}}]"
    );
    let [one, other] = [a, b]
        .map(|port| format!("{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}"));
    let two = format!("address: {one}, additional_addresses: [{{address: {other}}}]");
    let options = |kind: &str| {
        let fields = format!("\"@type\": type.googleapis.com/envoy.extensions.{kind}");
        format!("upstream_config: {{name: x, typed_config: {{{fields}}}}}")
    };
    let http = options(
        "upstreams.http.v3.HttpProtocolOptions, explicit_http_config: {http2_protocol_options: {}}, \
         common_http_protocol_options: {idle_timeout: 60s}",
    );
    vec![
        to("options", "name: c").cluster("options", &http).endpoints(
            "options",
            &[(0, 1, &[a])],
            "",
        ),
        to("other-options", "name: c")
            .cluster("other-options", &options("filters.http.router.v3.Router"))
            .endpoints("other-options", &[(0, 1, &[a])], ""),
        to("addresses", "name: c").cluster("addresses", "").endpoint("addresses", &two),
        to("kept", "name: c, path: /t, ttl: 60s")
            .cluster("kept", draining)
            .endpoints_of_health("kept", &all),
        to("default", "name: c")
            .cluster("default", "")
            .endpoints_of_health("default", &[(a, "HEALTHY"), (c, "DRAINING")]),
        to("priorities", "name: c").cluster("priorities", "").endpoints(
            "priorities",
            &[(0, 1, &[a]), (1, 1, &[b])],
            "",
        ),
        Service::filtered("weighted", &filter("name: c"), &weighted)
            .of(backends, "one", &["a", "c"])
            .of(backends, "two", &["b", "d"]),
        to("aggregate", "name: c")
            .aggregate("aggregate", "[first, second]")
            .cluster("first", "")
            .endpoints("first", &[], "")
            .of(backends, "second", &["b", "c"]),
    ]
}

/// The cookie of a session.
fn cookie(port: u16, cluster: &str) -> String {
    cookie_of(&[port], cluster)
}

/// The cookie of a session with an endpoint of several addresses.
fn cookie_of(ports: &[u16], cluster: &str) -> String {
    let addresses = ports.iter().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, *port)));
    let addresses: Vec<_> = addresses.map(|address| address.to_string()).collect();
    let text = format!("{};{cluster}", addresses.join(","));
    format!("c={}", chancery_core::base64::encode(text.as_bytes()))
}

/// Makes one call with a cookie in each client.
fn calls(mesh: &mut Mesh, service: &str, path: &str, cookie: &str) -> Vec<(&'static str, Outcome)> {
    let metadata = [("cookie", cookie)];
    let ended = mesh.calls(Batch::one(service, path).with(&metadata));
    ended.into_iter().map(|(client, mut outcomes)| (client, outcomes.remove(0))).collect()
}

/// Runs a test with the clients that have sessions.
fn with_sessions(test: impl FnOnce(&mut Mesh, &Backends)) {
    with_mesh(services, |mesh, backends| {
        mesh.only(&["Chancery", "C-core"]);
        test(mesh, backends);
    });
}

/// C-106: both set the same cookie for the same endpoint, and go where a cookie says, whoever has set it.
#[test]
fn the_cookies_of_a_session_are_the_same() {
    with_sessions(|mesh, backends| {
        for (service, expected) in [
            ("kept", "; HttpOnly; Path=/t; Max-Age=60"),
            ("weighted", "; HttpOnly"),
            ("aggregate", "; HttpOnly"),
        ] {
            for (client, begun) in calls(mesh, service, "/t/echo", "other=1") {
                let name = begun.backend().expect("an answer").to_owned();
                let cluster = match (service, &*name) {
                    ("weighted", "a" | "c") => "one",
                    ("weighted", _) => "two",
                    (service, _) => service,
                };
                let pair = cookie(backends.port(&name), cluster);
                assert_eq!(begun.cookies, [format!("{pair}{expected}")], "{client} {service}");
                for (client, ended) in (0..6).flat_map(|_| calls(mesh, service, "/t/echo", &pair)) {
                    assert_eq!(ended.backend(), Ok(&*name), "{client} {service}");
                    assert_eq!(ended.cookies, [""; 0], "{client} {service}");
                }
            }
        }
        // A response that has a status and nothing else sets the cookie, too.
        for (client, ended) in calls(mesh, "priorities", "/t/code/9", "other=1") {
            let set = format!("{}; HttpOnly", cookie(backends.port("a"), "priorities"));
            assert_eq!((ended.code, ended.cookies), (9, vec![set]), "{client}");
        }
    });
}

/// C-106: both reject a cluster whose `upstream_config` has no idle timeout by its type, and take one that has.
#[test]
fn the_idle_timeout_of_a_cluster_is_checked() {
    with_sessions(|mesh, _| {
        mesh.agree(Batch::one("options", "/t/echo"), Ok("a"));
        mesh.agree(Batch::one("other-options", "/t/echo"), Err(UNAVAILABLE));
    });
}

/// C-106: the cookie of an endpoint with several addresses has them all, the one that is used first.
#[test]
fn an_endpoint_is_known_by_each_of_its_addresses() {
    with_sessions(|mesh, backends| {
        let [a, b, c, _] = NAMES.map(|name| backends.port(name));
        let set = [format!("{}; HttpOnly", cookie_of(&[a, b], "addresses"))];
        for (sent, is_same) in [
            (cookie_of(&[a, b], "addresses"), true),
            (cookie_of(&[b, a], "addresses"), false),
            (cookie_of(&[c, a], "addresses"), false),
            (cookie_of(&[a], "addresses"), false),
            ("other=1".to_owned(), false),
        ] {
            for (client, ended) in
                (0..4).flat_map(|_| calls(mesh, "addresses", "/t/echo", &sent)).collect::<Vec<_>>()
            {
                let expected = if is_same { &[][..] } else { &set[..] };
                let what = format!("{client} {sent}: {ended:?}");
                assert_eq!((ended.backend(), &*ended.cookies), (Ok("a"), expected), "{what}");
            }
        }
    });
}

/// C-106, C-109, C-110: the same endpoints keep their sessions, and the same cookies mean nothing.
#[test]
fn the_same_endpoints_keep_their_sessions() {
    with_sessions(|mesh, backends| {
        let [a, b, c, d] = NAMES.map(|name| backends.port(name));
        for (service, path, sent, expected, is_set) in [
            ("kept", "/t/echo", cookie(c, "kept"), "c", false),
            ("kept", "/t/echo", cookie(b, "kept"), "b", false),
            ("default", "/t/echo", cookie(c, "default"), "a", true),
            ("priorities", "/t/echo", cookie(b, "priorities"), "b", false),
            ("priorities", "/t/echo", cookie(b, "no such cluster"), "b", true),
            ("priorities", "/t/echo", cookie(d, "priorities"), "a", true),
            ("priorities", "/t/echo", "c=%%%".to_owned(), "a", true),
            ("priorities", "/t/echo", "c=".to_owned(), "a", true),
            ("weighted", "/t/echo", cookie(d, "two"), "d", false),
            ("weighted", "/t/echo", cookie(a, "one"), "a", false),
            ("aggregate", "/t/echo", cookie(c, "aggregate"), "c", false),
        ] {
            for (client, ended) in (0..4).flat_map(|_| calls(mesh, service, path, &sent)) {
                let what = format!("{client} {service} {sent}: {ended:?}");
                assert_eq!(ended.backend(), Ok(expected), "{what}");
                assert_eq!(ended.cookies.len(), usize::from(is_set), "{what}");
            }
        }
        // A cookie for other paths, and a route without sessions: calls go in turn, and nothing is set.
        for (service, path, sent) in
            [("kept", "/other/echo", cookie(c, "kept")), ("weighted", "/t/off", cookie(d, "two"))]
        {
            for (client, ended) in (0..4).flat_map(|_| calls(mesh, service, path, &sent)) {
                let what = format!("{client} {service} {path}: {ended:?}");
                assert_eq!(ended.cookies, [""; 0], "{what}");
                assert!(matches!(ended.backend(), Ok("a" | "b" | "c")), "{what}");
                assert!(service != "kept" || ended.backend() != Ok("c"), "{what}");
            }
        }
    });
}
