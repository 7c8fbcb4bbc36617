//! Reads the answer to a REST poll
//! ([C-044](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#rest-json-polling-subscriptions)),
//! as [`crate::json`] or another server writes it.
//!
//! Keys are read in both spellings and unknown keys are ignored. The descriptor of a body turns its
//! JSON into canonical bytes; without a descriptor the JSON has no meaning.

use bytes::Bytes;
use chancery_core::client::Response;
use chancery_core::{ErrorDetail, NameError, TypeUrl, Variant};
use prost_reflect::{DeserializeOptions, DynamicMessage};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::judge::{INVALID_TTL, Judge, RawBody, RawResource, ttl};
use super::{Reader, canonical_error};
use crate::canonical;
use crate::document::{Special, duration};
use crate::json::{JsonError, JsonLocator, JsonStatus};
use crate::resource::{is_wrapper, naming_field};
use crate::schema::Schema;

pub(super) fn read(
    reader: &Reader,
    expected: &TypeUrl,
    text: &[u8],
) -> Result<Response, JsonError> {
    let response: JsonResponse = serde_json::from_slice(text).map_err(JsonError::Response)?;
    let said = response.type_url.filter(|said| !said.is_empty());
    let type_url = said.map_or_else(|| expected.clone(), |said| TypeUrl::new(&said));
    let mut judge = Judge::new(reader, &type_url);
    for resource in response.resources.unwrap_or_default() {
        judge.add(raw_resource(&reader.schema, &resource));
    }
    let resources = judge.finish();
    let errors = response.resource_errors.unwrap_or_default().into_iter();
    Ok(Response {
        variant: Variant::Sotw,
        type_url,
        version: response.version_info.unwrap_or_default().into(),
        nonce: response.nonce.unwrap_or_default().into(),
        resources,
        removed: Vec::new(),
        errors: errors.map(|error| canonical_error(error.into())).collect(),
    })
}

#[derive(Deserialize)]
struct JsonResponse {
    #[serde(alias = "versionInfo")]
    version_info: Option<String>,
    #[serde(alias = "typeUrl")]
    type_url: Option<String>,
    nonce: Option<String>,
    resources: Option<Vec<Value>>,
    #[serde(alias = "resourceErrors")]
    resource_errors: Option<Vec<JsonResourceError>>,
}

#[derive(Deserialize)]
struct JsonResourceError {
    #[serde(alias = "resourceName")]
    resource_name: Option<JsonLocator>,
    #[serde(alias = "errorDetail")]
    error_detail: Option<JsonStatus>,
}

impl From<JsonResourceError> for NameError {
    fn from(error: JsonResourceError) -> Self {
        let name = error.resource_name.and_then(|located| located.name).unwrap_or_default();
        let error = error.error_detail.map(ErrorDetail::from).unwrap_or_default();
        Self { name: name.into(), error }
    }
}

/// Reads an `Any` that contains a resource, or a wrapper around one
/// ([C-036](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#sotw-ttl)).
fn raw_resource<'j>(schema: &Schema, any: &'j Value) -> Result<RawResource<'j>, String> {
    let (type_url, fields) = typed(any).ok_or("an entry of `resources` has no `@type`")?;
    if is_wrapper(type_url) {
        return read_wrapper(schema, fields);
    }
    let bytes = body(schema, type_url, fields);
    // A body that cannot be read may still contain its name.
    let name = if bytes.is_err() { name_in_body(schema, type_url, fields) } else { None };
    let body = Some(RawBody { type_url, bytes });
    Ok(RawResource { name: name.unwrap_or_default().into(), body, ..RawResource::default() })
}

fn read_wrapper<'j>(
    schema: &Schema,
    fields: &'j Map<String, Value>,
) -> Result<RawResource<'j>, String> {
    let located = either(fields, "resource_name", "resourceName");
    let located = located.and_then(|located| located.get("name"));
    let name = match text(fields.get("name"), "name")? {
        "" => text(located, "resource_name.name")?,
        name => name,
    };
    let aliases = match fields.get("aliases") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(aliases)) => aliases,
        Some(_) => return Err(wrong("aliases")),
    };
    let aliases = aliases.iter().map(|alias| text(Some(alias), "aliases").map(Into::into));
    let resource = fields.get("resource").filter(|resource| !resource.is_null());
    let body = resource.map(|any| match typed(any) {
        None => RawBody { type_url: "", bytes: Ok(Bytes::new()) },
        Some((type_url, fields)) => RawBody { type_url, bytes: body(schema, type_url, fields) },
    });
    let length = |given: &Value| match given.as_str().and_then(duration) {
        Some((seconds, nanos)) => ttl(seconds, nanos),
        None => Err(INVALID_TTL),
    };
    Ok(RawResource {
        name: name.into(),
        version: text(fields.get("version"), "version")?,
        aliases: aliases.collect::<Result<_, _>>()?,
        ttl: fields.get("ttl").filter(|ttl| !ttl.is_null()).map(length),
        body,
    })
}

/// The type and the fields of an `Any`.
fn typed(any: &Value) -> Option<(&str, &Map<String, Value>)> {
    let fields = any.as_object()?;
    Some((fields.get("@type")?.as_str()?, fields))
}

/// The canonical bytes of the message in an `Any`.
fn body(schema: &Schema, type_url: &str, fields: &Map<String, Value>) -> Result<Bytes, String> {
    let descriptor = schema.message(type_url).ok_or_else(|| {
        format!("no descriptor of `{type_url}` is known, without which its JSON means nothing")
    })?;
    let json = if Special::of(&descriptor).is_some() {
        fields.get("value").cloned().unwrap_or_default()
    } else {
        let others = fields.iter().filter(|(key, _)| *key != "@type");
        Value::Object(others.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    let options = DeserializeOptions::new().deny_unknown_fields(false);
    let message = DynamicMessage::deserialize_with_options(descriptor, json, &options)
        .map_err(|error| format!("its JSON is no `{type_url}`: {error}"))?;
    Ok(canonical::encode(&message).into())
}

/// The name in the naming field of a type, in either spelling of the field.
fn name_in_body<'j>(
    schema: &Schema,
    type_url: &str,
    fields: &'j Map<String, Value>,
) -> Option<&'j str> {
    let field = naming_field(&schema.message(type_url)?)?;
    either(fields, field.name(), field.json_name())?.as_str()
}

fn either<'j>(fields: &'j Map<String, Value>, one: &str, other: &str) -> Option<&'j Value> {
    fields.get(one).or_else(|| fields.get(other))
}

/// Reads a text. An absent field and `null` are empty.
fn text<'j>(value: Option<&'j Value>, field: &str) -> Result<&'j str, String> {
    match value {
        None | Some(Value::Null) => Ok(""),
        Some(value) => value.as_str().ok_or_else(|| wrong(field)),
    }
}

fn wrong(field: &str) -> String {
    format!("an entry of `resources` is no `Resource`: `{field}` is of the wrong type")
}
