//! A walk over every message in a message, also inside of `Any`s, and access to single fields by
//! their names.
//!
//! The order is fixed, so equal messages are walked in the same way. Up to a bound on the depth, an
//! `Any` is replaced by the message in it. Not here: the things that are looked for (`facts`,
//! `lint`, `reply`), and the opening of an `Any` (`any`).

use std::borrow::Cow;
use std::fmt::Write;

use prost_reflect::{DynamicMessage, MapKey, ReflectMessage, Value};

use crate::any;

/// Calls `visit` with the message and each message in it, outermost first, in the order of fields
/// and keys. The first argument is the path of fields that leads there. An `Any` that cannot be
/// opened is visited itself.
pub(crate) fn walk(message: &DynamicMessage, visit: &mut dyn FnMut(&str, &DynamicMessage)) {
    MessageWalk { path: String::new(), visit }.message(message, 0);
}

/// The message in a field, if it is set.
pub(crate) fn message_in<'a>(
    message: &'a DynamicMessage,
    field: &str,
) -> Option<&'a DynamicMessage> {
    value_in(message, field)?.as_message()
}

/// The text in a field. It is empty if the field is not set or does not exist.
pub(crate) fn text_in<'a>(message: &'a DynamicMessage, field: &str) -> &'a str {
    value_in(message, field).and_then(Value::as_str).unwrap_or_default()
}

/// The elements of a repeated field.
pub(crate) fn list_in<'a>(message: &'a DynamicMessage, field: &str) -> &'a [Value] {
    value_in(message, field).and_then(Value::as_list).unwrap_or_default()
}

/// The texts in a field, repeated or not.
pub(crate) fn texts_in<'a>(
    message: &'a DynamicMessage,
    field: &str,
) -> impl Iterator<Item = &'a str> {
    let values = match value_in(message, field) {
        Some(Value::List(items)) => items,
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    values.iter().filter_map(Value::as_str)
}

/// The messages in a repeated field.
pub(crate) fn messages_in<'a>(
    message: &'a DynamicMessage,
    field: &str,
) -> impl Iterator<Item = &'a DynamicMessage> {
    list_in(message, field).iter().filter_map(Value::as_message)
}

/// The number in a field; 0 if it is not set.
pub(crate) fn number_in(message: &DynamicMessage, field: &str) -> u32 {
    value_in(message, field).and_then(Value::as_u32).unwrap_or_default()
}

/// The value of a field, if it is set.
pub(crate) fn value_in<'a>(message: &'a DynamicMessage, field: &str) -> Option<&'a Value> {
    match message.get_field_by_name(field)? {
        Cow::Borrowed(value) => Some(value),
        // An owned value is a default that was created for this call.
        Cow::Owned(_) => None,
    }
}

struct MessageWalk<'a> {
    path: String,
    visit: &'a mut dyn FnMut(&str, &DynamicMessage),
}

impl MessageWalk<'_> {
    fn message(&mut self, message: &DynamicMessage, depth: usize) {
        if depth < any::MAX_DEPTH && any::is_any(&message.descriptor()) {
            match any::open(message) {
                Some(payload) => self.message(&payload, depth + 1),
                None => (self.visit)(&self.path, message),
            }
            return;
        }
        (self.visit)(&self.path, message);
        for (field, value) in message.fields() {
            let length = self.path.len();
            if length > 0 {
                self.path.push('.');
            }
            self.path.push_str(field.name());
            self.value(value, depth);
            self.path.truncate(length);
        }
    }

    fn value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Message(message) => self.message(message, depth + 1),
            Value::List(items) if matches!(items.first(), Some(Value::Message(_))) => {
                for (at, item) in items.iter().enumerate() {
                    self.element(&at, item, depth);
                }
            }
            Value::Map(entries) => {
                let mut entries: Vec<_> = entries.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries.into_iter().filter(|(_, value)| is_message(value)) {
                    match key {
                        MapKey::String(key) => self.element(key, value, depth),
                        MapKey::Bool(key) => self.element(key, value, depth),
                        MapKey::I32(key) => self.element(key, value, depth),
                        MapKey::I64(key) => self.element(key, value, depth),
                        MapKey::U32(key) => self.element(key, value, depth),
                        MapKey::U64(key) => self.element(key, value, depth),
                    }
                }
            }
            _ => {}
        }
    }

    fn element(&mut self, key: &dyn std::fmt::Display, value: &Value, depth: usize) {
        let length = self.path.len();
        write!(self.path, "[{key}]").expect("a `String` takes all that is written to it");
        self.value(value, depth);
        self.path.truncate(length);
    }
}

fn is_message(value: &Value) -> bool {
    matches!(value, Value::Message(_))
}
