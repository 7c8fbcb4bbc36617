//! The discovery messages as proto3 JSON, as REST uses it
//! ([S-019](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions)).
//! A client reads responses with [`crate::reply`].
//!
//! Bodies are written by their descriptors: keys in lowerCamelCase, each `Any` with `@type`, and
//! 64-bit integers as text. Numbers that JSON does not have (`Infinity`, `NaN`) are text too. A
//! number without a fraction is written without one (`1`, not `1.0`), also in a `Struct`: parsers
//! see no difference, and people read it more easily.
//!
//! Requests are read and written without descriptors, field by field. They are not shared with the
//! derived messages of [`crate::wire`]: JSON has two spellings of each key, `null` for every
//! default and numbers as text, and a client writes only what is set.
//!
//! Responses contain secrets, because they are for clients that may have them. [`crate::show`]
//! writes resources for people.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::{Resource, TypeUrl};
use prost_reflect::DynamicMessage;
use serde_json::{Map, Number, Value, json};

use crate::schema::Schema;

mod client_status;
mod depth;
mod read_node;
mod read_request;
mod read_value;
mod value;
mod write_request;
pub use client_status::{client_config_to_json, client_status_request_from_json};
pub(crate) use read_request::{JsonLocator, JsonStatus};
pub use read_request::{request_from_json, request_from_json_within};
pub(crate) use value::{number, to_value};
pub use write_request::request_to_json;

/// The reason why a message cannot be read from or written as JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The body of a request is not valid; the client is at fault.
    #[error("the body is no `DiscoveryRequest` in JSON")]
    Request(#[source] serde_json::Error),
    /// The question for the status of clients is not valid; whoever asks is at fault.
    #[error("the body is no `ClientStatusRequest` in JSON")]
    StatusRequest(#[source] serde_json::Error),
    /// The matchers in a question for the status of clients mean nothing, or exceed their bounds.
    #[error(transparent)]
    Matchers(#[from] crate::wire::DecodeError),
    /// The request exceeds a limit of the server.
    #[error(transparent)]
    TooLarge(#[from] crate::RequestTooLarge),
    /// The answer to a poll is not valid; the server is at fault.
    #[error("the body is no `DiscoveryResponse` in JSON")]
    Response(#[source] serde_json::Error),
    /// The type has no descriptor, so its JSON form is unknown. A descriptor set would help.
    #[error("resource `{name}` is of type `{type_url}`, of which no descriptor is known")]
    UnknownType {
        /// The name of the resource.
        name: String,
        /// Its type.
        type_url: TypeUrl,
    },
    /// The body is not of its type; the source of the resource is at fault.
    #[error("the body of resource `{name}` is no `{type_url}`")]
    Body {
        /// The name of the resource.
        name: String,
        /// The type it should be of.
        type_url: TypeUrl,
        /// The error of the decoder.
        source: prost::DecodeError,
    },
    /// A part of the body cannot be written, for example an `Any` of an unknown type.
    #[error("resource `{name}` cannot be written as JSON")]
    Unwritable {
        /// The name of the resource.
        name: String,
        /// The error of the serializer.
        source: serde_json::Error,
    },
    /// The body nests `Any`s only to exhaust its reader.
    #[error("resource `{name}` nests more than {limit} levels of `Any`")]
    TooDeep {
        /// The name of the resource.
        name: String,
        /// The number of levels that are read.
        limit: usize,
    },
}

/// Writes a `DiscoveryResponse` with its secrets, because it is for a client that may have them.
///
/// # Errors
/// Fails if a resource is of an unknown type or cannot be written.
pub fn response_to_json(
    schema: &Schema,
    type_url: &TypeUrl,
    version: &str,
    control_plane: &str,
    resources: &[Arc<Resource>],
) -> Result<Vec<u8>, JsonError> {
    let mut text = response_head(control_plane).to_vec();
    for (at, resource) in resources.iter().enumerate() {
        text.extend_from_slice(if at == 0 { b"" } else { b"," });
        text.extend_from_slice(&resource_to_json(schema, type_url, resource)?);
    }
    text.extend_from_slice(&response_tail(type_url, version));
    Ok(text)
}

/// The beginning of a `DiscoveryResponse`, up to its first resource. The resources come next
/// ([`resource_to_json`]), with commas between them, and then the end ([`response_tail`]).
pub fn response_head(control_plane: &str) -> Bytes {
    let control_plane = json!({ "identifier": control_plane });
    format!("{{\"controlPlane\":{control_plane},\"resources\":[").into()
}

/// The end of a `DiscoveryResponse`, behind its last resource.
pub fn response_tail(type_url: &TypeUrl, version: &str) -> Bytes {
    let (type_url, version) = (Value::from(type_url.as_str()), Value::from(version));
    format!("],\"typeUrl\":{type_url},\"versionInfo\":{version}}}").into()
}

/// Writes a resource as it is in a `DiscoveryResponse`, with its secrets. The text is kept with the
/// resource, for all responses that contain it.
///
/// # Errors
/// Fails if the resource is of an unknown type or cannot be written.
pub fn resource_to_json(
    schema: &Schema,
    type_url: &TypeUrl,
    resource: &Resource,
) -> Result<Bytes, JsonError> {
    resource.json(type_url, || Ok(any_to_json(schema, type_url, resource)?.to_string().into()))
}

/// Writes one resource as the JSON of an `Any`.
fn any_to_json(
    schema: &Schema,
    type_url: &TypeUrl,
    resource: &Resource,
) -> Result<Value, JsonError> {
    body_to_json(schema, type_url, resource.name(), resource.body())
}

/// Writes the body of a resource as the JSON of an `Any`.
fn body_to_json(
    schema: &Schema,
    type_url: &TypeUrl,
    name: &(impl Display + ?Sized),
    body: &Bytes,
) -> Result<Value, JsonError> {
    let name = || name.to_string();
    let descriptor = schema
        .message(type_url.as_str())
        .ok_or_else(|| JsonError::UnknownType { name: name(), type_url: type_url.clone() })?;
    let message = DynamicMessage::decode(descriptor, body.clone())
        .map_err(|source| JsonError::Body { name: name(), type_url: type_url.clone(), source })?;
    if depth::is_too_deep(&message) {
        return Err(JsonError::TooDeep { name: name(), limit: crate::any::MAX_DEPTH });
    }
    let json =
        to_value(&message).map_err(|source| JsonError::Unwritable { name: name(), source })?;
    Ok(with_type(type_url, tidy_numbers(json)))
}

/// The JSON of an `Any`. Types whose JSON is not an object have it under `value`.
fn with_type(type_url: &TypeUrl, json: Value) -> Value {
    let mut fields = match json {
        Value::Object(fields) if !type_url.message_name().starts_with("google.protobuf.") => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    fields.insert("@type".to_owned(), type_url.as_str().into());
    Value::Object(fields)
}

/// Writes numbers without a fraction as integers.
pub(crate) fn tidy_numbers(json: Value) -> Value {
    match json {
        Value::Number(number) => Value::Number(tidy_number(number)),
        Value::Array(values) => values.into_iter().map(tidy_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, tidy_numbers(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => json,
    }
}

/// Turns a number into an integer, as far as a double holds integers exactly.
pub(crate) fn tidy_number(number: Number) -> Number {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            Number::from(float as i64)
        }
        _ => number,
    }
}

#[cfg(test)]
mod tests;
