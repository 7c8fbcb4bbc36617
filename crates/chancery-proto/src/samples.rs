//! Generators of parts of requests, for the property tests of readers and writers.

use std::sync::Arc;

use chancery_core::{ErrorDetail, Locality, Names, Node, SotwRequest, Value};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use prost::Message;

/// A `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyMessage {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        // These numbers are exact in decimal and in binary digits: `serde_json` may miss the last
        // bit of others.
        any::<i32>().prop_map(|number| Value::Number(f64::from(number) / 8.0)),
        text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::List),
            btree_map(text(), inner, 0..4).prop_map(Value::Map),
        ]
    })
}

pub(crate) fn text() -> impl Strategy<Value = String> {
    "[a-z*ä/:]{0,6}"
}

prop_compose! {
    pub(crate) fn node()(
        (id, cluster, region, zone, sub_zone) in (text(), text(), text(), text(), text()),
        metadata in btree_map(text(), value(), 0..4),
        (user_agent_name, user_agent_version) in (text(), "[0-9.a-z]{0,6}"),
        client_features in vec(text(), 0..3),
        dynamic_parameters in btree_map(text(), btree_map(text(), text(), 0..3), 0..3),
    ) -> Arc<Node> {
        let locality = Locality { region, zone, sub_zone };
        Arc::new(Node { id, cluster, locality, metadata: Arc::new(metadata), user_agent_name,
            user_agent_version, client_features: client_features.into(), dynamic_parameters })
    }
}

pub(crate) fn error() -> impl Strategy<Value = Option<ErrorDetail>> {
    let error = (any::<i32>(), text());
    proptest::option::of(error.prop_map(|(code, message)| ErrorDetail { code, message }))
}

pub(crate) fn names() -> impl Strategy<Value = Names> {
    vec(text(), 0..5).prop_map(|names| names.into_iter().collect())
}

prop_compose! {
    pub(crate) fn sotw_request()(
        node in proptest::option::of(node()),
        (type_url, version, nonce) in (text(), text(), text()),
        names in names(),
        error in error(),
    ) -> SotwRequest {
        let (type_url, version, nonce) = (type_url.into(), version.into(), nonce.into());
        SotwRequest { node, type_url, version, nonce, names, error }
    }
}
