//! Responses as clients get them: good, odd and broken.

use std::time::Duration;

use chancery_core::client::{ReceivedResource, ResponseItem};
use prost::Message;

use super::*;
use crate::samples::AnyMessage;

mod file;
mod json;
mod properties;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
const WRAPPER: &str = "type.googleapis.com/envoy.service.discovery.v3.Resource";
const UNKNOWN: &str = "type.googleapis.com/example.Nothing";

/// `Cluster` and `ClusterLoadAssignment` alike: a name, and something else.
#[derive(Clone, PartialEq, Message)]
struct Named {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "28")]
    alt_stat_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Located {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Wrapped {
    #[prost(string, tag = "1")]
    version: String,
    #[prost(message, optional, tag = "2")]
    resource: Option<AnyMessage>,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, repeated, tag = "4")]
    aliases: Vec<String>,
    #[prost(message, optional, tag = "6")]
    ttl: Option<Span>,
    #[prost(message, optional, tag = "8")]
    resource_name: Option<Located>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Span {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Sotw {
    #[prost(string, tag = "1")]
    version_info: String,
    #[prost(message, repeated, tag = "2")]
    resources: Vec<AnyMessage>,
    #[prost(bool, tag = "3")]
    canary: bool,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, tag = "5")]
    nonce: String,
}

#[derive(Clone, PartialEq, Message)]
struct Delta {
    #[prost(message, repeated, tag = "2")]
    resources: Vec<Wrapped>,
    #[prost(string, tag = "4")]
    type_url: String,
    #[prost(string, repeated, tag = "6")]
    removed: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    removed_names: Vec<Located>,
}

fn named(name: &str) -> Vec<u8> {
    Named { name: name.to_owned(), ..Named::default() }.encode_to_vec()
}

fn any_of(type_url: &str, value: Vec<u8>) -> AnyMessage {
    AnyMessage { type_url: type_url.to_owned(), value }
}

fn cluster(name: &str) -> AnyMessage {
    any_of(CLUSTER, named(name))
}

fn wrapper(name: &str, resource: Option<AnyMessage>) -> Wrapped {
    Wrapped { name: name.to_owned(), resource, ..Wrapped::default() }
}

fn reader() -> Reader {
    Reader::new(Schema::bundled())
}

fn sotw_of(type_url: &str, resources: Vec<AnyMessage>) -> Response {
    let type_url = type_url.to_owned();
    let message = Sotw { type_url, resources, canary: true, ..Sotw::default() };
    reader().read(Variant::Sotw, None, &message.encode_to_vec().into()).unwrap()
}

fn sotw(resources: Vec<AnyMessage>) -> Response {
    sotw_of(CLUSTER, resources)
}

fn delta(resources: Vec<Wrapped>) -> Response {
    let message = Delta { type_url: CLUSTER.to_owned(), resources, ..Delta::default() };
    reader().read(Variant::Delta, None, &message.encode_to_vec().into()).unwrap()
}

/// The names of the good resources, and the errors of the others.
fn outcome(reply: &Response) -> (Vec<&str>, Vec<(Option<&str>, &str)>) {
    let good = reply.resources.iter().flatten().map(|item| match item {
        ResponseItem::Resource(given) => given.resource.name().as_str(),
        ResponseItem::Heartbeat(bare) => bare.name.as_str(),
    });
    let flaws = reply.resources.iter().filter_map(|item| item.as_ref().err());
    let flaws = flaws.map(|flaw| (flaw.name.as_ref().map(ResourceName::as_str), &*flaw.why));
    (good.collect(), flaws.collect())
}

fn only(reply: &Response) -> &ReceivedResource {
    match &reply.resources[..] {
        [Ok(ResponseItem::Resource(given))] => given,
        other => panic!("{other:?}"),
    }
}

fn only_flaw(reply: &Response) -> (Option<&str>, &str) {
    assert_eq!(reply.resources.len(), 1, "{reply:?}");
    outcome(reply).1[0]
}

#[test]
fn a_body_names_itself_by_the_field_of_its_type() {
    let mut body = named("c");
    body.extend(b"\xfa\x3f\x03new"); // field 1023, which no descriptor knows
    let reply = sotw(vec![any_of(CLUSTER, body.clone())]);
    assert_eq!(only(&reply).resource.name().as_str(), "c");
    assert_eq!(only(&reply).resource.body()[..], body, "the bytes are the server's (C-061)");
    assert!(only(&reply).decoded.is_none());
    let reply = sotw_of(ENDPOINTS, vec![any_of(ENDPOINTS, named("e"))]);
    assert_eq!(only(&reply).resource.name().as_str(), "e");
}

/// C-082
#[test]
fn the_machine_is_told_whether_loads_are_reported_to_the_server() {
    let mut itself = named("itself");
    itself.extend(b"\xd2\x02\x02\x2a\x00"); // `lrs_server` (42), `self` (5)
    let reply = sotw(vec![any_of(CLUSTER, itself)]);
    assert!(only(&reply).resource.facts().reports_to_server);
    assert!(!only(&sotw(vec![cluster("c")])).resource.facts().reports_to_server);
}

/// C-036
#[test]
fn a_wrapped_sotw_resource_is_unwrapped() {
    let wrapped = Wrapped {
        version: "7".to_owned(),
        aliases: vec!["also".to_owned()],
        ttl: Some(Span { seconds: 1, nanos: 500_000_000 }),
        ..wrapper("", Some(cluster("c")))
    };
    let reply = sotw(vec![any_of(WRAPPER, wrapped.encode_to_vec())]);
    let resource = &only(&reply).resource;
    assert_eq!(resource.name().as_str(), "c");
    assert_eq!(resource.body()[..], named("c"));
    assert!(resource.version().matches("7"));
    assert_eq!(resource.ttl(), Some(Duration::from_millis(1500)));
    assert_eq!(resource.aliases(), ["also".parse().unwrap()]);
    let named = wrapper("w", Some(cluster("c"))).encode_to_vec();
    assert_eq!(outcome(&sotw(vec![any_of(WRAPPER, named)])).0, ["w"], "the wrapper's name counts");
}

#[test]
fn a_wrapper_is_named_by_a_resource_name_too() {
    let resource_name = Some(Located { name: "l".to_owned() });
    let located = Wrapped { resource_name, ..wrapper("", Some(cluster("c"))) };
    assert_eq!(outcome(&delta(vec![located])).0, ["l"]);
}

/// C-045: a wrapper without a body renews the resource that the client has.
#[test]
fn a_wrapper_without_a_body_is_bare() {
    let beat = Wrapped {
        version: "7".to_owned(),
        ttl: Some(Span { seconds: 3, nanos: 0 }),
        ..wrapper("c", None)
    };
    let reply = delta(vec![beat, wrapper("", None)]);
    let Ok(ResponseItem::Heartbeat(bare)) = &reply.resources[0] else { panic!("{reply:?}") };
    assert_eq!((bare.name.as_str(), &*bare.version), ("c", "7"));
    assert_eq!(bare.ttl, Some(Duration::from_secs(3)));
    assert_eq!(outcome(&reply).1[0].0, None);
}

/// C-041: both ways to remove a name are read. C-025: names are in the client's spelling.
#[test]
fn removed_names_are_canonical() {
    let message = Delta {
        removed: vec!["a".to_owned(), "xdstp://x/T/i?b=2&a=1".to_owned(), "xdstp://".to_owned()],
        removed_names: vec![Located { name: "b".to_owned() }],
        ..Delta::default()
    };
    let expected = TypeUrl::new(CLUSTER);
    let bytes = message.encode_to_vec().into();
    let reply = reader().read(Variant::Delta, Some(&expected), &bytes).unwrap();
    let removed: Vec<_> = reply.removed.iter().map(|name| &**name).collect();
    assert_eq!(removed, ["a", "xdstp://x/T/i?a=1&b=2", "xdstp://", "b"]);
    assert_eq!(reply.type_url, expected);
}

/// C-025, C-027
#[test]
fn new_style_names_are_canonical() {
    let spelled = "xdstp://x/envoy.config.cluster.v3.Cluster/i?b=1&a=1&b=2#alt=y";
    let reply = sotw(vec![cluster(spelled)]);
    let resource = &only(&reply).resource;
    assert_eq!(resource.name().as_str(), "xdstp://x/envoy.config.cluster.v3.Cluster/i?a=1&b=2");
    assert_eq!(resource.body()[..], named(spelled));
}

/// C-024, C-055, C-063, C-064
#[test]
fn all_that_is_wrong_is_told_and_costs_no_good_one() {
    let reply = sotw(vec![
        cluster("good"),
        any_of(CLUSTER, b"\x0a\x05cut".to_vec()),
        any_of(CLUSTER, [named("known"), b"\x22\x01\xff".to_vec()].concat()),
        any_of(ENDPOINTS, named("e")),
        cluster(""),
        cluster("xdstp://x/other.Type/i"),
        any_of(WRAPPER, wrapper("named", Some(any_of(ENDPOINTS, named("e")))).encode_to_vec()),
        any_of(WRAPPER, wrapper("twice", Some(any_of(WRAPPER, Vec::new()))).encode_to_vec()),
        any_of(WRAPPER, b"\x0a\x05cut".to_vec()),
        any_of("", Vec::new()),
        cluster("xdstp://x/envoy.config.cluster.v3.Cluster/*"),
    ]);
    let (good, flaws) = outcome(&reply);
    assert_eq!(good, ["good"]);
    let names: Vec<_> = flaws.iter().map(|(name, _)| name.unwrap_or("?")).collect();
    assert_eq!(names, ["?", "known", "?", "?", "?", "named", "twice", "?", "?", "?"]);
    let reasons = [
        "the bytes are no `envoy.config.cluster.v3.Cluster`: a field ends behind the message",
        "the bytes are no `envoy.config.cluster.v3.Cluster`: ",
        "a `envoy.config.endpoint.v3.ClusterLoadAssignment` in a response of",
        "has an empty `name`",
        "other.Type",
        "a `envoy.config.endpoint.v3.ClusterLoadAssignment` in a response of",
        "a wrapper in a wrapper",
        "is no `Resource`: a field ends behind the message",
        "it is a `` in a response of",
        "names a collection",
    ];
    for ((_, why), reason) in flaws.iter().zip(reasons) {
        assert!(why.contains(reason), "{why}: {reason}");
    }
}

/// C-064
#[test]
fn a_name_given_twice_is_given_to_nobody() {
    let spelled =
        |query: &str| cluster(&format!("xdstp://x/envoy.config.cluster.v3.Cluster/{query}"));
    let reply = sotw(vec![
        cluster("a"),
        cluster("b"),
        cluster("a"),
        spelled("i?a=1&b=2"),
        cluster("a"),
        spelled("i?b=2&a=1"),
    ]);
    let (good, flaws) = outcome(&reply);
    assert_eq!(good, ["b"]);
    let canonical = "xdstp://x/envoy.config.cluster.v3.Cluster/i?a=1&b=2";
    let expected = [
        (Some("a"), "the response has 3 resources of this name"),
        (Some(canonical), "the response has 2 resources of this name"),
    ];
    assert_eq!(flaws, expected);
}

#[test]
fn a_type_nobody_knows_is_named_by_its_wrapper_alone() {
    let body = any_of(UNKNOWN, b"anything".to_vec());
    let wrapped = any_of(WRAPPER, wrapper("w", Some(body.clone())).encode_to_vec());
    let reply = sotw_of(UNKNOWN, vec![wrapped]);
    assert_eq!(only(&reply).resource.body()[..], *b"anything");
    let reply = sotw_of(UNKNOWN, vec![body]);
    let (name, why) = only_flaw(&reply);
    assert_eq!(name, None);
    assert!(why.contains("`example.Nothing`, of which no descriptor is known"), "{why}");
}

#[test]
fn a_ttl_that_is_no_time_is_a_flaw() {
    for (seconds, nanos) in [(0, 0), (-1, 0), (0, -1), (1, 1_000_000_000)] {
        let ttl = Some(Span { seconds, nanos });
        let reply = delta(vec![Wrapped { ttl, ..wrapper("c", Some(cluster("c"))) }]);
        assert_eq!(only_flaw(&reply), (Some("c"), "its `ttl` must be longer than nothing"));
    }
}

#[test]
fn nameless_flaws_are_told_up_to_a_hundred() {
    let nameless = |times: usize| sotw(vec![any_of("", Vec::new()); times]).resources;
    assert_eq!(nameless(100).len(), 100);
    let items = nameless(103);
    assert_eq!(items.len(), 101);
    let why = &items[100].as_ref().unwrap_err().why;
    assert_eq!(why, "3 more resources without a name that can be told");
}

/// A decoder that takes the first byte for the whole body, and refuses clusters called `bad`.
struct FirstByte;

impl Decoder for FirstByte {
    fn decode(
        &self,
        type_url: &TypeUrl,
        name: &ResourceName,
        body: &Bytes,
    ) -> Result<Option<DecodedBody>, String> {
        match name.as_str() {
            "bad" => Err(format!("a {} called bad", type_url.short())),
            "left" => Ok(None),
            _ => Ok(Some(DecodedBody(Arc::new(body[0])))),
        }
    }
}

/// C-055: a program's own decoder decides which bodies are good.
#[test]
fn a_decoder_decides_and_the_descriptors_where_it_does_not() {
    let broken = any_of(CLUSTER, b"\x20\x07".to_vec());
    let resources = vec![
        wrapper("read", Some(broken)),
        wrapper("bad", Some(cluster("bad"))),
        wrapper("left", Some(any_of(CLUSTER, b"\x0a\x01\xff".to_vec()))),
    ];
    let message = Delta { type_url: CLUSTER.to_owned(), resources, ..Delta::default() };
    let reader = reader().with_decoder(Arc::new(FirstByte));
    let reply = reader.read(Variant::Delta, None, &message.encode_to_vec().into()).unwrap();
    let Ok(ResponseItem::Resource(given)) = &reply.resources[0] else { panic!("{reply:?}") };
    assert_eq!(given.decoded.as_ref().unwrap().0.downcast_ref::<u8>(), Some(&0x20));
    let (_, flaws) = outcome(&reply);
    assert_eq!(flaws[0], (Some("bad"), "a cds called bad"));
    assert_eq!(flaws[1].0, Some("left"));
}

#[test]
fn what_is_no_response_or_of_no_type_is_an_error() {
    let read = |variant, bytes: &'static [u8]| {
        reader().read(variant, None, &Bytes::from_static(bytes)).unwrap_err()
    };
    let error = read(Variant::Sotw, b"\xff");
    assert_eq!(error.to_string(), "the message is no `DiscoveryResponse`");
    let error = read(Variant::Delta, b"\x0a\x01v");
    assert_eq!(error.to_string(), "the message is no `DeltaDiscoveryResponse`");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "it names no `type_url`");
}

#[test]
fn a_small_body_does_not_keep_its_message_and_a_large_one_is_not_copied() {
    let large = Named { name: "large".to_owned(), alt_stat_name: "x".repeat(10_000) };
    let resources = vec![cluster("small"), any_of(CLUSTER, large.encode_to_vec())];
    let message = Sotw { type_url: CLUSTER.to_owned(), resources, ..Sotw::default() };
    let message = Bytes::from(message.encode_to_vec());
    let within = message.as_ptr_range();
    let reply = reader().read(Variant::Sotw, None, &message).unwrap();
    let copied = reply.resources.iter().flatten().map(|item| match item {
        ResponseItem::Resource(given) => !within.contains(&given.resource.body().as_ptr()),
        ResponseItem::Heartbeat(_) => unreachable!("all have bodies"),
    });
    assert_eq!(copied.collect::<Vec<_>>(), [true, false]);
}

#[test]
fn nesting_without_end_is_a_flaw_and_no_overflow() {
    let mut body = Vec::new();
    for _ in 0..10_000 {
        let inner = std::mem::take(&mut body);
        prost::encoding::bytes::encode(1, &inner, &mut body);
    }
    // A `google.protobuf.ListValue` can contain itself.
    let list = "type.googleapis.com/google.protobuf.ListValue";
    let wrapped = any_of(WRAPPER, wrapper("deep", Some(any_of(list, body))).encode_to_vec());
    let reply = sotw_of(list, vec![wrapped]);
    assert_eq!(only_flaw(&reply).0, Some("deep"));
}
