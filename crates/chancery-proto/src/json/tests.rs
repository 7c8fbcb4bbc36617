//! Polls and their answers as JSON.

use bytes::Bytes;
use prost::Message;

use super::*;
use crate::samples::AnyMessage;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

fn resource(type_url: &str, name: &str, json: Value) -> Arc<Resource> {
    let descriptor = Schema::bundled().message(type_url).unwrap();
    let message = DynamicMessage::deserialize(descriptor, json).unwrap();
    let body = Bytes::from(message.encode_to_vec());
    Arc::new(Resource::new(name.parse().unwrap(), body))
}

#[test]
fn a_response_is_proto3_json_with_types() {
    // S-019
    let body = json!({
        "name": "c", "connectTimeout": "1.500s", "altStatName": "x",
        "metadata": {"filterMetadata": {"m": {"one": 1, "half": 0.5}}},
        "perConnectionBufferLimitBytes": 7,
        "maxRequestsPerConnection": 9,
        "circuitBreakers": {"thresholds": [{"maxConnections": 3}]},
    });
    let resources = [resource(CLUSTER, "c", body.clone())];
    let type_url = TypeUrl::new(CLUSTER);
    let text = response_to_json(&Schema::bundled(), &type_url, "v", "server", &resources).unwrap();
    let response: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(response["versionInfo"], "v");
    assert_eq!(response["typeUrl"], CLUSTER);
    assert_eq!(response["controlPlane"]["identifier"], "server");
    let mut expected = body;
    expected["@type"] = CLUSTER.into();
    assert_eq!(response["resources"][0], expected);
    assert!(String::from_utf8(text).unwrap().contains(r#""one":1"#));
}

#[test]
fn numbers_that_json_has_no_form_for_are_text() {
    // S-019: numbers by the JSON mapping of proto3, in wrappers and inside an `Any` too.
    let wrapped = |name: &str, value: &str| {
        let type_url = format!("type.googleapis.com/google.protobuf.{name}");
        json!({"@type": type_url, "value": value})
    };
    let body = json!({
        "name": "c",
        "preconnectPolicy": {"perUpstreamPreconnectRatio": "Infinity",
                             "predictivePreconnectRatio": "NaN"},
        "typedExtensionProtocolOptions": {
            "a": wrapped("DoubleValue", "-Infinity"), "b": wrapped("FloatValue", "NaN"),
            "c": wrapped("FloatValue", "Infinity")},
        "metadata": {"filterMetadata": {"m": {"none": null, "list": [null, {}, true]}}},
    });
    let type_url = TypeUrl::new(CLUSTER);
    let resources = [resource(CLUSTER, "c", body.clone())];
    let text = response_to_json(&Schema::bundled(), &type_url, "v", "s", &resources).unwrap();
    let response: Value = serde_json::from_slice(&text).unwrap();
    let mut expected = body;
    expected["@type"] = CLUSTER.into();
    assert_eq!(response["resources"][0], expected);
    // The client reads them again. NaN is not equal to itself, but its bytes are.
    let reply = crate::reply::Reader::new(Schema::bundled()).read_json(&type_url, &text).unwrap();
    let [Ok(chancery_core::client::ResponseItem::Resource(read))] = &reply.resources[..] else {
        panic!("{reply:?}")
    };
    let descriptor = Schema::bundled().message(CLUSTER).unwrap();
    let message = DynamicMessage::decode(descriptor, resources[0].body().clone()).unwrap();
    assert_eq!(read.resource.body(), &crate::canonical::encode(&message));
}

#[test]
fn a_type_nobody_knows_is_named() {
    let resources = [Arc::new(Resource::new("a".parse().unwrap(), Bytes::new()))];
    let error =
        response_to_json(&Schema::bundled(), &TypeUrl::new("foo.Bar"), "v", "s", &resources)
            .unwrap_err();
    assert!(error.to_string().contains("foo.Bar"), "{error}");
}

#[test]
fn a_body_that_is_not_of_its_type_is_an_error() {
    let broken = [Arc::new(Resource::new("a".parse().unwrap(), Bytes::from_static(b"\xff")))];
    let type_url = TypeUrl::new(CLUSTER);
    assert!(response_to_json(&Schema::bundled(), &type_url, "v", "s", &broken).is_err());
}

#[test]
fn nesting_without_end_is_an_error_and_no_overflow() {
    let mut any = AnyMessage::default();
    for _ in 0..500 {
        let type_url = "type.googleapis.com/google.protobuf.Any".to_owned();
        any = AnyMessage { type_url, value: any.encode_to_vec() };
    }
    // `typed_config` of a `TypedExtensionConfig`
    let extension = TypeUrl::new("envoy.config.core.v3.TypedExtensionConfig");
    let mut body = Vec::new();
    prost::encoding::message::encode(2, &any, &mut body);
    let resources = [Arc::new(Resource::new("x".parse().unwrap(), body.into()))];
    let error = response_to_json(&Schema::bundled(), &extension, "v", "s", &resources).unwrap_err();
    assert!(matches!(error, JsonError::TooDeep { .. }), "{error}");
}
