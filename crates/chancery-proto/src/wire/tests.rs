//! The messages of the encoders, decoded by derived messages with the numbers of `discovery.proto`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::server::{Input, Machine, RequestLimits, Response, ResponseEntry, Segment};
use chancery_core::{
    NameError, Names, Node, Request, Resource, Scope, Snapshot, SotwRequest, Time, TypeUrl, Value,
    Variant,
};
use proptest::prelude::*;

use super::node::*;
use super::*;
use crate::samples::AnyMessage;

#[derive(Clone, PartialEq, Message)]
struct ControlPlane {
    #[prost(string, tag = "1")]
    identifier: String,
}

#[derive(Clone, PartialEq, Message)]
struct DiscoveryRequest {
    #[prost(string, tag = "1")]
    version_info: String,
    #[prost(message, optional, tag = "2")]
    node: Option<WireNode>,
    #[prost(string, repeated, tag = "3")]
    resource_names: Vec<String>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    response_nonce: String,
    #[prost(message, optional, tag = "6")]
    error_detail: Option<WireStatus>,
    #[prost(message, repeated, tag = "7")]
    resource_locators: Vec<WireLocator>,
}

#[derive(Clone, PartialEq, Message)]
struct DeltaDiscoveryRequest {
    #[prost(message, optional, tag = "1")]
    node: Option<WireNode>,
    #[prost(string, tag = "2")]
    type_url: String,
    #[prost(string, repeated, tag = "3")]
    subscribe: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    unsubscribe: Vec<String>,
    #[prost(btree_map = "string, string", tag = "5")]
    initial_resource_versions: BTreeMap<String, String>,
    #[prost(string, tag = "6")]
    response_nonce: String,
    #[prost(message, optional, tag = "7")]
    error_detail: Option<WireStatus>,
    #[prost(message, repeated, tag = "8")]
    locators_subscribe: Vec<WireLocator>,
    #[prost(message, repeated, tag = "9")]
    locators_unsubscribe: Vec<WireLocator>,
}

#[derive(Clone, PartialEq, Message)]
struct WrapperMessage {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, optional, tag = "2")]
    resource: Option<AnyMessage>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, repeated, tag = "4")]
    aliases: Vec<String>,
    #[prost(message, optional, tag = "6")]
    ttl: Option<SpanMessage>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct SpanMessage {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct SotwMessage {
    #[prost(string, tag = "1")]
    version_info: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<AnyMessage>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(message, optional, tag = "6")]
    control_plane: Option<ControlPlane>,
    #[prost(message, repeated, tag = "7")]
    errors: Vec<WireResourceError>,
}

#[derive(Clone, PartialEq, Message)]
struct DeltaMessage {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<WrapperMessage>,
    #[prost(string, tag = "5")]
    nonce: String,
    #[prost(string, repeated, tag = "6")]
    removed: Vec<String>,
    #[prost(message, optional, tag = "7")]
    control_plane: Option<ControlPlane>,
    #[prost(message, repeated, tag = "9")]
    errors: Vec<WireResourceError>,
}

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

fn resource() -> Arc<Resource> {
    let body = Bytes::from_static(b"\x0a\x01c");
    let resource = Resource::new("c".parse().unwrap(), body);
    Arc::new(resource.with_ttl(Some(Duration::from_millis(1500))).with_version("7"))
}

fn entry() -> ResponseEntry {
    ResponseEntry {
        name: "c".into(),
        aliases: vec!["also".into()],
        resource: Some(resource()),
        ttl: true,
        heartbeat: false,
    }
}

fn response(variant: Variant, wrapped: bool, entries: Vec<ResponseEntry>) -> Response {
    Response {
        variant,
        type_url: TypeUrl::new(CLUSTER),
        version: "v1".into(),
        nonce: "n1".into(),
        entries: entries.into_iter().collect(),
        removed: vec!["gone".into()],
        errors: vec![NameError {
            name: "secret".into(),
            error: ErrorDetail { code: 7, message: "no".to_owned() },
        }],
        wrapped,
    }
}

fn encoded(response: &Response) -> Vec<u8> {
    encode_response(response, "server-1")
}

fn sotw(response: &Response) -> SotwMessage {
    SotwMessage::decode(&*encoded(response)).unwrap()
}

fn delta(response: &Response) -> DeltaMessage {
    DeltaMessage::decode(&*encoded(response)).unwrap()
}

#[test]
fn streams_that_are_told_the_same_are_sent_the_same_bytes() {
    // S-111
    let cds = TypeUrl::new(CLUSTER);
    let plain = |name: &str| Arc::new(Resource::new(name.parse().unwrap(), vec![0; 99].into()));
    let told = |segments: Vec<Segment>| Response {
        entries: segments.into(),
        ..response(Variant::Delta, false, Vec::new())
    };
    let alone = plain("a");
    let [one, two] = [(); 2].map(|()| told(vec![Segment::Resource(Arc::clone(&alone))]));
    let bytes = |response: &Response| encode_entries(response).collect::<Vec<_>>();
    assert_eq!(bytes(&one)[0].as_ptr(), bytes(&two)[0].as_ptr());
    let wrapped = Response { variant: Variant::Sotw, wrapped: true, ..one.clone() };
    assert_ne!(bytes(&one), bytes(&wrapped));
    let other =
        Response { type_url: TypeUrl::new("envoy.config.route.v3.RouteConfiguration"), ..one };
    assert_ne!(bytes(&two), bytes(&other), "the same resource under another type");
    let mut snapshot = Snapshot::new();
    ["a", "b"].iter().for_each(|name| snapshot.insert(&cds, plain(name)));
    let all = |snapshot: &Snapshot| {
        let mut machine = Machine::new(Variant::Sotw, Scope::Aggregated, Arc::default());
        let now = Time::default();
        let request = SotwRequest { type_url: cds.as_str().into(), ..SotwRequest::default() };
        machine.handle(now, Input::Snapshot(Arc::new(snapshot.clone()))).unwrap();
        machine.handle(now, Input::Request(Request::Sotw(request))).unwrap();
        bytes(&machine.poll(now).unwrap())
    };
    let [one, two] = [all(&snapshot), all(&snapshot)];
    assert_eq!((one.len(), one[0].as_ptr()), (1, two[0].as_ptr()));
}

#[test]
fn a_sotw_response_carries_bodies_and_what_only_this_stream_is_told() {
    // S-008, S-027, S-068
    let message = sotw(&response(Variant::Sotw, false, vec![entry()]));
    let body = AnyMessage { type_url: CLUSTER.to_owned(), value: b"\x0a\x01c".to_vec() };
    assert_eq!(message.resources, [body]);
    assert_eq!((&*message.version_info, &*message.nonce), ("v1", "n1"));
    assert_eq!(message.type_url, CLUSTER);
    assert_eq!(message.control_plane.unwrap().identifier, "server-1");
    assert_eq!(message.errors[0].resource_name.as_ref().unwrap().name, "secret");
    assert_eq!(message.errors[0].error_detail.as_ref().unwrap().code, 7);
}

#[test]
fn a_wrapped_sotw_entry_is_of_the_type_of_the_wrapper() {
    // S-085, S-086
    let message = sotw(&response(Variant::Sotw, true, vec![entry()]));
    let outer = &message.resources[0];
    assert_eq!(outer.type_url, "type.googleapis.com/envoy.service.discovery.v3.Resource");
    assert_eq!(message.type_url, CLUSTER);
    let inner = WrapperMessage::decode(&*outer.value).unwrap();
    assert_eq!(inner.ttl, Some(SpanMessage { seconds: 1, nanos: 500_000_000 }));
    assert_eq!(inner.resource.unwrap().type_url, CLUSTER);
}

#[test]
fn a_delta_entry_is_always_wrapped() {
    // S-084, S-091
    let message = delta(&response(Variant::Delta, false, vec![entry()]));
    let wrapper = &message.resources[0];
    assert_eq!((&*wrapper.name, &*wrapper.version), ("c", "7"));
    assert_eq!(wrapper.aliases, ["also"]);
    assert_eq!(wrapper.resource.as_ref().unwrap().type_url, CLUSTER);
    assert_eq!(message.removed, ["gone"]);
    assert_eq!(message.control_plane.unwrap().identifier, "server-1");
    assert_eq!(message.errors.len(), 1);
}

#[test]
fn a_heartbeat_and_an_unresolved_alias_have_no_body() {
    // S-087, S-093
    let beat = ResponseEntry { heartbeat: true, ..entry() };
    let unresolved = ResponseEntry { resource: None, name: "r/x".into(), ..entry() };
    let message = delta(&response(Variant::Delta, false, vec![beat, unresolved]));
    let [beat, unresolved] = &message.resources[..] else { panic!("two entries") };
    assert_eq!((beat.resource.as_ref(), &*beat.version), (None, "7"));
    assert!(beat.ttl.is_some());
    assert_eq!((unresolved.resource.as_ref(), &*unresolved.version), (None, ""));
    assert_eq!((&*unresolved.name, unresolved.ttl), ("r/x", None));
}

#[test]
fn a_ttl_is_written_only_where_the_machine_says_so() {
    // S-086
    let message =
        delta(&response(Variant::Delta, false, vec![ResponseEntry { ttl: false, ..entry() }]));
    assert_eq!(message.resources[0].ttl, None);
}

#[test]
fn v2_has_a_wrapper_of_its_own() {
    // S-010
    let v2 = Response {
        type_url: TypeUrl::new("envoy.api.v2.Cluster"),
        ..response(Variant::Sotw, true, vec![entry()])
    };
    assert_eq!(sotw(&v2).resources[0].type_url, "type.googleapis.com/envoy.api.v2.Resource");
}

fn node() -> WireNode {
    let number = WireValue { kind: Some(WireKind::Number(1.0)) };
    let list = WireValue { kind: Some(WireKind::List(WireList { values: vec![number] })) };
    let params = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    WireNode {
        id: "id".to_owned(),
        cluster: "cluster".to_owned(),
        metadata: Some(WireStruct { fields: BTreeMap::from([("l".to_owned(), list)]) }),
        locality: Some(WireLocality { zone: "z".to_owned(), ..WireLocality::default() }),
        user_agent_name: "envoy".to_owned(),
        user_agent_build_version: Some(WireBuildVersion {
            version: Some(WireSemanticVersion { major: 1, minor: 40, patch: 0 }),
        }),
        client_features: vec!["f".to_owned()],
        dynamic_parameters: BTreeMap::from([("t".to_owned(), WireContextParams { params })]),
        ..WireNode::default()
    }
}

#[test]
fn a_sotw_request_is_decoded_with_its_node() {
    let request = DiscoveryRequest {
        version_info: "v".to_owned(),
        node: Some(node()),
        resource_names: vec!["a".to_owned()],
        type_url: CLUSTER.to_owned(),
        response_nonce: "n".to_owned(),
        error_detail: Some(WireStatus { code: 3, message: "bad".to_owned() }),
        resource_locators: vec![WireLocator { name: "b".to_owned() }],
    };
    let request = decode_sotw(&request.encode_to_vec()).unwrap();
    assert_eq!(request.names, ["a", "b"].iter().collect());
    assert_eq!(request.error.unwrap().message, "bad");
    let node = request.node.unwrap();
    assert_eq!((&*node.id, &*node.locality.zone), ("id", "z"));
    assert_eq!(node.user_agent_version, "1.40.0");
    assert_eq!(node.metadata["l"], Value::List(vec![Value::Number(1.0)]));
    assert_eq!(node.dynamic_parameters["t"]["k"], "v");
}

#[test]
fn a_delta_request_is_decoded_with_the_versions_it_holds() {
    let held = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
    let request = DeltaDiscoveryRequest {
        subscribe: vec!["s".to_owned()],
        unsubscribe: vec!["u".to_owned()],
        initial_resource_versions: held,
        ..DeltaDiscoveryRequest::default()
    };
    let request = decode_delta(&request.encode_to_vec()).unwrap();
    assert_eq!(request.initial_versions.iter().collect::<Vec<_>>(), [("a", "1")]);
    let names = |name| [name].iter().collect::<Names>();
    assert_eq!((request.subscribe, request.unsubscribe), (names("s"), names("u")));
    assert_eq!(request.node, None);
}

#[test]
fn a_v2_node_tells_its_version_in_a_field_of_its_own() {
    // S-010
    let build_version = "c0ffee/1.14.1/Clean/RELEASE/BoringSSL".to_owned();
    let node = WireNode { build_version, ..WireNode::default() };
    assert_eq!(Node::from(node).user_agent_version, "1.14.1");
}

#[test]
fn bytes_that_are_no_message_are_an_error_and_no_panic() {
    assert!(decode_sotw(b"\xff").is_err());
    assert!(decode_delta(b"\x0a\x05ab").is_err());
    assert!(decode_sotw(b"\x22\x01\xff").is_err(), "a type URL that is not UTF-8");
}

#[test]
fn a_request_at_a_limit_is_read_and_one_past_it_is_refused() {
    // S-110
    let limits = |of: fn(&mut RequestLimits)| {
        let mut limits = RequestLimits::NONE;
        of(&mut limits);
        limits
    };
    let names = ["aa".to_owned(), "b".to_owned()].to_vec();
    let node = Some(WireNode { id: "id".to_owned(), ..WireNode::default() });
    let sotw = DiscoveryRequest {
        node: node.clone(),
        resource_names: names.clone(),
        resource_locators: vec![WireLocator { name: "c".to_owned() }],
        type_url: "t".to_owned(),
        ..DiscoveryRequest::default()
    };
    let delta = DeltaDiscoveryRequest {
        node,
        subscribe: names,
        unsubscribe: vec!["c".to_owned()],
        type_url: "tt".to_owned(),
        ..DeltaDiscoveryRequest::default()
    };
    let held = DeltaDiscoveryRequest {
        initial_resource_versions: [("aa", "1"), ("b", "")]
            .map(|(name, version)| (name.to_owned(), version.to_owned()))
            .into(),
        ..DeltaDiscoveryRequest::default()
    };
    for (fits, tight, in_held) in [
        (limits(|it| it.max_names = 3), limits(|it| it.max_names = 1), true),
        (limits(|it| it.max_name_length = 2), limits(|it| it.max_name_length = 1), true),
        (limits(|it| it.max_name_bytes = 4), limits(|it| it.max_name_bytes = 3), true),
        (limits(|it| it.max_node_bytes = 4), limits(|it| it.max_node_bytes = 3), false),
    ] {
        let sotw = sotw.encode_to_vec();
        assert!(decode_sotw_within(&sotw, &fits).is_ok(), "{fits:?}");
        assert!(decode_sotw_within(&sotw, &tight).unwrap_err().is_limit(), "{tight:?}");
        for (delta, is_bound) in [(&delta, true), (&held, in_held)] {
            let delta = delta.encode_to_vec();
            assert!(decode_delta_within(&delta, &fits).is_ok(), "{fits:?}");
            let read = decode_delta_within(&delta, &tight);
            assert_eq!(read.is_err_and(|error| error.is_limit()), is_bound, "{tight:?}");
        }
    }
    let error = decode_sotw_within(&sotw.encode_to_vec(), &limits(|it| it.max_node_bytes = 3));
    let text = "the node in the request has 4 bytes; 3 are allowed (`max-node-bytes`)";
    assert_eq!(error.unwrap_err().to_string(), text);
}

#[test]
fn a_node_that_is_large_in_memory_alone_is_refused_before_it_is_decoded() {
    // S-110
    let put = |number: u8, inside: &[u8]| {
        let mut out = Vec::new();
        put::put_field(&mut out, number, inside);
        out
    };
    let map = |inside: &[u8]| put(5, &put(1, &put(2, inside)));
    let chain = (0..20).fold(map(b""), |inside, _| map(&inside));
    let in_metadata =
        |count: usize| put(3, &put(1, &put(2, &put(6, &put(1, &chain).repeat(count)))));
    let features = |count: usize| put(10, b"").repeat(count);
    let parameters = |count: usize| {
        let one = |at: usize| {
            put(12, &[put(1, at.to_string().as_bytes()), put(2, &put(1, b""))].concat())
        };
        (0..count).flat_map(one).collect::<Vec<_>>()
    };
    let limits = RequestLimits { max_node_bytes: 100_000, ..RequestLimits::NONE };
    let request = |node: &[u8], variant| put(if variant == Variant::Sotw { 2 } else { 1 }, node);
    for (part, fits, tight) in [
        (&in_metadata as &dyn Fn(usize) -> Vec<u8>, 40, 100),
        (&features, 20_000, 40_000),
        (&parameters, 1_000, 2_000),
    ] {
        for variant in [Variant::Sotw, Variant::Delta] {
            let read = |count| {
                let message = request(&part(count), variant);
                match variant {
                    Variant::Sotw => decode_sotw_within(&message, &limits).map(drop),
                    Variant::Delta => decode_delta_within(&message, &limits).map(drop),
                }
            };
            assert!(read(fits).is_ok(), "{:?}", read(fits));
            let error = read(tight).unwrap_err();
            assert!(error.to_string().contains("more than 800000 bytes"), "{error}");
        }
    }
}

#[test]
fn fields_of_another_kind_or_number_are_skipped() {
    // A number in the place of the type URL, an unknown field, and then the nonce.
    assert_eq!(&*decode_sotw(b"\x20\x07\xa2\x06\x01x\x2a\x01n").unwrap().nonce, "n");
}

#[test]
fn what_comes_twice_is_put_together() {
    let mut bytes = DiscoveryRequest { node: Some(node()), ..Default::default() }.encode_to_vec();
    let more = WireNode { cluster: "other".to_owned(), ..WireNode::default() };
    bytes.extend(DiscoveryRequest { node: Some(more), ..Default::default() }.encode_to_vec());
    let node = decode_sotw(&bytes).unwrap().node.unwrap();
    assert_eq!((&*node.id, &*node.cluster), ("id", "other"));
}

proptest! {
    #[test]
    fn any_bytes_are_read_as_the_derived_messages_read_them(bytes in request_like()) {
        if let Ok(expected) = DiscoveryRequest::decode(&*bytes) {
            let found = decode_sotw(&bytes).unwrap();
            prop_assert_eq!(&*found.nonce, &*expected.response_nonce);
            prop_assert_eq!(&*found.type_url, &*expected.type_url);
            let located = expected.resource_locators.iter().map(|locator| &locator.name);
            prop_assert_eq!(found.names.len(), expected.resource_names.len() + located.len());
            prop_assert_eq!(found.node.is_some(), expected.node.is_some());
        }
        if let Ok(expected) = DeltaDiscoveryRequest::decode(&*bytes) {
            let found = decode_delta(&bytes).unwrap();
            let held: BTreeMap<_, _> = found.initial_versions.iter().collect();
            prop_assert_eq!(held.len(), expected.initial_resource_versions.len());
            prop_assert_eq!(&*found.nonce, &*expected.response_nonce);
        }
    }
}

/// Fields with small numbers and short values, whole or cut.
fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let value = prop_oneof![
        Just(b"\x0a\x01a\x12\x01b".to_vec()),
        "[a-c*]{0,3}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    let field = (1u8..11, value).prop_map(|(number, value)| {
        let mut field = vec![number << 3 | 2, value.len() as u8];
        field.extend(value);
        field
    });
    let whole = prop::collection::vec(field, 0..8).prop_map(|fields| fields.concat());
    (whole, 0usize..60).prop_map(|(mut bytes, cut)| {
        bytes.truncate(cut.max(bytes.len().saturating_sub(cut)));
        bytes
    })
}

#[test]
fn metadata_may_not_be_nested_without_end() {
    let mut value = WireValue { kind: Some(WireKind::Bool(true)) };
    for _ in 0..200 {
        value = WireValue { kind: Some(WireKind::List(WireList { values: vec![value] })) };
    }
    let metadata = Some(WireStruct { fields: BTreeMap::from([("k".to_owned(), value)]) });
    let node = Some(WireNode { metadata, ..WireNode::default() });
    let request = DiscoveryRequest { node, ..DiscoveryRequest::default() };
    assert!(decode_sotw(&request.encode_to_vec()).is_err());
}

#[test]
fn fields_nobody_needs_are_skipped() {
    // The fields are the extensions (9) and listening addresses (11) of a node.
    let request = b"\x12\x0a\x0a\x02id\x4a\x02\x0a\x00\x5a\x00";
    assert_eq!(decode_sotw(request).unwrap().node.unwrap().id, "id");
}

#[test]
fn a_body_names_itself_in_the_spelling_asked_for() {
    // S-062, S-114
    const STORED: &str = "xdstp://x/envoy.config.cluster.v3.Cluster/a?b=2&a=1";
    const ASKED: &str = "xdstp://x/envoy.config.cluster.v3.Cluster/a?a=1&b=2";
    #[derive(Clone, PartialEq, Message)]
    struct Named {
        #[prost(string, tag = "1")]
        name: String,
    }
    let body = Named { name: STORED.to_owned() }.encode_to_vec();
    let resource = Arc::new(Resource::new(STORED.parse().unwrap(), body.into()));
    for (asked, spelled) in [(ASKED, ASKED), (STORED, STORED)] {
        let entry =
            ResponseEntry { name: asked.into(), resource: Some(Arc::clone(&resource)), ..entry() };
        let bare = sotw(&response(Variant::Sotw, false, vec![entry.clone()]));
        assert_eq!(Named::decode(&*bare.resources[0].value).unwrap().name, spelled);
        let wrapped = delta(&response(Variant::Delta, true, vec![entry]));
        let body = wrapped.resources[0].resource.clone().unwrap();
        assert_eq!(Named::decode(&*body.value).unwrap().name, spelled);
    }
    // Only names have several spellings: an alias, or a first field of another kind, stays.
    let aliased = ResponseEntry { name: "other".into(), ..entry() };
    let bare = sotw(&response(Variant::Sotw, false, vec![aliased]));
    assert_eq!(bare.resources[0].value, b"\x0a\x01c");
}
