//! The discovery messages as proto3 JSON (S-019); responses as a client reads them are in
//! [`crate::reply`].
//!
//! Bodies are decoded by their descriptors: keys in lowerCamelCase, each `Any` with `@type`, 64-bit
//! integers as text, and so is what JSON has no number for (`Infinity`, `NaN`). A number without a
//! fraction is written without one (`1`, not `1.0`), also in a `Struct`, where that makes no
//! difference to a parser and all the difference to a reader.
//!
//! Secrets are in it: a response is for a client that may have them. What people read is in
//! [`crate::show`].

use std::sync::Arc;

use chancery_core::{Resource, TypeUrl};
use prost_reflect::DynamicMessage;
use serde_json::{Map, Number, Value, json};

use crate::schema::Schema;

mod depth;
mod read_request;
mod value;
mod write_request;
pub(crate) use read_request::JsonStatus;
pub use read_request::request_from_json;
pub(crate) use value::{number, to_value};
pub use write_request::request_to_json;

/// Why a message cannot be read from or written as JSON.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The client's fault: the body of a request.
    #[error("the body is no `DiscoveryRequest` in JSON")]
    Request(#[source] serde_json::Error),
    /// The server's fault: the answer to a poll.
    #[error("the body is no `DiscoveryResponse` in JSON")]
    Response(#[source] serde_json::Error),
    /// Nobody told what the type looks like: a descriptor set would.
    #[error("resource `{name}` is of type `{type_url}`, of which no descriptor is known")]
    UnknownType {
        /// Which resource.
        name: String,
        /// Its type.
        type_url: TypeUrl,
    },
    /// The source's fault: the body is not of its type.
    #[error("the body of resource `{name}` is no `{type_url}`")]
    Body {
        /// Which resource.
        name: String,
        /// The type it should be of.
        type_url: TypeUrl,
        /// What is wrong.
        source: prost::DecodeError,
    },
    /// Something in the body cannot be written, for example an `Any` of a type nobody knows.
    #[error("resource `{name}` cannot be written as JSON")]
    Unwritable {
        /// Which resource.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// A body that only serves to exhaust its reader.
    #[error("resource `{name}` nests more than {limit} levels of `Any`")]
    TooDeep {
        /// Which resource.
        name: String,
        /// How many levels are read.
        limit: usize,
    },
}

/// Writes a `DiscoveryResponse`, secrets included: it is for a client that may have them.
///
/// # Errors
/// When a resource is of an unknown type or cannot be written.
pub fn response_to_json(
    schema: &Schema,
    type_url: &TypeUrl,
    version: &str,
    control_plane: &str,
    resources: &[Arc<Resource>],
) -> Result<Vec<u8>, JsonError> {
    let resources: Result<Vec<_>, _> =
        resources.iter().map(|resource| any_to_json(schema, type_url, resource)).collect();
    let response = json!({
        "versionInfo": version,
        "typeUrl": type_url.as_str(),
        "resources": resources?,
        "controlPlane": { "identifier": control_plane },
    });
    Ok(response.to_string().into_bytes())
}

/// One resource as the JSON of an `Any`.
fn any_to_json(
    schema: &Schema,
    type_url: &TypeUrl,
    resource: &Resource,
) -> Result<Value, JsonError> {
    let name = || resource.name().to_string();
    let descriptor = schema
        .message(type_url.as_str())
        .ok_or_else(|| JsonError::UnknownType { name: name(), type_url: type_url.clone() })?;
    let message = DynamicMessage::decode(descriptor, resource.body().clone())
        .map_err(|source| JsonError::Body { name: name(), type_url: type_url.clone(), source })?;
    if depth::is_too_deep(&message) {
        return Err(JsonError::TooDeep { name: name(), limit: crate::any::MAX_DEPTH });
    }
    let json =
        to_value(&message).map_err(|source| JsonError::Unwritable { name: name(), source })?;
    Ok(with_type(type_url, tidy_numbers(json)))
}

/// The JSON of an `Any`. Types whose JSON is no object have it under `value`.
fn with_type(type_url: &TypeUrl, json: Value) -> Value {
    let mut fields = match json {
        Value::Object(fields) if !type_url.message_name().starts_with("google.protobuf.") => fields,
        other => Map::from_iter([("value".to_owned(), other)]),
    };
    fields.insert("@type".to_owned(), type_url.as_str().into());
    Value::Object(fields)
}

/// Writes numbers without a fraction as integers.
fn tidy_numbers(json: Value) -> Value {
    match json {
        Value::Number(number) => Value::Number(tidy_number(number)),
        Value::Array(values) => values.into_iter().map(tidy_numbers).collect(),
        Value::Object(fields) => {
            fields.into_iter().map(|(key, value)| (key, tidy_numbers(value))).collect()
        }
        Value::Null | Value::Bool(_) | Value::String(_) => json,
    }
}

/// An integer, as far as a double holds integers exactly.
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
