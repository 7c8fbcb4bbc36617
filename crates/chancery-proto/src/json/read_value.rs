//! Reading the values of a node in JSON, counted while they are read.
//!
//! The values are those of the core from the beginning: a tree of JSON between the text and them
//! would double what a request takes. Not here: the node itself (`read_node`), and the count
//! (`crate::node_memory`).

use std::collections::BTreeMap;
use std::fmt;

use chancery_core::Value;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::JsonError;
use crate::node_memory::NodeMemory;
use crate::request_size::RequestTooLarge;

/// Reads an object. Without a text there is an empty one.
pub(super) fn read_fields(
    text: Option<&RawValue>,
    memory: &mut NodeMemory,
) -> Result<BTreeMap<String, Value>, JsonError> {
    let Some(text) = text else { return Ok(BTreeMap::new()) };
    let mut reader = serde_json::Deserializer::from_str(text.get());
    let read = reader.deserialize_map(FieldsReader(memory));
    or_too_large(read, memory)
}

/// Reads a list of texts. Without a text there is an empty one.
pub(super) fn read_texts(
    text: Option<&RawValue>,
    memory: &mut NodeMemory,
) -> Result<Vec<String>, JsonError> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let mut reader = serde_json::Deserializer::from_str(text.get());
    let read = reader.deserialize_seq(TextsReader(memory));
    or_too_large(read, memory)
}

/// The outcome of a reader, which says only that it has failed if a limit is exceeded.
fn or_too_large<T>(
    read: Result<T, serde_json::Error>,
    memory: &NodeMemory,
) -> Result<T, JsonError> {
    memory.check()?;
    read.map_err(JsonError::Request)
}

fn stop<E: Error>(too_large: RequestTooLarge) -> E {
    E::custom(too_large)
}

/// Reads any value.
struct ValueReader<'m>(&'m mut NodeMemory);

impl<'a> DeserializeSeed<'a> for ValueReader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'a>>(self, text: D) -> Result<Value, D::Error> {
        text.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for ValueReader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.0.add_text(text.len()).map_err(stop)?;
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(ValueReader(self.0))? {
            self.0.add_element(values.len()).map_err(stop)?;
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'a>>(self, map: A) -> Result<Value, A::Error> {
        FieldsReader(self.0).visit_map(map).map(Value::Map)
    }
}

/// Reads an object. Of a key that comes twice, the last value counts.
struct FieldsReader<'m>(&'m mut NodeMemory);

impl<'a> Visitor<'a> for FieldsReader<'_> {
    type Value = BTreeMap<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(key) = map.next_key::<String>()? {
            // The map is counted before what is in it, as its depth is what makes it large.
            self.0.add_entry(fields.len()).map_err(stop)?;
            self.0.add_text(key.len()).map_err(stop)?;
            let value = map.next_value_seed(ValueReader(self.0))?;
            fields.insert(key, value);
        }
        Ok(fields)
    }
}

/// Reads a list of texts.
struct TextsReader<'m>(&'m mut NodeMemory);

impl<'a> Visitor<'a> for TextsReader<'_> {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of texts")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            self.0.add_element(texts.len()).map_err(stop)?;
            self.0.add_text(text.len()).map_err(stop)?;
            texts.push(text);
        }
        Ok(texts)
    }
}
