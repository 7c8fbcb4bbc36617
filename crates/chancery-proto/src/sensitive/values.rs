//! The hidden values of a message, as texts and bytes, so that they can be found in what others say.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;
use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value};

use super::fields::{self, HiddenFields};
use super::private_keys::{field_with_key, is_private_map_key, unknown_keys};
use super::typed_struct::TypedForm;
use crate::any;
use crate::walk::walk;

/// The hidden values of a message and of all in it, each once.
pub(super) fn of(message: &DynamicMessage) -> Vec<Bytes> {
    let mut found = BTreeSet::new();
    walk(message, &mut |_, message| add(message, &mut found));
    found.into_iter().collect()
}

/// Adds the values of this one message. The messages in it are visited separately.
fn add(message: &DynamicMessage, found: &mut BTreeSet<Bytes>) {
    found.extend(unknown_keys(message));
    if any::is_any(&message.descriptor()) {
        if (fields::withheld(message).is_some() || field_with_key(message).is_some())
            && let Some(value) = message.get_field_by_number(any::VALUE)
        {
            add_all(&value, 0, found);
        }
        return;
    }
    let hidden = HiddenFields::of(message);
    for (field, value) in message.fields() {
        let keys = value.as_map().into_iter().flat_map(HashMap::keys);
        let keys = keys.filter(|key| is_private_map_key(key)).filter_map(MapKey::as_str);
        found.extend(keys.map(|key| Bytes::copy_from_slice(key.as_bytes())));
        if let Some(typed) = hidden.typed_form(&field) {
            match typed {
                TypedForm::Message(typed) => found.extend(of(&typed)),
                TypedForm::Unreadable => add_all(value, 0, found),
            }
        } else if hidden.contain_as_it_is(&field, value) {
            add_all(value, 0, found);
        } else if let Value::Map(entries) = value {
            let hidden = entries.iter().filter(|(key, value)| fields::hides_entry(key, value));
            hidden.for_each(|(_, value)| add_all(value, 0, found));
        }
    }
}

/// Adds all texts and bytes in a value.
fn add_all(value: &Value, depth: usize, found: &mut BTreeSet<Bytes>) {
    match value {
        Value::String(text) if !text.is_empty() => {
            found.insert(Bytes::copy_from_slice(text.as_bytes()));
        }
        Value::Bytes(bytes) if !bytes.is_empty() => {
            found.insert(bytes.clone());
        }
        Value::List(items) => items.iter().for_each(|item| add_all(item, depth, found)),
        Value::Map(entries) => entries.values().for_each(|item| add_all(item, depth, found)),
        Value::Message(message) => {
            let opened = (depth < any::MAX_DEPTH && any::is_any(&message.descriptor()))
                .then(|| any::open(message))
                .flatten();
            let message = opened.as_ref().unwrap_or(message);
            message.fields().for_each(|(_, value)| add_all(value, depth + 1, found));
        }
        _ => {}
    }
}
