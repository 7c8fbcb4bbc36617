//! Equal content has equal bytes, and encoding loses nothing.

use std::collections::BTreeSet;

use proptest::prelude::*;
use prost::Message;
use serde::de::DeserializeSeed;

use super::*;
use crate::schema::Schema;

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

fn parse(name: &str, json: &str) -> DynamicMessage {
    let descriptor = Schema::bundled().message(name).unwrap();
    descriptor.deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap()
}

fn decode(name: &str, bytes: &[u8]) -> DynamicMessage {
    DynamicMessage::decode(Schema::bundled().message(name).unwrap(), bytes).unwrap()
}

/// An `Any` around an encoded message.
fn wrapped(type_name: &str, payload: &[u8]) -> Vec<u8> {
    let type_url = format!("type.googleapis.com/{type_name}");
    prost_types::Any { type_url, value: payload.to_vec() }.encode_to_vec()
}

#[test]
fn two_hundred_parses_have_one_encoding() {
    // S-031: maps at three levels, two of them inside an `Any`
    let json = r#"{"name": "a", "connectTimeout": "1.5s",
        "metadata": {"filterMetadata": {"k": {"z": 1, "b": true, "q": [1, 2]}, "a": {}}},
        "transportSocket": {"name": "t", "typedConfig": {
            "@type": "type.googleapis.com/google.protobuf.Struct",
            "value": {"z": 1, "y": 2, "x": {"p": 1, "o": 2}, "w": 4}}},
        "typedExtensionProtocolOptions": {
            "z": {"@type": "type.googleapis.com/google.protobuf.Empty", "value": {}},
            "a": {"@type": "type.googleapis.com/google.protobuf.Empty", "value": {}},
            "m": {"@type": "type.googleapis.com/google.protobuf.Empty", "value": {}}}}"#;
    let parses: Vec<_> = (0..200).map(|_| parse(CLUSTER, json)).collect();
    let plain: BTreeSet<_> = parses.iter().map(Message::encode_to_vec).collect();
    let canonical: BTreeSet<_> = parses.iter().map(encode).collect();
    assert!(plain.len() > 1, "prost's own encoding has become deterministic: use that");
    assert_eq!(canonical.len(), 1);
    assert_eq!(decode(CLUSTER, canonical.first().unwrap()).encoded_len(), parses[0].encoded_len());
}

#[test]
fn fields_in_any_order_are_one_content() {
    let forth = [&b"\x0a\x01a"[..], b"\x10\x01"].concat();
    let back = [&b"\x10\x01"[..], b"\x0a\x01a"].concat();
    assert_eq!(encode(&decode(CLUSTER, &forth)), encode(&decode(CLUSTER, &back)));
}

#[test]
fn fields_nobody_knows_are_kept() {
    let unknown = b"\x0a\x01a\xfa\xff\x03\x02hi";
    assert_eq!(encode(&decode(CLUSTER, unknown)), unknown);
}

#[test]
fn an_any_that_cannot_be_opened_is_kept() {
    for (type_name, payload) in [("own.Unknown", &b"\x01\x02\x03"[..]), (CLUSTER, b"\xff\xff")] {
        let any = wrapped(type_name, payload);
        assert_eq!(encode(&decode("google.protobuf.Any", &any)), any);
    }
    assert_eq!(encode(&decode("google.protobuf.Any", b"")), b"");
}

#[test]
fn thousands_of_nested_anys_do_not_exhaust_the_stack() {
    let mut bytes = Vec::new();
    for _ in 0..10_000 {
        bytes = wrapped("google.protobuf.Any", &bytes);
    }
    assert_eq!(encode(&decode("google.protobuf.Any", &bytes)), bytes);
}

#[test]
fn every_kind_of_scalar_survives() {
    let all = all_kinds();
    let bytes = prost_types::FileDescriptorSet { file: vec![all] }.encode_to_vec();
    let schema = Schema::bundled().with_descriptor_set(&bytes).unwrap();
    let json = r#"{"f1": -1.5, "f2": 2.5, "f3": "-3", "f4": "4", "f5": -5, "f6": "6", "f7": 7,
        "f8": true, "f9": "nine", "f12": "AQI=", "f13": 13, "f15": -15, "f16": "-16", "f17": -17,
        "f18": "-18", "l1": [-1.5], "l2": [2.5], "l3": ["-3", "3"], "l4": ["4"], "l5": [-5, 5],
        "l6": ["6"], "l7": [7], "l8": [true, false], "l9": ["nine", ""], "l12": ["AQI=", ""],
        "l13": [13], "l15": [-15, 15], "l16": ["-16"], "l17": [-17], "l18": ["-18"]}"#;
    let descriptor = schema.message("kinds.All").unwrap();
    let message =
        descriptor.clone().deserialize(&mut serde_json::Deserializer::from_str(json)).unwrap();
    // Without maps prost's own encoding is in order: the two must agree byte for byte.
    assert_eq!(encode(&message), message.encode_to_vec());
    assert_eq!(DynamicMessage::decode(descriptor, &encode(&message)[..]).unwrap(), message);
}

/// A file with a message that has a field `f<KIND>` and a list `l<KIND>` of every scalar kind.
fn all_kinds() -> prost_types::FileDescriptorProto {
    use prost_types::field_descriptor_proto::Label;
    let kinds = (1..=18).filter(|kind| ![10, 11, 14].contains(kind));
    let field = |name: String, number, label: Label, kind| prost_types::FieldDescriptorProto {
        json_name: Some(name.clone()),
        name: Some(name),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind),
        ..Default::default()
    };
    let fields = kinds.flat_map(|kind| {
        let one = field(format!("f{kind}"), kind, Label::Optional, kind);
        [one, field(format!("l{kind}"), 100 + kind, Label::Repeated, kind)]
    });
    prost_types::FileDescriptorProto {
        name: Some("kinds.proto".to_owned()),
        package: Some("kinds".to_owned()),
        message_type: vec![prost_types::DescriptorProto {
            name: Some("All".to_owned()),
            field: fields.collect(),
            ..Default::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..Default::default()
    }
}

fn tree() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i32>().prop_map(serde_json::Value::from),
        ".{0,8}".prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(serde_json::Value::from),
            prop::collection::btree_map("[a-e]{0,2}", inner, 0..5)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// Encoding loses nothing, and canonical bytes stay the same when they are decoded and encoded
    /// again.
    #[test]
    fn decoding_gives_the_message_back(tree in tree()) {
        let message = parse("google.protobuf.Value", &tree.to_string());
        let bytes = encode(&message);
        let again = decode("google.protobuf.Value", &bytes);
        prop_assert_eq!(&again, &message);
        prop_assert_eq!(encode(&again), bytes);
    }

    /// Any bytes that decode can be encoded, and the result decodes to the same message.
    #[test]
    fn hostile_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let descriptor = Schema::bundled().message(CLUSTER).unwrap();
        if let Ok(message) = DynamicMessage::decode(descriptor, &bytes[..]) {
            let canonical = encode(&message);
            prop_assert_eq!(encode(&decode(CLUSTER, &canonical)), canonical);
        }
    }
}
