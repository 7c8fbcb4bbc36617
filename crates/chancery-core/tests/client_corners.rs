//! A client where two things meet: errors and reconnects, fallback and silence, groups and names.
//!
//! Each test names the rules it proves (`docs/rules`). The language of the scripts is that of
//! [`chancery_testkit::script`].

use std::sync::Arc;

use chancery_core::client::{
    AuthorityKey, CachedResource, Fallback, Input, Machine, Protocol, ServerFeatures, ServerKey,
    Settings, Setup, StreamId, WatchEvent,
};
use chancery_core::{Node, Request, Resource, ResourceName, Scope, Time, TypeUrl, Variant};
use chancery_testkit::script::client;

#[test]
fn a_version_is_forgotten_with_the_resources_it_was_of() {
    // C-031, C-050: a server that takes the version for what the client has would say nothing
    client(
        "% server one
         + w cds *
         < one open
         > one open
         < one cds node
         > one cds v=1 n=1 a@1
         < one cds v=1 n=1
         ! w a@1
         ! w complete
         - w
         < one cds * v=1 n=1
         < one cds v=1 n=1
         ~ 5m
         < one close
         + w cds *
         < one open
         > one open
         < one cds node",
    );
}

#[test]
fn a_delta_stream_does_not_begin_with_what_something_is_wrong_with() {
    // C-040, C-047: if it is what the server has by now, it has to say so
    client(
        "% server one delta
         + u cds a
         < one open
         > one open
         < one cds +a node
         > one cds n=1 a@1
         < one cds n=1
         ! u a@1
         > one cds n=2 -a
         < one cds n=2
         ! u a but missing
         > one end
         ~ 1s
         < one open
         > one open
         < one cds +a node
         > one cds n=1 a@1
         < one cds n=1
         ! u a fine",
    );
}

#[test]
fn whoever_asks_again_and_again_does_not_connect_again_and_again() {
    // C-069
    client(
        "% server one
         + u eds a
         < one open
         > one end refused
         ! u a none unreachable
         - u
         + u eds a
         ! u a none unreachable
         - u
         ~ 10s
         + u eds a
         < one open
         ! u a none unreachable
         > one end refused
         ~ 1599ms
         ~ 1ms
         < one open
         - u
         ~ 1s
         > one end refused
         ~ 299s
         + u eds a
         < one open",
    );
}

#[test]
fn the_silence_of_a_server_that_is_not_believed_means_nothing() {
    // C-065, C-088
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one end refused
         < two open
         ~ 1s
         < one open
         > one open
         < one eds a node
         ~ 10s
         > two open
         < two eds a node
         ~ 14s
         > two eds v=1 n=1 a@1
         < two eds a v=1 n=1
         ! u a@1",
    );
}

#[test]
fn a_better_server_that_speaks_is_believed_when_the_worse_one_is_lost() {
    // C-089, C-090, C-065
    client(
        "% server one
         % server two
         + u eds a
         < one open
         > one end refused
         < two open
         > two open
         < two eds a node
         > two eds v=1 n=1 a@1
         < two eds a v=1 n=1
         ! u a@1
         ~ 1s
         < one open
         > one open
         < one eds a node
         > one eds v=1 n=1
         < one eds a v=1 n=1
         + w eds c
         < one eds a c v=1 n=1
         < two eds a c v=1 n=1
         ~ 1s
         > two end
         < two open
         > two end refused
         ~ 14s
         ~ 1s
         ! u a but missing
         ! w c none missing",
    );
}

#[test]
fn what_nobody_asked_for_is_no_sign_of_life() {
    // C-035, C-067, C-069
    client(
        "% server one
         + w cds b
         < one open
         > one end refused
         ! w b none unreachable
         ~ 1s
         < one open
         > one open
         < one cds b node
         > one eds v=1 n=1 x@1
         > one end
         ~ 1599ms
         ~ 1ms
         < one open",
    );
}

#[test]
fn trouble_with_the_stream_of_one_type_is_not_that_of_another() {
    // C-042, C-067
    client(
        "% server one per-type
         + u cds a
         < one/cds open
         + v eds b
         < one/eds open
         > one/cds open
         < one cds a node
         > one cds v=1 n=1 a@1
         < one cds a v=1 n=1
         ! u a@1
         > one/eds end unimplemented
         ! v b none unreachable
         > one cds v=2 n=2 a@2
         < one cds a v=2 n=2
         ! u a@2
         + w eds b
         ! w b none unreachable",
    );
}

#[test]
fn an_authority_without_servers_is_nobody() {
    // C-011, C-053
    client(
        "% server one
         % authority a
         + w cds xdstp://a/envoy.config.cluster.v3.Cluster/x
         ! w - none authority",
    );
}

#[test]
fn what_has_outlived_its_time_is_missing_and_worth_another_server() {
    // C-045, C-087
    client(
        "% server one
         % server two
         % backoff=1h
         % backoff_max=1h
         + u eds a
         < one open
         > one open
         < one eds a node
         ~ 2h
         ! u a none missing
         > one eds v=1 n=1 a@1(ttl=10s)
         < one eds a v=1 n=1
         ! u a@1
         > one end
         < one open
         > one end refused
         ! u a but unreachable
         ~ 10s
         < two open
         ! u a none missing",
    );
}

#[test]
fn who_watches_an_alias_hears_that_its_resource_is_gone() {
    // C-041
    client(
        "% server one delta
         + u vhds r/www
         < one open
         > one open
         < one vhds +r/www node
         > one vhds n=1 r/www.example.com@1(alias=r/www)
         < one vhds n=1
         ! u r/www@1
         > one vhds n=2 -r/www.example.com
         < one vhds n=2
         ! u r/www but missing",
    );
}

/// C-045, C-048, C-073: what is left of an earlier run is for groups, too.
#[test]
fn a_group_begins_with_what_is_left_of_an_earlier_run() {
    let mut setup = Setup::new(Arc::new(Node::default()), Settings::default());
    let key = ServerKey {
        uri: "one".into(),
        credentials: "insecure".into(),
        features: ServerFeatures::default(),
    };
    let protocol = Protocol::Stream { variant: Variant::Delta, aggregated: true };
    let server = setup.server(key, protocol);
    setup.authority(AuthorityKey::Old, vec![server], Fallback::Needed);
    setup.authority(AuthorityKey::Named("a".into()), vec![server], Fallback::Needed);
    let mut client = Machine::new(setup);
    let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
    for name in ["x", "xdstp://a/envoy.config.cluster.v3.Cluster/x"] {
        let name = ResourceName::read(name).unwrap();
        let resource = Resource::new(name, "1".into()).with_version("1").into();
        let (version, at) = ("1".into(), Time::default());
        let held = CachedResource {
            resource,
            decoded: None,
            version,
            last_updated: at,
            server,
            expires: None,
        };
        client.restore(clusters.clone(), held);
    }
    let watch = client.watch(Time::default(), &clusters, "*");
    let Some(WatchEvent::Changed { name, value: Ok(_) }) = client.event(watch) else { panic!() };
    assert_eq!(&*name, "x");
    assert!(client.event(watch).is_none());
    let stream = StreamId { server, scope: Scope::Aggregated };
    client.handle(Time::default(), Input::Opened(stream.clone()));
    let Some(Request::Delta(request)) = client.request(Time::default(), &stream) else { panic!() };
    assert_eq!(request.initial_versions.iter().collect::<Vec<_>>(), [("x", "1")]);
}

/// C-032, C-050: who watches again what nobody watched for a moment is told again, although the wire
/// had no room meanwhile.
#[test]
fn a_server_is_asked_again_for_what_was_forgotten() {
    let all = |protocol, name: &str| {
        let mut setup = Setup::new(Arc::new(Node::default()), Settings::default());
        let key = ServerKey {
            uri: "one".into(),
            credentials: "insecure".into(),
            features: ServerFeatures::default(),
        };
        let server = setup.server(key, protocol);
        setup.authority(AuthorityKey::Old, vec![server], Fallback::Needed);
        let mut client = Machine::new(setup);
        let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        let now = Time::default();
        let watch = client.watch(now, &clusters, name);
        let stream = StreamId { server, scope: Scope::Only(clusters.clone()) };
        client.handle(now, Input::Opened(stream.clone()));
        client.request(now, &stream).expect("there is a name to ask for");
        client.handle(now, Input::Unchanged(stream.clone()));
        assert!(client.request(now, &stream).is_none());
        client.unwatch(now, watch);
        client.watch(now, &clusters, name);
        let requests = std::iter::from_fn(|| client.request(now, &stream));
        let said = requests.map(|request| match request {
            Request::Sotw(request) => request.names.iter().collect::<Vec<_>>().join(" "),
            Request::Delta(request) => {
                assert!(request.unsubscribe.is_empty());
                request.subscribe.iter().map(|name| format!("+{name}")).collect()
            }
        });
        said.take(5).collect::<Vec<_>>()
    };
    let stream = |variant| Protocol::Stream { variant, aggregated: false };
    let poll = Protocol::Poll { refresh: std::time::Duration::from_secs(9) };
    assert_eq!(all(stream(Variant::Sotw), "a"), ["", "a"]);
    assert_eq!(all(stream(Variant::Delta), "a"), ["+a"]);
    assert_eq!(all(poll, "a"), ["a"]);
    assert_eq!(all(stream(Variant::Sotw), "*"), ["*", "", "*"]);
    assert_eq!(all(stream(Variant::Delta), "*"), ["+*"]);
}

/// C-040, C-067: a server of delta says nothing to who has everything, and is there all the same.
#[test]
fn a_server_that_has_nothing_to_say_is_there() {
    client(
        "% server one delta
         + u eds a
         < one open
         > one open
         < one eds +a node
         > one eds n=1 a@1
         < one eds n=1
         ! u a@1
         > one end
         ~ 1s
         < one open
         > one end refused
         ! u a but unreachable
         ~ 1600ms
         < one open
         > one open
         < one eds +a init=a:1 node
         ~ 14s
         ~ 1s
         ! u a fine
         ~ 1h
         > one end age
         < one open
         > one open
         < one eds +a init=a:1 node
         + v eds a
         ! v a@1",
    );
}

/// C-067: one that owes an answer and says nothing is not there.
#[test]
fn a_server_that_owes_an_answer_is_not_there() {
    client(
        "% server one delta
         + u eds a
         < one open
         + v eds b
         > one open
         < one eds +a +b node
         > one eds n=1 a@1
         < one eds n=1
         ! u a@1
         > one end
         ~ 1s
         < one open
         > one end refused
         ! u a but unreachable
         ! v b none unreachable
         ~ 1600ms
         < one open
         > one open
         < one eds +a +b init=a:1 node
         ~ 15s
         ! v b none missing
         ~ 1h",
    );
}

/// C-067, C-065: in SotW, silence is how a server says that there is nothing; it is there.
#[test]
fn a_server_of_sotw_that_is_silent_is_there_after_its_time() {
    client(
        "% server one
         + u eds a
         < one open
         + v eds b
         > one end refused
         ! u a none unreachable
         ! v b none unreachable
         ~ 1s
         < one open
         > one open
         < one eds a b node
         ~ 14s
         ~ 1s
         ! u a none missing
         ! v b none missing
         + w eds a
         ! w a none missing
         > one end
         ! u a none unreachable
         ! v b none unreachable
         ! w a none unreachable
         ~ 1599ms
         ~ 1ms
         < one open",
    );
}

/// C-040, C-041, C-051: to its server the client is one, and the cache knows two of the resource.
#[test]
fn a_version_is_not_claimed_for_another_authority_that_lacks_the_resource() {
    client(
        "% server one delta
         % authority a one
         + w eds *
         < one open
         > one open
         < one eds +* node
         > one eds n=1 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1 y@1
         < one eds n=1
         ! w xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         ! w y@1
         ! w complete
         > one end age
         + u eds xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x
         ~ 1s
         < one open
         > one open
         < one eds +* +xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x init=xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x: init=y:1 node
         > one eds n=1 xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1
         < one eds n=1
         ! u xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/x@1",
    );
}

/// C-041, C-049, C-071: it is removed, and there is an error that says why; that is said once.
#[test]
fn what_is_removed_with_a_reason_is_told_once() {
    client(
        "% server one delta
         + u eds a
         < one open
         > one open
         < one eds +a node
         > one eds n=1 -a !a=NOT_FOUND
         < one eds n=1
         ! u a none NOT_FOUND
         > one end age
         ~ 1s
         < one open
         > one open
         < one eds +a node
         > one eds n=1 -a !a=NOT_FOUND
         < one eds n=1",
    );
}
