//! Matchers, written as JSON by the descriptors, and asked of a node.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::Value;
use prost::Message;
use prost_reflect::DynamicMessage;
use serde_json::{Value as Json, json};

use super::*;
use crate::schema::Schema;

/// Reads matchers that are written as the JSON of `NodeMatcher`s, by the descriptors.
fn read(matchers: &[Json]) -> Result<NodeMatchers, String> {
    let schema = Schema::bundled();
    let descriptor = schema.message("envoy.type.matcher.v3.NodeMatcher").unwrap();
    let message = |json: &Json| {
        let message = DynamicMessage::deserialize(descriptor.clone(), json.clone()).unwrap();
        Bytes::from(message.encode_to_vec())
    };
    let messages: Vec<_> = matchers.iter().map(message).collect();
    NodeMatchers::read(&messages).map_err(|fault| fault.to_string())
}

fn node(id: &str) -> Node {
    let zone = Value::Map([("name".to_owned(), Value::Text("z1".to_owned()))].into());
    let tags = Value::List(vec![Value::Text("red".to_owned()), Value::Number(7.0)]);
    let metadata = [
        ("role".to_owned(), Value::Text("edge".to_owned())),
        ("weight".to_owned(), Value::Number(3.0)),
        ("canary".to_owned(), Value::Bool(true)),
        ("nothing".to_owned(), Value::Null),
        ("zone".to_owned(), zone),
        ("tags".to_owned(), tags),
    ];
    Node { id: id.to_owned(), metadata: Arc::new(metadata.into()), ..Node::default() }
}

fn matches(matcher: Json, id: &str) -> bool {
    read(&[matcher]).unwrap().matches(&node(id))
}

fn of_id(matcher: Json, id: &str) -> bool {
    matches(json!({"nodeId": matcher}), id)
}

/// Returns true if the value at a path of keys matches.
fn of_value(path: &str, matcher: Json) -> bool {
    let path: Vec<_> = path.split('.').map(|key| json!({"key": key})).collect();
    matches(json!({"nodeMetadatas": [{"path": path, "value": matcher}]}), "edge-7")
}

/// S-134
#[test]
fn an_id_is_matched_as_envoy_matches_texts() {
    for (matcher, good, bad) in [
        (json!({"exact": "edge-7"}), "edge-7", "edge-77"),
        (json!({"prefix": "edge"}), "edge-7", "Edge-7"),
        (json!({"suffix": "-7"}), "edge-7", "edge-77"),
        (json!({"contains": "ge"}), "edge-7", "EDGE-7"),
        (json!({"prefix": "EDGE", "ignoreCase": true}), "Edge-7", "wedge"),
        (json!({"exact": "Edge", "ignoreCase": true}), "eDGE", "edge-"),
        (json!({"contains": "X", "ignoreCase": true}), "axb", "ab"),
        (json!({"suffix": "X", "ignoreCase": true}), "ax", "axb"),
        (json!({"safeRegex": {"regex": "edge-[0-9]+"}}), "edge-7", "edge-7b"),
        (json!({"safeRegex": {"regex": "a|ab"}}), "ab", "abc"),
        (json!({"safeRegex": {"regex": r"\w+", "googleRe2": {}}}), "a_1", "é"),
        (json!({"exact": ""}), "", "a"),
    ] {
        assert!(of_id(matcher.clone(), good), "{matcher} {good}");
        assert!(!of_id(matcher.clone(), bad), "{matcher} {bad}");
    }
    // The case of a pattern is that which the pattern says.
    assert!(!of_id(json!({"safeRegex": {"regex": "a"}, "ignoreCase": true}), "A"));
}

/// S-134
#[test]
fn metadata_is_matched_at_its_path() {
    assert!(of_value("role", json!({"stringMatch": {"exact": "edge"}})));
    assert!(!of_value("role", json!({"stringMatch": {"exact": "mesh"}})));
    assert!(of_value("zone.name", json!({"stringMatch": {"prefix": "z"}})));
    assert!(!of_value("zone.other", json!({"stringMatch": {"prefix": "z"}})));
    assert!(!of_value("role.name", json!({"stringMatch": {"prefix": "e"}})));
    assert!(of_value("weight", json!({"doubleMatch": {"exact": 3}})));
    assert!(of_value("weight", json!({"doubleMatch": {"range": {"start": 3, "end": 4}}})));
    assert!(!of_value("weight", json!({"doubleMatch": {"range": {"start": 2, "end": 3}}})));
    assert!(of_value("canary", json!({"boolMatch": true})));
    assert!(!of_value("canary", json!({"boolMatch": false})));
    assert!(of_value("nothing", json!({"nullMatch": {}})));
    assert!(!of_value("missing", json!({"nullMatch": {}})));
    assert!(of_value("role", json!({"presentMatch": true})));
    assert!(!of_value("role", json!({"presentMatch": false})));
    assert!(of_value("missing", json!({"presentMatch": false})));
    assert!(!of_value("zone", json!({"presentMatch": true})));
    assert!(of_value("tags", json!({"listMatch": {"oneOf": {"stringMatch": {"exact": "red"}}}})));
    assert!(!of_value("tags", json!({"listMatch": {"oneOf": {"boolMatch": true}}})));
    let either = json!({"orMatch": {"valueMatchers": [
        {"stringMatch": {"exact": "mesh"}}, {"stringMatch": {"exact": "edge"}},
    ]}});
    assert!(of_value("role", either.clone()) && !of_value("zone.name", either));
}

/// S-134
#[test]
fn one_matcher_has_to_be_met_with_all_of_its_parts() {
    let both = |id: &str, role: &str| {
        json!({
            "nodeId": {"exact": id},
            "nodeMetadatas": [
                {"path": [{"key": "role"}], "value": {"stringMatch": {"exact": role}}},
                {"path": [{"key": "canary"}], "value": {"boolMatch": true}},
            ],
        })
    };
    assert!(matches(both("a", "edge"), "a"));
    assert!(!matches(both("a", "edge"), "b") && !matches(both("a", "mesh"), "a"));
    let either = read(&[both("a", "edge"), both("b", "edge")]).unwrap();
    assert!(either.matches(&node("a")) && either.matches(&node("b")));
    assert!(!either.matches(&node("c")));
    assert!(read(&[]).unwrap().matches(&node("c")) && matches(json!({}), "c"));
}

/// S-134
#[test]
fn matchers_that_mean_nothing_are_refused_with_their_place() {
    let of_value =
        |value: Json| json!({"nodeMetadatas": [{"path": [{"key": "a"}], "value": value}]});
    for (matcher, why) in [
        (json!({"nodeId": {}}), "`node_matchers[0].node_id` has none of"),
        (json!({"nodeId": {"prefix": ""}}), "has an empty `prefix`"),
        (json!({"nodeId": {"safeRegex": {"regex": "("}}}), "`(`: a `(` has no `)`"),
        (json!({"nodeId": {"safeRegex": {"regex": "a)|(b"}}}), "a `)` has no `(`"),
        (json!({"nodeId": {"safeRegex": {"regex": r"\pL{999}"}}}), "size limit"),
        (json!({"nodeId": {"custom": {"name": "x"}}}), "known to Envoy alone"),
        (json!({"nodeId": {"exact": "x".repeat(1025)}}), "more than 1024 bytes"),
        (
            json!({"nodeMetadatas": [{"value": {"nullMatch": {}}}]}),
            "node_metadatas[0].path` has to",
        ),
        (json!({"nodeMetadatas": [{"path": [{"key": "a"}]}]}), ".value` is missing"),
        (of_value(json!({})), "says nothing of the value"),
        (of_value(json!({"doubleMatch": {}})), "without a number"),
        (of_value(json!({"listMatch": {}})), "value.list_match.one_of` is missing"),
    ] {
        let fault = read(&[matcher]).unwrap_err();
        assert!(fault.contains(why), "{fault}");
    }
    let broken = NodeMatchers::read(&[Bytes::from_static(&[0xff])]).unwrap_err().to_string();
    assert!(broken.starts_with("`node_matchers[0]` is no `NodeMatcher`"), "{broken}");
}

/// S-134
#[test]
fn the_number_of_matchers_and_their_depth_are_bounded() {
    let parts = |of: usize| vec![json!({}); of];
    assert!(read(&parts(64)).is_ok());
    assert!(read(&parts(65)).unwrap_err().contains("more than 64 parts"));
    let one = || json!({"path": [{"key": "a"}], "value": {"nullMatch": {}}});
    let metadata = |of: usize| json!({"nodeMetadatas": vec![one(); of]});
    assert!(read(&[metadata(31)]).is_ok());
    assert!(read(&[metadata(32)]).unwrap_err().contains("more than 64 parts"));
    let nested = |levels: usize| {
        let list = |inner: Json| json!({"listMatch": {"oneOf": inner}});
        let value = (1..levels).fold(json!({"nullMatch": {}}), |inner, _| list(inner));
        json!({"nodeMetadatas": [{"path": [{"key": "a"}], "value": value}]})
    };
    assert!(read(&[nested(16)]).is_ok());
    assert!(read(&[nested(17)]).unwrap_err().contains("nested too deeply"));
}
