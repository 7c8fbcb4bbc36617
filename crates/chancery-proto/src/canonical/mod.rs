//! Canonical protobuf: equal messages have equal bytes.
//!
//! Protobuf leaves the order of map entries open, and decoded maps are hash maps. An ordinary
//! encoder therefore gives other bytes for the same message at each load, and a version taken from
//! them would change with every load and push to every client
//! ([S-031](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#ack-nack-and-resource-type-instance-version)).
//! Here fields are written in the order of their numbers, map entries in the order of their keys,
//! and unknown fields last and unchanged. The same holds inside an `Any` of a known type.
//!
//! This is not canonical JSON. Bytes are not equal across type URL prefixes or schema versions: a
//! field that only a newer schema knows may move among its siblings.

use prost::bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use prost_reflect::{
    DynamicMessage, ExtensionDescriptor, FieldDescriptor, Kind, MapKey, ReflectMessage, Value,
};

use crate::any;

/// The canonical bytes of a message.
pub(crate) fn encode(message: &DynamicMessage) -> Vec<u8> {
    let mut out = Vec::new();
    encode_message(message, 0, &mut out);
    out
}

fn encode_message(message: &DynamicMessage, depth: usize, out: &mut Vec<u8>) {
    let opened = (depth < any::MAX_DEPTH && any::is_any(&message.descriptor()))
        .then(|| any::open(message))
        .flatten();
    if let Some(payload) = opened {
        encode_any(message, &payload, depth, out);
    } else {
        let fields = message.fields().map(|(field, value)| (FieldEncoding::from(&field), value));
        let extensions =
            message.extensions().map(|(field, value)| (FieldEncoding::from(&field), value));
        let mut slots: Vec<_> = fields.chain(extensions).collect();
        slots.sort_by_key(|(slot, _)| slot.number);
        for (slot, value) in &slots {
            slot.encode(value, depth, out);
        }
    }
    for unknown in message.unknown_fields() {
        unknown.encode(out);
    }
}

fn encode_any(any: &DynamicMessage, payload: &DynamicMessage, depth: usize, out: &mut Vec<u8>) {
    if let Some(url) = any::type_url(any) {
        prost::encoding::string::encode(any::TYPE_URL, &url, out);
    }
    let start = out.len();
    encode_key(any::VALUE, WireType::LengthDelimited, out);
    let key = out.len();
    encode_message(payload, depth + 1, out);
    if out.len() == key {
        out.truncate(start);
    } else {
        insert_length(key, out);
    }
}

/// The properties of a field, of a message or of an extension, that decide its encoding.
struct FieldEncoding {
    number: u32,
    kind: Kind,
    packed: bool,
    group: bool,
}

impl From<&FieldDescriptor> for FieldEncoding {
    fn from(field: &FieldDescriptor) -> Self {
        let (packed, group) = (field.is_packed(), field.is_group());
        Self { number: field.number(), kind: field.kind(), packed, group }
    }
}

impl From<&ExtensionDescriptor> for FieldEncoding {
    fn from(field: &ExtensionDescriptor) -> Self {
        let (packed, group) = (field.is_packed(), field.is_group());
        Self { number: field.number(), kind: field.kind(), packed, group }
    }
}

impl FieldEncoding {
    fn encode(&self, value: &Value, depth: usize, out: &mut Vec<u8>) {
        match value {
            Value::List(items) if self.packed => {
                encode_key(self.number, WireType::LengthDelimited, out);
                let start = out.len();
                for item in items {
                    self.encode_bare(item, depth, out);
                }
                insert_length(start, out);
            }
            Value::List(items) => {
                for item in items {
                    self.encode_one(item, depth, out);
                }
            }
            Value::Map(entries) => self.encode_map(entries, depth, out),
            one => self.encode_one(one, depth, out),
        }
    }

    fn encode_map(
        &self,
        entries: &std::collections::HashMap<MapKey, Value>,
        depth: usize,
        out: &mut Vec<u8>,
    ) {
        let Kind::Message(entry) = &self.kind else { return };
        let key_slot = Self::from(&entry.map_entry_key_field());
        let value_slot = Self::from(&entry.map_entry_value_field());
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|(key, _)| *key);
        for (key, value) in entries {
            encode_key(self.number, WireType::LengthDelimited, out);
            let start = out.len();
            key_slot.encode_one(&Value::from(key.clone()), depth, out);
            value_slot.encode_one(value, depth, out);
            insert_length(start, out);
        }
    }

    fn encode_one(&self, value: &Value, depth: usize, out: &mut Vec<u8>) {
        if let (true, Value::Message(message)) = (self.group, value) {
            encode_key(self.number, WireType::StartGroup, out);
            encode_message(message, depth + 1, out);
            encode_key(self.number, WireType::EndGroup, out);
        } else {
            encode_key(self.number, self.kind.wire_type(), out);
            self.encode_bare(value, depth, out);
        }
    }

    /// Writes the value without its key. One Rust type holds several protobuf kinds, so the kind of
    /// the field decides.
    fn encode_bare(&self, value: &Value, depth: usize, out: &mut Vec<u8>) {
        match value {
            Value::Bool(is) => encode_varint(u64::from(*is), out),
            Value::I32(is) => match self.kind {
                Kind::Sint32 => encode_varint(zigzag(i64::from(*is)), out),
                Kind::Sfixed32 => out.put_i32_le(*is),
                _ => encode_varint(sign_extended(i64::from(*is)), out),
            },
            Value::I64(is) => match self.kind {
                Kind::Sint64 => encode_varint(zigzag(*is), out),
                Kind::Sfixed64 => out.put_i64_le(*is),
                _ => encode_varint(sign_extended(*is), out),
            },
            Value::U32(is) if matches!(self.kind, Kind::Fixed32) => out.put_u32_le(*is),
            Value::U32(is) => encode_varint(u64::from(*is), out),
            Value::U64(is) if matches!(self.kind, Kind::Fixed64) => out.put_u64_le(*is),
            Value::U64(is) => encode_varint(*is, out),
            Value::F32(is) => out.put_f32_le(*is),
            Value::F64(is) => out.put_f64_le(*is),
            Value::EnumNumber(is) => encode_varint(sign_extended(i64::from(*is)), out),
            Value::String(is) => encode_delimited(is.as_bytes(), out),
            Value::Bytes(is) => encode_delimited(is, out),
            Value::Message(is) => {
                let start = out.len();
                encode_message(is, depth + 1, out);
                insert_length(start, out);
            }
            // A list or map has single values as elements: `DynamicMessage` checks that.
            Value::List(_) | Value::Map(_) => {}
        }
    }
}

fn encode_delimited(bytes: &[u8], out: &mut Vec<u8>) {
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Inserts the length of everything from `start` on in front of it. Writing first and moving
/// afterwards saves a buffer for each nested message, and a second walk to measure it.
fn insert_length(start: usize, out: &mut Vec<u8>) {
    let length = (out.len() - start) as u64;
    encode_varint(length, out);
    out[start..].rotate_right(encoded_len_varint(length));
}

fn zigzag(is: i64) -> u64 {
    sign_extended((is << 1) ^ (is >> 63))
}

/// Negative numbers are encoded as the 64 bits of their two's complement.
fn sign_extended(is: i64) -> u64 {
    is.cast_unsigned()
}

#[cfg(test)]
mod tests;
