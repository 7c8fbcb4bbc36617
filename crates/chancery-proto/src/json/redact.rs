//! Secrets taken out of JSON that is written for people (S-138).
//!
//! Which fields are secret is said by their descriptors (`udpa.annotations.sensitive`), so the JSON
//! is walked beside them.

use prost_reflect::{ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use serde_json::Value;

use crate::any;
use crate::schema::Schema;

const REDACTED: &str = "[redacted]";

/// Replaces every sensitive field of the JSON of an `Any`.
pub(super) fn redact(schema: &Schema, json: &mut Value) {
    let sensitive = schema.pool().get_extension_by_name("udpa.annotations.sensitive");
    Redaction { schema, sensitive }.any(json);
}

struct Redaction<'a> {
    schema: &'a Schema,
    sensitive: Option<ExtensionDescriptor>,
}

impl Redaction<'_> {
    fn any(&self, json: &mut Value) {
        let type_url = json.get("@type").and_then(Value::as_str);
        let Some(descriptor) = type_url.and_then(|type_url| self.schema.message(type_url)) else {
            return;
        };
        self.message(&descriptor, json);
    }

    fn message(&self, descriptor: &MessageDescriptor, json: &mut Value) {
        let Value::Object(fields) = json else { return };
        for (key, value) in fields {
            let Some(field) = descriptor.get_field_by_json_name(key) else { continue };
            if self.is_sensitive(&field) {
                *value = REDACTED.into();
            } else {
                self.field(&field, value);
            }
        }
    }

    fn field(&self, field: &FieldDescriptor, json: &mut Value) {
        match json {
            Value::Array(values) if field.is_list() => {
                values.iter_mut().for_each(|value| self.value(&field.kind(), value));
            }
            Value::Object(entries) if field.is_map() => {
                let Kind::Message(entry) = field.kind() else { return };
                let kind = entry.map_entry_value_field().kind();
                entries.values_mut().for_each(|value| self.value(&kind, value));
            }
            single => self.value(&field.kind(), single),
        }
    }

    fn value(&self, kind: &Kind, json: &mut Value) {
        match kind {
            Kind::Message(descriptor) if any::is_any(descriptor) => self.any(json),
            Kind::Message(descriptor) => self.message(descriptor, json),
            _ => {}
        }
    }

    fn is_sensitive(&self, field: &FieldDescriptor) -> bool {
        let Some(sensitive) = &self.sensitive else { return false };
        field.options().get_extension(sensitive).as_bool().unwrap_or(false)
    }
}
