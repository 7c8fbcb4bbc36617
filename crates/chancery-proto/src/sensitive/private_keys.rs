//! Private keys, which are known by their form in whatever part of a message they stand: texts and
//! bytes, keys of maps, and fields that no descriptor has.
//!
//! Not here: fields that hold keys by what they mean (`fields`), and the form itself (`names`).

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value};

use super::content;
use super::names::has_private_key;
use crate::any;

/// The field of this one message with a private key. It is empty for an `Any` that could not be
/// opened, and for a field that no descriptor has.
pub(super) fn field_with_key(message: &DynamicMessage) -> Option<String> {
    if has_unknown_key(message) {
        return Some(String::new());
    }
    let mut fields = message.fields();
    let (field, _) = fields.find(|(_, value)| is_private_key(value) || is_key_in_map(value))?;
    let is_any = any::is_any(&message.descriptor());
    Some(if is_any { String::new() } else { field.name().to_owned() })
}

/// Returns true for a text or bytes with a private key, and for a list with such a one.
pub(super) fn is_private_key(value: &Value) -> bool {
    match value {
        Value::List(items) => items.iter().any(is_private_key),
        one => content(one).is_some_and(has_private_key),
    }
}

/// Returns true for a key of a map that holds a private key.
pub(crate) fn is_private_map_key(key: &MapKey) -> bool {
    key.as_str().is_some_and(|key| has_private_key(key.as_bytes()))
}

fn is_key_in_map(value: &Value) -> bool {
    let Some(entries) = value.as_map() else { return false };
    entries.iter().any(|(key, value)| is_private_map_key(key) || is_private_key(value))
}

/// Returns true if a field of this one message that no descriptor has holds a private key.
pub(crate) fn has_unknown_key(message: &DynamicMessage) -> bool {
    unknown_keys(message).next().is_some()
}

/// The fields of this one message that no descriptor has and that hold a private key, as they are
/// encoded.
pub(super) fn unknown_keys(message: &DynamicMessage) -> impl Iterator<Item = Bytes> {
    let encoded = message.unknown_fields().map(|field| {
        let mut bytes = Vec::with_capacity(field.encoded_len());
        field.encode(&mut bytes);
        Bytes::from(bytes)
    });
    encoded.filter(|bytes| has_private_key(bytes))
}
