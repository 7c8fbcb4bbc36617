//! Reading a `DiscoveryRequest` in proto3 JSON
//! ([S-019](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions)).
//!
//! Both spellings of every key are read and unknown keys are ignored. The mapping lets `null` stand
//! for every default and accepts numbers as text. As on the gRPC wire, only the fields that the
//! core uses are read.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use chancery_core::server::RequestLimits;
use chancery_core::{ErrorDetail, Locality, Names, Node, SotwRequest, Value};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::Value as Json;
use serde_json::value::RawValue;

use super::JsonError;
use crate::request_size::{RequestSize, RequestTooLarge};

/// Reads the body of a REST poll, of any size.
///
/// # Errors
/// Fails if the text is not JSON, or if a key has a value of the wrong type.
pub fn request_from_json(text: &[u8]) -> Result<SotwRequest, JsonError> {
    request_from_json_within(text, &RequestLimits::NONE)
}

/// Reads the body of a REST poll that keeps to the limits.
///
/// # Errors
/// As [`request_from_json`], and if the request exceeds a limit.
pub fn request_from_json_within(
    text: &[u8],
    limits: &RequestLimits,
) -> Result<SotwRequest, JsonError> {
    let body: JsonRequest<'_> = serde_json::from_slice(text).map_err(JsonError::Request)?;
    let mut size = RequestSize::new(limits);
    let mut names = Names::default();
    push_names::<JsonName<'_>>(&mut names, body.resource_names, &mut size)?;
    push_names::<JsonLocator>(&mut names, body.resource_locators, &mut size)?;
    let type_url = body.type_url.unwrap_or_default();
    size.check_type_url(&type_url)?;
    Ok(SotwRequest {
        node: body.node.map(|node| read_node(node, &mut size)).transpose()?.flatten(),
        type_url: type_url.into(),
        version: body.version_info.unwrap_or_default().into(),
        nonce: body.response_nonce.unwrap_or_default().into(),
        names,
        error: body.error_detail.map(ErrorDetail::from),
    })
}

/// Reads a node, unless its text is too large already.
fn read_node(text: &RawValue, size: &mut RequestSize) -> Result<Option<Arc<Node>>, JsonError> {
    size.add_node(text.get().len())?;
    let node: Option<JsonNode> = serde_json::from_str(text.get()).map_err(JsonError::Request)?;
    Ok(node.map(|node| Arc::new(node.into())))
}

/// Adds the names of a list one by one, because a list of values would take many times its text.
fn push_names<'a, T: Deserialize<'a> + Named>(
    names: &mut Names,
    list: Option<&'a RawValue>,
    size: &mut RequestSize,
) -> Result<(), JsonError> {
    let Some(list) = list else { return Ok(()) };
    let mut reader = NamesReader { names, size, too_large: None, kind: PhantomData::<T> };
    let mut text = serde_json::Deserializer::from_str(list.get());
    let read = text.deserialize_option(&mut reader);
    match reader.too_large {
        Some(too_large) => Err(too_large.into()),
        None => read.map_err(JsonError::Request),
    }
}

/// Reads a list of names, or of values that have a name, or `null`.
struct NamesReader<'a, T> {
    names: &'a mut Names,
    size: &'a mut RequestSize,
    too_large: Option<RequestTooLarge>,
    kind: PhantomData<T>,
}

impl<'a, T: Deserialize<'a> + Named> Visitor<'a> for &mut NamesReader<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names")
    }

    fn visit_none<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'a>>(self, text: D) -> Result<(), D::Error> {
        text.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(named) = list.next_element::<T>()? {
            let name = named.name();
            if let Err(too_large) = self.size.add_name(count, name, "") {
                self.too_large = Some(too_large);
                return Err(A::Error::custom("a limit of the server"));
            }
            self.names.push(name);
            count += 1;
        }
        Ok(())
    }
}

/// A value that has a name.
trait Named {
    fn name(&self) -> &str;
}

/// A name. It is a part of the text unless it has escapes.
#[derive(serde::Deserialize)]
struct JsonName<'a>(#[serde(borrow)] Cow<'a, str>);

impl Named for JsonName<'_> {
    fn name(&self) -> &str {
        &self.0
    }
}

impl Named for JsonLocator {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

#[derive(serde::Deserialize)]
struct JsonRequest<'a> {
    #[serde(alias = "versionInfo")]
    version_info: Option<String>,
    #[serde(borrow)]
    node: Option<&'a RawValue>,
    #[serde(alias = "resourceNames", borrow)]
    resource_names: Option<&'a RawValue>,
    #[serde(alias = "resourceLocators", borrow)]
    resource_locators: Option<&'a RawValue>,
    #[serde(alias = "typeUrl")]
    type_url: Option<String>,
    #[serde(alias = "responseNonce")]
    response_nonce: Option<String>,
    #[serde(alias = "errorDetail")]
    error_detail: Option<JsonStatus>,
}

#[derive(serde::Deserialize)]
pub(crate) struct JsonLocator {
    pub(crate) name: Option<String>,
}

#[derive(serde::Deserialize)]
pub(crate) struct JsonStatus {
    code: Option<JsonNumber>,
    message: Option<String>,
}

#[derive(serde::Deserialize)]
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

#[derive(Default, serde::Deserialize)]
struct JsonLocality {
    region: Option<String>,
    zone: Option<String>,
    #[serde(alias = "subZone")]
    sub_zone: Option<String>,
}

#[derive(serde::Deserialize)]
struct JsonBuildVersion {
    version: Option<JsonSemanticVersion>,
}

#[derive(serde::Deserialize)]
struct JsonSemanticVersion {
    #[serde(alias = "majorNumber")]
    major_number: Option<JsonNumber>,
    #[serde(alias = "minorNumber")]
    minor_number: Option<JsonNumber>,
    patch: Option<JsonNumber>,
}

#[derive(serde::Deserialize)]
struct JsonContextParams {
    params: Option<BTreeMap<String, String>>,
}

/// An integer, as a number or as text.
#[derive(serde::Deserialize)]
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
            metadata: Arc::new(metadata.map(|(key, value)| (key, value_of(value))).collect()),
            user_agent_name: node.user_agent_name.unwrap_or_default(),
            user_agent_version,
            client_features: node.client_features.unwrap_or_default().into(),
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
    fn a_request_at_a_limit_is_read_and_one_past_it_is_refused() {
        // S-110
        let limits = |of: fn(&mut RequestLimits)| {
            let mut limits = RequestLimits::NONE;
            of(&mut limits);
            limits
        };
        let text = br#"{"resource_names": ["aa", "b\u0041"], "resource_locators": [{"name": "c"}],
            "type_url": "t", "node": {"id": "i"}}"#;
        let names = request_from_json(text).unwrap().names;
        assert_eq!(names.iter().collect::<Vec<_>>(), ["aa", "bA", "c"]);
        for (fits, tight) in [
            (limits(|it| it.max_names = 2), limits(|it| it.max_names = 1)),
            (limits(|it| it.max_name_length = 2), limits(|it| it.max_name_length = 1)),
            (limits(|it| it.max_name_bytes = 5), limits(|it| it.max_name_bytes = 4)),
            (limits(|it| it.max_node_bytes = 11), limits(|it| it.max_node_bytes = 10)),
        ] {
            assert!(request_from_json_within(text, &fits).is_ok(), "{fits:?}");
            let error = request_from_json_within(text, &tight).unwrap_err();
            assert!(matches!(error, JsonError::TooLarge(_)), "{tight:?}: {error}");
        }
        for nothing in [r#"{"resource_names": null, "node": null}"#, "{}"] {
            let request = request_from_json(nothing.as_bytes()).unwrap();
            assert_eq!(request, SotwRequest::default());
        }
    }

    #[test]
    fn a_name_is_copied_only_to_undo_its_escapes() {
        let names: Vec<JsonName<'_>> = serde_json::from_str(r#"["a", "b\u0041"]"#).unwrap();
        assert!(matches!(names[0].0, Cow::Borrowed("a")));
        assert_eq!(names[1].name(), "bA");
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        // S-018
        for text in ["", "{", "[]", "1", r#"{"resource_names": "a"}"#, r#"{"node": 1}"#, "\u{1}"] {
            assert!(request_from_json(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!(r#"{{"node": {{"metadata": {{"a": {}"#, "[".repeat(10_000));
        assert!(request_from_json(deep.as_bytes()).is_err());
    }
}
