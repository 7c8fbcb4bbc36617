//! The guarantees to a driver beyond responses: several streams, deadlines, messages that do not fit.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::server::{Input, Machine, Settings, Violation};
use chancery_core::{
    DeltaRequest, Node, Request, Resource, Scope, Snapshot, SotwRequest, Time, TypeUrl, Value,
    Variant,
};
use chancery_testkit::script::type_url;

#[test]
fn several_streams_of_one_client_do_not_touch_each_other() {
    // S-055: the first stream's subscription ends, the second's goes on
    let eds = TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment");
    let snapshot = |body: &'static str| {
        let body = bytes::Bytes::from_static(body.as_bytes());
        let mut snapshot = Snapshot::new();
        snapshot.insert(&eds, Resource::new("a".parse().unwrap(), body));
        Input::Snapshot(Arc::new(snapshot))
    };
    let request = |names: &[&str], nonce: &str| {
        Input::Request(Request::Sotw(SotwRequest {
            type_url: eds.as_str().into(),
            names: names.iter().map(|name| Arc::from(*name)).collect(),
            nonce: nonce.into(),
            ..SotwRequest::default()
        }))
    };
    let open = || Machine::new(Variant::Sotw, Scope::Aggregated, Arc::new(Settings::default()));
    let (mut one, mut other, now) = (open(), open(), Time::default());
    for stream in [&mut one, &mut other] {
        stream.handle(now, snapshot("1")).unwrap();
        stream.handle(now, request(&["a"], "")).unwrap();
        assert_eq!(stream.poll(now).unwrap().entries.len(), 1);
        stream.handle(now, request(&["a"], "1")).unwrap();
    }
    one.handle(now, request(&[], "1")).unwrap();
    for stream in [&mut one, &mut other] {
        stream.handle(now, snapshot("2")).unwrap();
    }
    assert_eq!(one.poll(now), None);
    assert_eq!(other.poll(now).unwrap().entries.len(), 1);
}

#[test]
fn a_stream_says_when_to_look_again() {
    // S-042, S-087, S-097, S-098: every wait has its time, and nothing else has one
    let seconds = |count| Time(Duration::from_secs(count));
    let resource = |name: &str, body: &str| {
        Resource::new(name.parse().unwrap(), bytes::Bytes::copy_from_slice(body.as_bytes()))
    };
    let see = |snapshot: &Snapshot| Input::Snapshot(Arc::new(snapshot.clone()));
    let request = |type_url: &TypeUrl, subscribe: &[&str], nonce: &str| {
        Input::Request(Request::Delta(DeltaRequest {
            type_url: type_url.as_str().into(),
            subscribe: subscribe.iter().map(|name| Arc::from(*name)).collect(),
            nonce: nonce.into(),
            ..DeltaRequest::default()
        }))
    };
    let (cds, rds) = (type_url("cds"), type_url("rds"));
    let settings = Settings::default();
    let mut stream = Machine::new(Variant::Delta, Scope::Aggregated, Arc::new(settings.clone()));
    let mut snapshot = Snapshot::new();
    snapshot.insert(&cds, resource("x", "1"));
    snapshot.insert(&rds, resource("r", "1"));
    stream.handle(seconds(0), see(&snapshot)).unwrap();
    stream.handle(seconds(0), request(&cds, &[], "")).unwrap();
    stream.handle(seconds(0), request(&rds, &["r"], "")).unwrap();
    assert!(stream.poll(seconds(1)).is_some(), "the clusters");
    assert_eq!(stream.deadline(), Some(seconds(1) + settings.warm_wait), "a new cluster");
    stream.handle(seconds(2), request(&cds, &[], "1")).unwrap();
    assert!(stream.poll(seconds(2)).is_some(), "the routes");
    assert_eq!(stream.deadline(), None, "an answer is awaited, and nothing is to be sent");
    snapshot.insert(&rds, resource("r", "2"));
    stream.handle(seconds(3), see(&snapshot)).unwrap();
    assert!(stream.poll(seconds(3)).is_none());
    assert_eq!(stream.deadline(), Some(seconds(2) + settings.ack_wait), "routes to be sent");
    stream.handle(seconds(4), request(&rds, &[], "2")).unwrap();
    assert!(stream.poll(seconds(4)).is_some(), "the routes");
    snapshot.remove(&cds, &"x".parse().unwrap());
    stream.handle(seconds(5), see(&snapshot)).unwrap();
    assert!(stream.poll(seconds(5)).is_none());
    assert_eq!(stream.deadline(), Some(seconds(5) + settings.removal_wait), "a removal waits");
    stream.handle(seconds(6), request(&rds, &[], "3")).unwrap();
    assert!(stream.poll(seconds(6)).is_some(), "the removal");
    assert_eq!(stream.deadline(), None);
}

#[test]
fn a_message_of_the_other_variant_closes_the_stream() {
    // S-006
    let mut stream = Machine::new(Variant::Delta, Scope::Aggregated, Arc::new(Settings::default()));
    let request = Input::Request(Request::Sotw(SotwRequest::default()));
    assert_eq!(stream.handle(Time::default(), request), Err(Violation::WrongVariant));
}

#[test]
fn a_node_of_many_small_parts_is_too_large() {
    // S-110: at the limit, and past it, in the first message and in a later one
    let node = |maps: usize, parameters: usize| {
        let one = || Value::Map([("a".to_owned(), Value::Null)].into());
        let list = Value::List((0..maps).map(|_| one()).collect());
        let parameter = |at: usize| (at.to_string(), [("k".to_owned(), "v".to_owned())].into());
        Arc::new(Node {
            id: "node".to_owned(),
            metadata: Arc::new([("list".to_owned(), list)].into()),
            dynamic_parameters: (0..parameters).map(parameter).collect(),
            ..Node::default()
        })
    };
    let request = |node: Arc<Node>| {
        let type_url = "type.googleapis.com/foo.Bar".into();
        let node = Some(node);
        Input::Request(Request::Delta(DeltaRequest { node, type_url, ..DeltaRequest::default() }))
    };
    let settings = Arc::new(Settings { max_node_bytes: 10_000, ..Settings::default() });
    let open = || Machine::new(Variant::Delta, Scope::Aggregated, Arc::clone(&settings));
    let is_refused = |stream: &mut Machine, node: Arc<Node>| {
        let taken = stream.handle(Time::default(), request(node));
        matches!(taken, Err(Violation::NodeTooLarge { limit: 80_000, .. }))
    };
    assert!(is_refused(&mut open(), node(1000, 0)), "each map has 80 bytes, and takes more");
    let mut stream = open();
    assert!(!is_refused(&mut stream, node(50, 0)));
    assert!(!is_refused(&mut stream, node(50, 10)));
    assert!(is_refused(&mut stream, node(50, 1000)));
}
