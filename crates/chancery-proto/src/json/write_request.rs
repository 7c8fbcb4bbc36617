//! Writing a REST poll
//! ([C-044](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions)).
//!
//! Fields at their default are left out, and the others have the names of their definition
//! (`version_info`). Every parser of protobuf's JSON reads these names. Servers without such a
//! parser know no other names, because Envoy writes these.

use std::collections::BTreeMap;

use chancery_core::{ErrorDetail, Node, SotwRequest, Value};
use serde_json::{Map, Number, Value as Json, json};

use super::tidy_number;

/// Writes the body of a poll.
pub fn request_to_json(request: &SotwRequest) -> Vec<u8> {
    let mut fields = Map::new();
    put_text(&mut fields, "version_info", &request.version);
    put(&mut fields, "node", request.node.as_deref().map(node));
    put(&mut fields, "resource_names", list(request.names.iter()));
    put_text(&mut fields, "type_url", &request.type_url);
    put_text(&mut fields, "response_nonce", &request.nonce);
    put(&mut fields, "error_detail", request.error.as_ref().map(error));
    Json::Object(fields).to_string().into_bytes()
}

fn node(node: &Node) -> Json {
    let mut locality = Map::new();
    put_text(&mut locality, "region", &node.locality.region);
    put_text(&mut locality, "zone", &node.locality.zone);
    put_text(&mut locality, "sub_zone", &node.locality.sub_zone);
    let parameters = node
        .dynamic_parameters
        .iter()
        .map(|(of, params)| (of.clone(), json!({ "params": params })));
    let mut fields = Map::new();
    put_text(&mut fields, "id", &node.id);
    // Envoy does not poll without a cluster, so servers may count on the field.
    put(&mut fields, "cluster", Some(node.cluster.as_str().into()));
    put(&mut fields, "metadata", unless_empty(map(&node.metadata)));
    put(&mut fields, "locality", unless_empty(locality));
    put_text(&mut fields, "user_agent_name", &node.user_agent_name);
    put_text(&mut fields, "user_agent_version", &node.user_agent_version);
    put(&mut fields, "client_features", list(node.client_features.iter().map(String::as_str)));
    put(&mut fields, "dynamic_parameters", unless_empty(parameters.collect()));
    Json::Object(fields)
}

fn error(error: &ErrorDetail) -> Json {
    let mut fields = Map::new();
    put(&mut fields, "code", (error.code != 0).then(|| error.code.into()));
    put_text(&mut fields, "message", &error.message);
    put(&mut fields, "details", Some(json!([])));
    Json::Object(fields)
}

fn map(fields: &BTreeMap<String, Value>) -> Map<String, Json> {
    fields.iter().map(|(key, value)| (key.clone(), value_of(value))).collect()
}

fn value_of(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Bool(is) => Json::Bool(*is),
        // JSON has no infinity. A value that came from JSON is always finite.
        Value::Number(number) => {
            Number::from_f64(*number).map_or(Json::Null, |number| tidy_number(number).into())
        }
        Value::Text(text) => text.as_str().into(),
        Value::List(values) => values.iter().map(value_of).collect(),
        Value::Map(fields) => Json::Object(map(fields)),
    }
}

fn put(fields: &mut Map<String, Json>, key: &str, value: Option<Json>) {
    if let Some(value) = value {
        fields.insert(key.to_owned(), value);
    }
}

fn put_text(fields: &mut Map<String, Json>, key: &str, text: &str) {
    put(fields, key, (!text.is_empty()).then(|| text.into()));
}

fn list<'t>(texts: impl ExactSizeIterator<Item = &'t str>) -> Option<Json> {
    (texts.len() > 0).then(|| texts.map(Json::from).collect())
}

fn unless_empty(fields: Map<String, Json>) -> Option<Json> {
    (!fields.is_empty()).then_some(Json::Object(fields))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::json::request_from_json;
    use crate::samples::sotw_request;

    proptest! {
        /// C-044
        #[test]
        fn a_server_reads_what_a_client_wrote(request in sotw_request()) {
            prop_assert_eq!(request_from_json(&request_to_json(&request)).unwrap(), request);
        }
    }

    /// C-044
    #[test]
    fn what_is_at_its_default_is_left_out() {
        let written =
            |request| -> Json { serde_json::from_slice(&request_to_json(&request)).unwrap() };
        assert_eq!(written(SotwRequest::default()), json!({}));
        let metadata = std::sync::Arc::new([("one".to_owned(), Value::Number(1.0))].into());
        let node = Node { id: "i".to_owned(), metadata, ..Node::default() };
        let request = SotwRequest {
            node: Some(node.into()),
            names: ["a"].iter().collect(),
            error: Some(ErrorDetail { code: 3, message: "m".to_owned() }),
            ..SotwRequest::default()
        };
        let expected = json!({"node": {"id": "i", "cluster": "", "metadata": {"one": 1}},
            "resource_names": ["a"], "error_detail": {"code": 3, "message": "m", "details": []}});
        assert_eq!(written(request), expected);
    }
}
