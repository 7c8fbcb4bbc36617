//! Deserialization of a tree into any `Deserialize` type, with position and path of whatever does
//! not fit.
//!
//! An error starts without a position, because visitors know no texts. It gets one from the
//! innermost key, element or mapping that it passes on its way out, and all further ones add to its
//! path.

use std::fmt;

use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, VariantAccess, Visitor,
};

use super::closest::{closest, did_you_mean};
use super::path::{PathStep, append};
use super::scalar;
use super::tree::{MapEntry, TreeNode, TreeValue};
use super::{Fault, Position};

/// An error of deserialization.
#[derive(Debug)]
pub(super) struct NodeError(Box<ErrorDetails>);

#[derive(Debug)]
struct ErrorDetails {
    position: Option<Position>,
    /// The steps, innermost first.
    path: Vec<OwnedStep>,
    message: String,
    hint: Option<String>,
}

#[derive(Debug)]
enum OwnedStep {
    Key(String),
    Index(usize),
}

impl NodeError {
    fn new(message: String, hint: Option<String>) -> Self {
        Self(Box::new(ErrorDetails { position: None, path: Vec::new(), message, hint }))
    }

    fn at(mut self, position: Position) -> Self {
        self.0.position.get_or_insert(position);
        self
    }

    fn under(mut self, step: OwnedStep) -> Self {
        self.0.path.push(step);
        self
    }

    pub(super) fn into_fault(self) -> Fault {
        let ErrorDetails { position, path, message, hint } = *self.0;
        let mut text = String::new();
        for step in path.iter().rev() {
            append(
                &mut text,
                match step {
                    OwnedStep::Key(key) => PathStep::Field(key),
                    OwnedStep::Index(index) => PathStep::Index(*index),
                },
            );
        }
        Fault { code: "config", position, path: text, message, hint, confidential: false }
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for NodeError {}

impl de::Error for NodeError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string(), None)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("unknown key `{field}`"), suggestion(field, expected))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        Self::new(format!("unknown value `{variant}`"), suggestion(variant, expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("the key `{field}` is missing"), None)
    }
}

/// The hint for an unknown name: the closest expected name, or all of them.
fn suggestion(found: &str, expected: &[&str]) -> Option<String> {
    if let Some(closest) = closest(found, expected.iter().copied()) {
        return Some(did_you_mean(found, closest));
    }
    let list: Vec<_> = expected.iter().map(|name| format!("`{name}`")).collect();
    (!list.is_empty()).then(|| format!("expected one of {}", list.join(", ")))
}

/// The deserializer of a node.
#[derive(Clone, Copy)]
pub(super) struct NodeDeserializer<'n, 'a>(pub(super) &'n TreeNode<'a>);

impl<'de> NodeDeserializer<'_, '_> {
    fn any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        match self.0.value() {
            TreeValue::Null => visitor.visit_unit(),
            TreeValue::Bool(value) => visitor.visit_bool(*value),
            TreeValue::Number(text) => number(text, visitor),
            TreeValue::Text(text) => visitor.visit_str(text),
            TreeValue::Word(text) => visitor.visit_str(text),
            TreeValue::Bytes(bytes) => visitor.visit_bytes(bytes),
            TreeValue::Sequence(nodes) => {
                visitor.visit_seq(SequenceAccess { nodes: nodes.iter(), index: 0 })
            }
            TreeValue::Mapping(entries) => visitor.visit_map(MappingAccess::new(entries)),
            // `value` never returns this variant.
            TreeValue::Shared(_) => visitor.visit_unit(),
        }
    }
}

fn number<'de, V: Visitor<'de>>(text: &str, visitor: V) -> Result<V::Value, NodeError> {
    if let Some(whole) = scalar::integer(text) {
        if let Ok(number) = u64::try_from(whole) {
            return visitor.visit_u64(number);
        }
        if let Ok(number) = i64::try_from(whole) {
            return visitor.visit_i64(number);
        }
    }
    visitor.visit_f64(scalar::float(text).unwrap_or(f64::NAN))
}

impl<'de> Deserializer<'de> for NodeDeserializer<'_, '_> {
    type Error = NodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let position = self.0.position();
        self.any(visitor).map_err(|error| error.at(position))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let position = self.0.position();
        visitor.visit_newtype_struct(self).map_err(|error| error.at(position))
    }

    /// Deserializes a mapping. A section whose keys are all commented out is empty and not a fault.
    /// A list does not stand for a mapping.
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, NodeError> {
        let result = match self.0.value() {
            TreeValue::Null => visitor.visit_map(MappingAccess::new(&[])),
            TreeValue::Sequence(_) => Err(de::Error::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.any(visitor),
        };
        result.map_err(|error| error.at(self.0.position()))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        let position = self.0.position();
        let result = match self.0.value() {
            TreeValue::Text(text) => visitor.visit_enum((&**text).into_deserializer()),
            TreeValue::Mapping(entries) if entries.len() == 1 => {
                visitor.visit_enum(VariantContent { entry: &entries[0] })
            }
            _ => Err(NodeError::new("expected one name, or one key with a value".to_owned(), None)),
        };
        result.map_err(|error| error.at(position))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct identifier ignored_any
    }
}

struct SequenceAccess<'n, 'a> {
    nodes: std::slice::Iter<'n, TreeNode<'a>>,
    index: usize,
}

impl<'de> SeqAccess<'de> for SequenceAccess<'_, '_> {
    type Error = NodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, NodeError> {
        let Some(node) = self.nodes.next() else { return Ok(None) };
        let index = self.index;
        self.index += 1;
        let fault = |error: NodeError| error.at(node.position()).under(OwnedStep::Index(index));
        seed.deserialize(NodeDeserializer(node)).map(Some).map_err(fault)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.nodes.len())
    }
}

struct MappingAccess<'n, 'a> {
    entries: std::slice::Iter<'n, MapEntry<'a>>,
    current: Option<&'n MapEntry<'a>>,
}

impl<'n, 'a> MappingAccess<'n, 'a> {
    fn new(entries: &'n [MapEntry<'a>]) -> Self {
        Self { entries: entries.iter(), current: None }
    }
}

impl<'de> MapAccess<'de> for MappingAccess<'_, '_> {
    type Error = NodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, NodeError> {
        self.current = self.entries.next();
        let Some(entry) = self.current else { return Ok(None) };
        seed.deserialize((&*entry.key).into_deserializer()).map(Some).map_err(|error: NodeError| {
            error.at(entry.key_position).under(OwnedStep::Key(entry.key.to_string()))
        })
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, NodeError> {
        let Some(entry) = self.current.take() else {
            return Err(de::Error::custom("a value was asked for before its key"));
        };
        seed.deserialize(NodeDeserializer(&entry.node)).map_err(|error| {
            error.at(entry.node.position()).under(OwnedStep::Key(entry.key.to_string()))
        })
    }
}

/// An enum variant with content, written as a mapping of one key.
struct VariantContent<'n, 'a> {
    entry: &'n MapEntry<'a>,
}

impl<'n, 'a> VariantContent<'n, 'a> {
    fn content<T>(
        self,
        read: impl FnOnce(NodeDeserializer<'n, 'a>) -> Result<T, NodeError>,
    ) -> Result<T, NodeError> {
        let MapEntry { key, node, .. } = self.entry;
        read(NodeDeserializer(node))
            .map_err(|error| error.at(node.position()).under(OwnedStep::Key(key.to_string())))
    }
}

impl<'de> EnumAccess<'de> for VariantContent<'_, '_> {
    type Error = NodeError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), NodeError> {
        let name = seed
            .deserialize((&*self.entry.key).into_deserializer())
            .map_err(|error: NodeError| error.at(self.entry.key_position))?;
        Ok((name, self))
    }
}

impl<'de> VariantAccess<'de> for VariantContent<'_, '_> {
    type Error = NodeError;

    fn unit_variant(self) -> Result<(), NodeError> {
        self.content(de::Deserialize::deserialize)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, NodeError> {
        self.content(|node| seed.deserialize(node))
    }

    fn tuple_variant<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.content(|node| node.deserialize_any(visitor))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, NodeError> {
        self.content(|node| node.deserialize_map(visitor))
    }
}
