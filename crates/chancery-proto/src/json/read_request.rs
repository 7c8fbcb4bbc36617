//! Reading a `DiscoveryRequest` in proto3 JSON
//! ([S-019](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions)).
//!
//! Both spellings of every key are read and unknown keys are ignored. The mapping lets `null` stand
//! for every default and accepts numbers as text. As on the gRPC wire, only the fields that the
//! core uses are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::{ErrorDetail, Locality, Node, SotwRequest, Value};
use serde::Deserialize;
use serde_json::Value as Json;

use super::JsonError;

/// Reads the body of a REST poll.
///
/// # Errors
/// Fails if the text is not JSON, or if a key has a value of the wrong type.
pub fn request_from_json(text: &[u8]) -> Result<SotwRequest, JsonError> {
    let body: JsonRequest = serde_json::from_slice(text).map_err(JsonError::Request)?;
    let names = body.resource_names.unwrap_or_default();
    let locators = body.resource_locators.unwrap_or_default();
    let located = locators.into_iter().map(|locator| locator.name.unwrap_or_default());
    Ok(SotwRequest {
        node: body.node.map(|node| Arc::new(node.into())),
        type_url: body.type_url.unwrap_or_default().into(),
        version: body.version_info.unwrap_or_default().into(),
        nonce: body.response_nonce.unwrap_or_default().into(),
        names: names.into_iter().chain(located).collect(),
        error: body.error_detail.map(ErrorDetail::from),
    })
}

#[derive(Deserialize)]
struct JsonRequest {
    #[serde(alias = "versionInfo")]
    version_info: Option<String>,
    node: Option<JsonNode>,
    #[serde(alias = "resourceNames")]
    resource_names: Option<Vec<String>>,
    #[serde(alias = "resourceLocators")]
    resource_locators: Option<Vec<JsonLocator>>,
    #[serde(alias = "typeUrl")]
    type_url: Option<String>,
    #[serde(alias = "responseNonce")]
    response_nonce: Option<String>,
    #[serde(alias = "errorDetail")]
    error_detail: Option<JsonStatus>,
}

#[derive(Deserialize)]
pub(crate) struct JsonLocator {
    pub(crate) name: Option<String>,
}

#[derive(Deserialize)]
pub(crate) struct JsonStatus {
    code: Option<JsonNumber>,
    message: Option<String>,
}

#[derive(Deserialize)]
struct JsonNode {
    id: Option<String>,
    cluster: Option<String>,
    metadata: Option<BTreeMap<String, Json>>,
    locality: Option<JsonLocality>,
    #[serde(alias = "buildVersion")]
    build_version: Option<String>,
    #[serde(alias = "userAgentName")]
    user_agent_name: Option<String>,
    #[serde(alias = "userAgentVersion")]
    user_agent_version: Option<String>,
    #[serde(alias = "userAgentBuildVersion")]
    user_agent_build_version: Option<JsonBuildVersion>,
    #[serde(alias = "clientFeatures")]
    client_features: Option<Vec<String>>,
    #[serde(alias = "dynamicParameters")]
    dynamic_parameters: Option<BTreeMap<String, JsonContextParams>>,
}

#[derive(Default, Deserialize)]
struct JsonLocality {
    region: Option<String>,
    zone: Option<String>,
    #[serde(alias = "subZone")]
    sub_zone: Option<String>,
}

#[derive(Deserialize)]
struct JsonBuildVersion {
    version: Option<JsonSemanticVersion>,
}

#[derive(Deserialize)]
struct JsonSemanticVersion {
    #[serde(alias = "majorNumber")]
    major_number: Option<JsonNumber>,
    #[serde(alias = "minorNumber")]
    minor_number: Option<JsonNumber>,
    patch: Option<JsonNumber>,
}

#[derive(Deserialize)]
struct JsonContextParams {
    params: Option<BTreeMap<String, String>>,
}

/// An integer, as a number or as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum JsonNumber {
    Number(i64),
    Text(String),
}

impl JsonNumber {
    fn value(&self) -> i64 {
        match self {
            Self::Number(number) => *number,
            Self::Text(text) => text.parse().unwrap_or(0),
        }
    }
}

impl From<JsonNode> for Node {
    fn from(node: JsonNode) -> Self {
        let user_agent_version = node.version();
        let locality = node.locality.unwrap_or_default();
        let metadata = node.metadata.unwrap_or_default().into_iter();
        let parameters = node.dynamic_parameters.unwrap_or_default().into_iter();
        Self {
            id: node.id.unwrap_or_default(),
            cluster: node.cluster.unwrap_or_default(),
            locality: Locality {
                region: locality.region.unwrap_or_default(),
                zone: locality.zone.unwrap_or_default(),
                sub_zone: locality.sub_zone.unwrap_or_default(),
            },
            metadata: metadata.map(|(key, value)| (key, value_of(value))).collect(),
            user_agent_name: node.user_agent_name.unwrap_or_default(),
            user_agent_version,
            client_features: node.client_features.unwrap_or_default(),
            dynamic_parameters: parameters
                .map(|(of, context)| (of, context.params.unwrap_or_default()))
                .collect(),
        }
    }
}

impl JsonNode {
    fn version(&self) -> String {
        let build = self.user_agent_build_version.as_ref();
        if let Some(version) = build.and_then(|build| build.version.as_ref()) {
            let part = |number: &Option<JsonNumber>| number.as_ref().map_or(0, JsonNumber::value);
            let minor = part(&version.minor_number);
            return format!("{}.{minor}.{}", part(&version.major_number), part(&version.patch));
        }
        let v2 = || self.build_version.as_deref().and_then(|build| build.split('/').nth(1));
        self.user_agent_version.as_deref().or_else(v2).unwrap_or_default().to_owned()
    }
}

impl From<JsonStatus> for ErrorDetail {
    fn from(status: JsonStatus) -> Self {
        let code = status.code.map_or(0, |code| code.value());
        Self { code: i32::try_from(code).unwrap_or(0), message: status.message.unwrap_or_default() }
    }
}

fn value_of(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(yes) => Value::Bool(yes),
        Json::Number(number) => Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Value::Text(text),
        Json::Array(values) => Value::List(values.into_iter().map(value_of).collect()),
        Json::Object(fields) => {
            Value::Map(fields.into_iter().map(|(key, value)| (key, value_of(value))).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_mean_the_same() {
        // S-019
        let camel = br#"{"versionInfo": "v", "resourceNames": ["a"], "typeUrl": "t",
            "responseNonce": "n", "errorDetail": {"code": 3, "message": "m"},
            "node": {"id": "i", "userAgentName": "envoy", "clientFeatures": ["f"],
              "userAgentBuildVersion": {"version": {"majorNumber": 1, "minorNumber": 40}},
              "locality": {"subZone": "s"}, "dynamicParameters": {"t": {"params": {"k": "v"}}}}}"#;
        let snake = br#"{"version_info": "v", "resource_names": ["a"], "type_url": "t",
            "response_nonce": "n", "error_detail": {"code": "3", "message": "m"},
            "node": {"id": "i", "user_agent_name": "envoy", "client_features": ["f"],
              "user_agent_build_version": {"version": {"major_number": 1, "minor_number": "40"}},
              "locality": {"sub_zone": "s"},
              "dynamic_parameters": {"t": {"params": {"k": "v"}}}}}"#;
        let camel = request_from_json(camel).unwrap();
        assert_eq!(camel, request_from_json(snake).unwrap());
        assert_eq!(camel.error.as_ref().unwrap().code, 3);
        let node = camel.node.unwrap();
        assert_eq!(node.user_agent_version, "1.40.0");
        assert_eq!(node.locality.sub_zone, "s");
    }

    #[test]
    fn unknown_keys_are_ignored_and_null_is_a_default() {
        // S-019
        let request = br#"{"later": {"x": 1}, "version_info": null, "node": {"id": "i",
            "extensions": [{"name": "e", "disabled": "?"}], "metadata": {"a": [1, true, null]}}}"#;
        let request = request_from_json(request).unwrap();
        assert_eq!(&*request.version, "");
        let list = vec![Value::Number(1.0), Value::Bool(true), Value::Null];
        assert_eq!(request.node.unwrap().metadata["a"], Value::List(list));
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        // S-018
        for text in ["", "{", "[]", "1", r#"{"resource_names": "a"}"#, "\u{1}"] {
            assert!(request_from_json(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!(r#"{{"node": {{"metadata": {{"a": {}"#, "[".repeat(10_000));
        assert!(request_from_json(deep.as_bytes()).is_err());
    }
}
