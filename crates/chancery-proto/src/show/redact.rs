//! Bodies without their secrets, for dumps of a client's resources
//! ([S-138](https://www.envoyproxy.io/docs/envoy/latest/api-v3/service/status/v3/csds.proto)).

use bytes::Bytes;
use chancery_core::TypeUrl;
use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use super::{AnyContent, Viewer};
use crate::{any, canonical, sensitive};

impl Viewer {
    /// Removes the secrets from a body. A body without secrets keeps its bytes. The result is
    /// `None` for bytes that are not of their known type, because nobody can say what they contain,
    /// and for those with a private key that is in no field.
    pub fn without_secrets(&self, type_url: &TypeUrl, body: &Bytes) -> Option<Bytes> {
        let rest = match self.content_of(type_url.as_str(), body, 0) {
            AnyContent::Opaque(bytes) => bytes,
            AnyContent::Withheld => return None,
            AnyContent::Message(mut message) => match self.strip(&mut message, 0) {
                true => canonical::encode(&message).into(),
                false => body.clone(),
            },
        };
        (self.secrets || !sensitive::has_private_key(&rest)).then_some(rest)
    }

    /// Removes the secrets from a message. Returns true if there were any.
    fn strip(&self, message: &mut DynamicMessage, depth: usize) -> bool {
        if any::is_any(&message.descriptor()) {
            return self.strip_any(message, depth);
        }
        let hidden: Vec<_> = {
            let withholds = self.withholds(message);
            let hidden = message.fields().filter(|(field, value)| withholds(field, value));
            hidden.map(|(field, _)| field).collect()
        };
        hidden.iter().for_each(|field| message.clear_field(field));
        let has_key = !self.secrets && sensitive::has_unknown_key(message);
        if has_key {
            message.take_unknown_fields().for_each(drop);
        }
        message.fields_mut().fold(has_key || !hidden.is_empty(), |is_less, (_, value)| {
            self.strip_value(value, depth) | is_less
        })
    }

    fn strip_value(&self, value: &mut Value, depth: usize) -> bool {
        match value {
            Value::Message(message) => self.strip(message, depth + 1),
            Value::List(items) => items
                .iter_mut()
                .fold(false, |is_less, item| self.strip_value(item, depth) | is_less),
            Value::Map(entries) => {
                let before = entries.len();
                entries.retain(|key, item| !self.withholds_entry(key, item));
                let is_less = entries.len() < before;
                entries
                    .values_mut()
                    .fold(is_less, |is_less, item| self.strip_value(item, depth) | is_less)
            }
            _ => false,
        }
    }

    fn strip_any(&self, any: &mut DynamicMessage, depth: usize) -> bool {
        let type_url = any::type_url(any).unwrap_or_default();
        let value = any.get_field_by_number(any::VALUE);
        let value = value.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
        match self.content_of(&type_url, &value, depth) {
            AnyContent::Opaque(_) => false,
            AnyContent::Withheld => {
                any.clear_field_by_number(any::VALUE);
                true
            }
            AnyContent::Message(mut payload) => {
                let is_less = self.strip(&mut payload, depth + 1);
                if is_less {
                    let rest = canonical::encode(&payload).into();
                    any.set_field_by_number(any::VALUE, Value::Bytes(rest));
                }
                is_less
            }
        }
    }
}
