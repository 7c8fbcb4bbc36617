//! Reading a `DiscoveryRequest` in proto3 JSON
//! ([S-019](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions)).
//!
//! Both spellings of every key are read and unknown keys are ignored. The mapping lets `null` stand
//! for every default and accepts numbers as text. As on the gRPC wire, only the fields that the
//! core uses are read. Not here: the node (`read_node`).

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use chancery_core::server::RequestLimits;
use chancery_core::{ErrorDetail, Names, Node, SotwRequest};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::JsonError;
use super::read_node::{JsonNumber, read_node};
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
        node: body.node.map(|node| node_of(node, &mut size)).transpose()?.flatten(),
        type_url: type_url.into(),
        version: body.version_info.unwrap_or_default().into(),
        nonce: body.response_nonce.unwrap_or_default().into(),
        names,
        error: body.error_detail.map(ErrorDetail::from),
    })
}

/// Reads a node, unless its text is too large already.
fn node_of(text: &RawValue, size: &mut RequestSize) -> Result<Option<Arc<Node>>, JsonError> {
    size.add_node(text.get().len())?;
    Ok(read_node(text, size.node_memory())?.map(Arc::new))
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

impl From<JsonStatus> for ErrorDetail {
    fn from(status: JsonStatus) -> Self {
        let code = status.code.map_or(0, |code| code.value());
        Self { code: i32::try_from(code).unwrap_or(0), message: status.message.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::Value;

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
    fn a_node_that_is_large_in_memory_alone_is_refused() {
        // S-110
        let chain = format!("{}0{}", "{\"\":".repeat(100), "}".repeat(100));
        let chains = |count: usize| vec![chain.as_str(); count].join(",");
        let metadata = |count: usize| format!("\"metadata\": {{\"k\": [{}]}}", chains(count));
        let texts = |count: usize| format!("\"client_features\": [{}]", texts_of(count, 10, ""));
        let parameters = |count: usize| {
            let one = ": {\"params\": {\"\": \"\"}}";
            format!("\"dynamic_parameters\": {{{}}}", texts_of(count, 4_000, one))
        };
        let limits = RequestLimits { max_node_bytes: 100_000, ..RequestLimits::NONE };
        for (part, fits, tight) in [
            (&metadata as &dyn Fn(usize) -> String, 10, 14),
            (&texts, 10_000, 24_000),
            (&parameters, 500, 2_000),
        ] {
            let text = |count| format!("{{\"node\": {{\"id\": \"i\", {}}}}}", part(count));
            let read = |count| request_from_json_within(text(count).as_bytes(), &limits);
            assert!(read(fits).is_ok(), "{:?}", read(fits).map(drop));
            let error = RequestTooLarge::NodeMemory { limit: 800_000 };
            assert!(
                matches!(read(tight), Err(JsonError::TooLarge(found)) if found == error),
                "{:?}",
                read(tight).map(drop)
            );
        }
    }

    /// Short texts, of which so many differ, each with something behind it.
    fn texts_of(count: usize, differ: usize, behind: &str) -> String {
        let texts: Vec<_> = (0..count).map(|at| format!("\"{}\"{behind}", at % differ)).collect();
        texts.join(",")
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
