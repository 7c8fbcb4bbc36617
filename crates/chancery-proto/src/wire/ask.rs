//! Requests, as a client writes them: the other end of [`super::requests`].
//!
//! Everything a request says of a node is written but v2's `build_version`, which is a text of its
//! own; the version of the user agent goes out as text, as gRPC clients send it.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_core::{DeltaRequest, ErrorDetail, Names, Node, Request, SotwRequest, Value};
use prost::Message;

use super::entries::{field_size, put_field, put_header};
use super::tail::put_text;
use super::{ContextParams, Kind, ListValue, Status, Struct, WireLocality, WireNode, WireValue};

/// Encodes a `DiscoveryRequest` or a `DeltaDiscoveryRequest`.
pub fn encode_request(request: &Request) -> Bytes {
    match request {
        Request::Sotw(request) => sotw(request).into(),
        Request::Delta(request) => delta(request).into(),
    }
}

fn sotw(request: &SotwRequest) -> Vec<u8> {
    let mut out = Vec::with_capacity(AROUND + room_for(&request.names));
    put_text(&mut out, 1, &request.version);
    put_node(&mut out, 2, request.node.as_deref());
    put_names(&mut out, 3, &request.names);
    put_text(&mut out, 4, &request.type_url);
    put_text(&mut out, 5, &request.nonce);
    put_error(&mut out, 6, request.error.as_ref());
    out
}

fn delta(request: &DeltaRequest) -> Vec<u8> {
    let names = room_for(&request.subscribe) + room_for(&request.unsubscribe);
    let held: usize =
        request.initial_versions.iter().map(|one| field_size(size_of_pair(one))).sum();
    let mut out = Vec::with_capacity(AROUND + names + held);
    put_node(&mut out, 1, request.node.as_deref());
    put_text(&mut out, 2, &request.type_url);
    put_names(&mut out, 3, &request.subscribe);
    put_names(&mut out, 4, &request.unsubscribe);
    for (name, version) in request.initial_versions.iter() {
        put_header(&mut out, 5, size_of_pair((name, version)));
        put_field(&mut out, 1, name.as_bytes());
        put_field(&mut out, 2, version.as_bytes());
    }
    put_text(&mut out, 6, &request.nonce);
    put_error(&mut out, 7, request.error.as_ref());
    out
}

/// Type, version and nonce; a guess.
const AROUND: usize = 256;

fn room_for(names: &Names) -> usize {
    names.iter().map(|name| field_size(name.len())).sum()
}

fn size_of_pair((name, version): (&str, &str)) -> usize {
    field_size(name.len()) + field_size(version.len())
}

fn put_names(out: &mut Vec<u8>, number: u8, names: &Names) {
    names.iter().for_each(|name| put_field(out, number, name.as_bytes()));
}

fn put_node(out: &mut Vec<u8>, number: u8, node: Option<&Node>) {
    if let Some(node) = node {
        put_field(out, number, &WireNode::from(node).encode_to_vec());
    }
}

fn put_error(out: &mut Vec<u8>, number: u8, error: Option<&ErrorDetail>) {
    if let Some(error) = error {
        let status = Status { code: error.code, message: error.message.clone() };
        put_field(out, number, &status.encode_to_vec());
    }
}

impl From<&Node> for WireNode {
    fn from(node: &Node) -> Self {
        let locality = WireLocality {
            region: node.locality.region.clone(),
            zone: node.locality.zone.clone(),
            sub_zone: node.locality.sub_zone.clone(),
        };
        let parameters = node.dynamic_parameters.iter();
        Self {
            id: node.id.clone(),
            cluster: node.cluster.clone(),
            metadata: (!node.metadata.is_empty()).then(|| struct_of(&node.metadata)),
            locality: (locality != WireLocality::default()).then_some(locality),
            build_version: String::new(),
            user_agent_name: node.user_agent_name.clone(),
            user_agent_version: node.user_agent_version.clone(),
            user_agent_build_version: None,
            client_features: node.client_features.clone(),
            dynamic_parameters: parameters
                .map(|(of, params)| (of.clone(), ContextParams { params: params.clone() }))
                .collect(),
        }
    }
}

fn struct_of(fields: &BTreeMap<String, Value>) -> Struct {
    Struct { fields: fields.iter().map(|(key, value)| (key.clone(), value.into())).collect() }
}

impl From<&Value> for WireValue {
    fn from(value: &Value) -> Self {
        let kind = match value {
            Value::Null => Kind::Null(0),
            Value::Bool(yes) => Kind::Bool(*yes),
            Value::Number(number) => Kind::Number(*number),
            Value::Text(text) => Kind::Text(text.clone()),
            Value::List(values) => {
                Kind::List(ListValue { values: values.iter().map(Self::from).collect() })
            }
            Value::Map(fields) => Kind::Struct(struct_of(fields)),
        };
        Self { kind: Some(kind) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chancery_core::Locality;
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;
    use crate::wire::{decode_delta, decode_sotw};

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            (-1e9f64..1e9).prop_map(Value::Number),
            text().prop_map(Value::Text),
        ];
        leaf.prop_recursive(4, 16, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::List),
                btree_map(text(), inner, 0..4).prop_map(Value::Map),
            ]
        })
    }

    fn text() -> impl Strategy<Value = String> {
        "[a-z*ä/:]{0,6}"
    }

    prop_compose! {
        fn node()(
            (id, cluster, region, zone, sub_zone) in (text(), text(), text(), text(), text()),
            metadata in btree_map(text(), value(), 0..4),
            (user_agent_name, user_agent_version) in (text(), "[0-9.a-z]{0,6}"),
            client_features in vec(text(), 0..3),
            dynamic_parameters in btree_map(text(), btree_map(text(), text(), 0..3), 0..3),
        ) -> Arc<Node> {
            let locality = Locality { region, zone, sub_zone };
            Arc::new(Node { id, cluster, locality, metadata, user_agent_name, user_agent_version,
                client_features, dynamic_parameters })
        }
    }

    fn error() -> impl Strategy<Value = Option<ErrorDetail>> {
        let error = (any::<i32>(), text());
        proptest::option::of(error.prop_map(|(code, message)| ErrorDetail { code, message }))
    }

    fn names() -> impl Strategy<Value = Names> {
        vec(text(), 0..5).prop_map(|names| names.into_iter().collect())
    }

    proptest! {
        #[test]
        fn a_server_reads_what_a_client_wrote(
            node in proptest::option::of(node()),
            (type_url, version, nonce) in (text(), text(), text()),
            (names, unsubscribe) in (names(), names()),
            held in vec((text(), text()), 0..4),
            error in error(),
        ) {
            let sotw = SotwRequest {
                node: node.clone(), type_url: type_url.clone().into(), version: version.into(),
                nonce: nonce.clone().into(), names: names.clone(), error: error.clone(),
            };
            let bytes = encode_request(&Request::Sotw(sotw.clone()));
            prop_assert_eq!(decode_sotw(&bytes).unwrap(), sotw);
            let delta = DeltaRequest {
                node, type_url: type_url.into(), nonce: nonce.into(), subscribe: names,
                unsubscribe, initial_versions: held.into_iter().collect(), error,
            };
            let bytes = encode_request(&Request::Delta(delta.clone()));
            prop_assert_eq!(decode_delta(&bytes).unwrap(), delta);
        }
    }
}
