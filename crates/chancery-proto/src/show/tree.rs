//! A message as the tree that is written as JSON and YAML: the JSON mapping of proto3, with fields
//! in their order.
//!
//! The tree is the same for both, so only the notation differs. Not here: YAML (`yaml`), protobuf
//! text (`text`), and which fields are secret (`show`).

use std::fmt;

use bytes::Bytes;
use chancery_core::base64;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, ReflectMessage, Value};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Number, Value as Json};

use super::{AnyContent, REDACTED, Viewer, fields};
use crate::any;
use crate::document::Special;
use crate::json::{number, tidy_number, to_value};
use crate::sensitive;

/// A JSON value whose mappings keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(String, Self)>),
}

impl Tree {
    /// Creates the tree of an `Any`.
    pub(super) fn of(viewer: &Viewer, type_url: &str, value: &Bytes) -> Self {
        TreeBuilder { viewer }.opened(type_url, value, 0)
    }
}

struct TreeBuilder<'v> {
    viewer: &'v Viewer,
}

impl TreeBuilder<'_> {
    fn opened(&self, type_url: &str, value: &Bytes, depth: usize) -> Tree {
        let mut entries = vec![("@type".to_owned(), Tree::Text(type_url.to_owned()))];
        let value = match self.viewer.content_of(type_url, value, depth) {
            AnyContent::Opaque(bytes) => Tree::Text(base64::encode(&bytes)),
            AnyContent::Withheld => Tree::Text(REDACTED.to_owned()),
            AnyContent::Message(message) => {
                let special = Special::of(&message.descriptor()).is_some();
                match self.message(&message, depth + 1) {
                    Tree::Map(fields) if !special => {
                        entries.extend(fields);
                        return Tree::Map(entries);
                    }
                    value => value,
                }
            }
        };
        entries.push(("value".to_owned(), value));
        Tree::Map(entries)
    }

    fn message(&self, message: &DynamicMessage, depth: usize) -> Tree {
        match Special::of(&message.descriptor()) {
            Some(Special::Any) => self.any(message, depth),
            Some(_) => {
                let json = special(message);
                json.map_or_else(|| self.fields(message, depth), |json| self.json("", json))
            }
            None => self.fields(message, depth),
        }
    }

    /// The tree of the special form of a message, with the hidden entries of a `Struct` left out. The
    /// name is that of an entry, or empty.
    fn json(&self, name: &str, json: Json) -> Tree {
        if !self.viewer.secrets && sensitive::is_sensitive_json(name, &json) {
            return Tree::Text(REDACTED.to_owned());
        }
        match json {
            Json::Array(values) => {
                Tree::List(values.into_iter().map(|one| self.json("", one)).collect())
            }
            Json::Object(fields) => {
                let fields = fields.into_iter().map(|(name, one)| {
                    let shown = self.json(&name, one);
                    (self.viewer.key(&MapKey::String(name)), shown)
                });
                Tree::Map(fields.collect())
            }
            other => other.into(),
        }
    }

    fn any(&self, any: &DynamicMessage, depth: usize) -> Tree {
        let type_url = any::type_url(any).unwrap_or_default();
        let value = any.get_field_by_number(any::VALUE);
        let value = value.as_deref().and_then(Value::as_bytes).cloned().unwrap_or_default();
        if type_url.is_empty() && value.is_empty() {
            return Tree::Map(Vec::new());
        }
        self.opened(&type_url, &value, depth)
    }

    fn fields(&self, message: &DynamicMessage, depth: usize) -> Tree {
        let withholds = self.viewer.withholds(message);
        let field = |(field, value): (FieldDescriptor, &Value)| {
            let shown = match value {
                _ if withholds(&field, value) => Tree::Text(REDACTED.to_owned()),
                Value::Map(entries) => {
                    let kind = field.kind();
                    let entry = kind.as_message().map(|entry| entry.map_entry_value_field().kind());
                    let mut entries: Vec<_> = entries.iter().collect();
                    entries.sort_by_key(|(key, _)| *key);
                    let entries = entries.into_iter().map(|(key, value)| {
                        let shown = if self.viewer.withholds_entry(key, value) {
                            Tree::Text(REDACTED.to_owned())
                        } else {
                            self.value(entry.as_ref(), value, depth)
                        };
                        (self.viewer.key(key), shown)
                    });
                    Tree::Map(entries.collect())
                }
                Value::List(values) => {
                    let kind = field.kind();
                    Tree::List(
                        values.iter().map(|one| self.value(Some(&kind), one, depth)).collect(),
                    )
                }
                one => self.value(Some(&field.kind()), one, depth),
            };
            (field.name().to_owned(), shown)
        };
        Tree::Map(fields(message).map(field).collect())
    }

    fn value(&self, kind: Option<&Kind>, value: &Value, depth: usize) -> Tree {
        match value {
            Value::Bool(is) => Tree::Bool(*is),
            Value::I32(is) => Tree::Number((*is).into()),
            Value::U32(is) => Tree::Number((*is).into()),
            // A 64-bit number is a text in JSON, because most readers know only doubles.
            Value::I64(is) => Tree::Text(is.to_string()),
            Value::U64(is) => Tree::Text(is.to_string()),
            // The shortest decimal of this single-precision number, and not that of its double.
            Value::F32(is) => {
                number(is.to_string().parse().unwrap_or_else(|_| f64::from(*is))).into()
            }
            Value::F64(is) => number(*is).into(),
            Value::String(text) => Tree::Text(text.clone()),
            Value::Bytes(bytes) => Tree::Text(base64::encode(bytes)),
            Value::EnumNumber(number) => {
                let known = kind.and_then(Kind::as_enum).and_then(|all| all.get_value(*number));
                known.map_or_else(
                    || Tree::Number((*number).into()),
                    |value| Tree::Text(value.name().to_owned()),
                )
            }
            Value::Message(message) => self.message(message, depth + 1),
            // No list or map contains another list or map.
            Value::List(_) | Value::Map(_) => Tree::Null,
        }
    }
}

/// The special JSON form of a message. The result is `None` if the message is out of the range of
/// its form.
fn special(message: &DynamicMessage) -> Option<Json> {
    to_value(message).ok()
}

impl From<Json> for Tree {
    fn from(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(is) => Self::Bool(is),
            Json::Number(number) => Self::Number(tidy_number(number)),
            Json::String(text) => Self::Text(text),
            Json::Array(values) => Self::List(values.into_iter().map(Self::from).collect()),
            Json::Object(fields) => {
                Self::Map(fields.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

impl Serialize for Tree {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(is) => serializer.serialize_bool(*is),
            Self::Number(number) => number.serialize(serializer),
            Self::Text(text) => serializer.serialize_str(text),
            Self::List(values) => serializer.collect_seq(values),
            Self::Map(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

/// Writes JSON; `{:#}` uses several lines.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write =
            if f.alternate() { serde_json::to_string_pretty } else { serde_json::to_string };
        f.write_str(&write(self).map_err(|_| fmt::Error)?)
    }
}
