//! Paths to the fields that a value fills, as `filter_chains[0].filters[0].typed_config.stat_prefix`.
//!
//! A path is looked up in the descriptors, and where the message is at hand, in that: what is in an `Any` only
//! the message knows. Not here: the fields that may not be filled (`forbidden`), and the values (`convert`).

use std::fmt;

use prost::Message;
use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value,
};

use super::forbidden;
use crate::any;
use crate::document::{Special, map_key};
use crate::syntax::{Short, closest, did_you_mean};

/// A path from a resource to a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ValuePath(Vec<PathPart>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PathPart {
    Field(String),
    Index(usize),
    Key(String),
}

/// The reason for which a path leads to no field that can be filled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PathFault {
    /// True if a field of that name does not exist.
    pub(crate) is_unknown: bool,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl PathFault {
    fn new(message: impl Into<String>) -> Self {
        Self { is_unknown: false, message: message.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }
}

impl ValuePath {
    pub(crate) fn parse(text: &str) -> Result<Self, PathFault> {
        let (mut parts, mut rest) = (Vec::new(), text);
        if text.len() > MAX_BYTES {
            return Err(PathFault::new(format!("the path has more than {MAX_BYTES} bytes")));
        }
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('[') {
                let (part, behind) = bracket(inner).ok_or_else(malformed)?;
                parts.push(part);
                rest = behind;
            } else {
                let name = if parts.is_empty() {
                    rest
                } else {
                    rest.strip_prefix('.').ok_or_else(malformed)?
                };
                let (name, behind) = name.split_at(name.find(['.', '[']).unwrap_or(name.len()));
                let is_name = |of: u8| of.is_ascii_alphanumeric() || of == b'_';
                if name.is_empty() || !name.bytes().all(is_name) {
                    return Err(malformed());
                }
                parts.push(PathPart::Field(name.to_owned()));
                rest = behind;
            }
        }
        match parts.is_empty() || parts.len() > MOST_PARTS {
            true => Err(malformed()),
            false => Ok(Self(parts)),
        }
    }

    /// The kind of the field in a message of this type; `None` if only a message knows that, because the path
    /// goes through an `Any`.
    pub(crate) fn look(
        &self,
        descriptor: &MessageDescriptor,
        message: Option<&DynamicMessage>,
    ) -> Result<Option<Kind>, PathFault> {
        Look { descriptor, message, is_root: true, depth: 0 }.kind(&self.0)
    }

    /// Sets the field in a message in which it was found.
    pub(crate) fn set(&self, message: &mut DynamicMessage, value: Value) -> Option<()> {
        set(message, &self.0, value, 0)
    }

    /// The value of the field in a message, if it is set there.
    pub(crate) fn get(&self, message: &DynamicMessage) -> Option<Value> {
        get(message, &self.0, 0)
    }

    /// The path with the names that fields have in descriptors, as paths of violations are, for a message in
    /// which it was found.
    pub(crate) fn named(&self, message: &DynamicMessage) -> Self {
        let mut parts = self.0.clone();
        name_fields(message, &mut parts, 0);
        Self(parts)
    }
}

/// The part in brackets, and the text behind it.
fn bracket(inner: &str) -> Option<(PathPart, &str)> {
    if inner.starts_with('"') {
        let mut read = serde_json::Deserializer::from_str(inner).into_iter::<String>();
        let key = read.next()?.ok()?;
        let behind = inner.get(read.byte_offset()..)?.strip_prefix(']')?;
        return Some((PathPart::Key(key), behind));
    }
    let (digits, behind) = inner.split_once(']')?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_digit());
    Some((PathPart::Index(digits.parse().ok().filter(|_| is_number)?), behind))
}

fn malformed() -> PathFault {
    let hint = "write fields, items of lists and keys of maps as `a.b[0].c[\"key\"].d`";
    PathFault::new("this is no path of fields").hint(hint)
}

/// The place of a lookup: a type, and the message if there is one.
#[derive(Clone, Copy)]
struct Look<'m> {
    descriptor: &'m MessageDescriptor,
    message: Option<&'m DynamicMessage>,
    is_root: bool,
    /// The number of `Any`s around it.
    depth: usize,
}

impl Look<'_> {
    /// The kind of the field at the end of a path; `None` if nobody knows what is in an `Any` on it.
    fn kind(self, parts: &[PathPart]) -> Result<Option<Kind>, PathFault> {
        if any::is_any(self.descriptor) {
            let Some(message) = self.message else { return Ok(None) };
            let content = any::open(message).filter(|_| self.depth < any::MAX_DEPTH);
            let content = content.ok_or_else(|| {
                let hint = "write it in the resource, with the values that all nodes share";
                PathFault::new("the `Any` on this path is empty, or of an unknown type").hint(hint)
            })?;
            let (descriptor, message) = (&content.descriptor(), Some(&content));
            return Look { descriptor, message, is_root: false, depth: self.depth + 1 }.kind(parts);
        }
        let (field, rest) = self.field(parts)?;
        forbidden::check(self.descriptor, &field, self.is_root)?;
        let held = self.message.map(|message| message.get_field(&field));
        let (kind, value, rest) = self.value(&field, held.as_deref(), rest)?;
        match (kind, rest) {
            (kind, []) => leaf(&field, kind).map(Some),
            (Kind::Message(inner), rest) => {
                let nothing = DynamicMessage::new(inner.clone());
                let value = value.and_then(Value::as_message);
                let message = self.message.map(|_| value.unwrap_or(&nothing));
                let (is_root, depth) = (false, self.depth);
                Look { descriptor: &inner, message, is_root, depth }.kind(rest)
            }
            (_, _) => {
                let name = field.name();
                Err(PathFault::new(format!("`{name}` is no message, and has no fields")))
            }
        }
    }

    fn field<'p>(
        &self,
        parts: &'p [PathPart],
    ) -> Result<(FieldDescriptor, &'p [PathPart]), PathFault> {
        let name = self.descriptor.name();
        if Special::of(self.descriptor).is_some() {
            return Err(PathFault::new(format!("a `{name}` has no fields that can be set alone")));
        }
        let Some((PathPart::Field(wanted), rest)) = parts.split_first() else {
            return Err(PathFault::new(format!(
                "`{name}` is a message, and neither a list nor a map"
            )));
        };
        let found = self
            .descriptor
            .get_field_by_name(wanted)
            .or_else(|| self.descriptor.get_field_by_json_name(wanted));
        let Some(field) = found else {
            let fields: Vec<_> = self.descriptor.fields().collect();
            let closest = closest(wanted, fields.iter().map(|field| field.name()));
            return Err(PathFault {
                is_unknown: true,
                message: format!("unknown field `{}`: `{name}` has none such", Short(wanted)),
                hint: closest.map(|name| did_you_mean(wanted, name)),
            });
        };
        Ok((field, rest))
    }

    /// The kind of a value of a field, the value if it is there, and the path behind. `value` is all of the field.
    fn value<'v, 'p>(
        self,
        field: &FieldDescriptor,
        value: Option<&'v Value>,
        rest: &'p [PathPart],
    ) -> Result<(Kind, Option<&'v Value>, &'p [PathPart]), PathFault> {
        let name = field.name();
        if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
            let Some((PathPart::Key(key), rest)) = rest.split_first() else {
                let hint = format!("name one of its keys, as in `{name}[\"key\"]`");
                return Err(PathFault::new(format!("`{name}` is a map")).hint(hint));
            };
            let (key_field, kind) =
                (entry.map_entry_key_field(), entry.map_entry_value_field().kind());
            let no_key = || PathFault::new(format!("`{}` is no key of `{name}`", Short(key)));
            let key = map_key(&key_field.kind(), key).ok_or_else(no_key)?;
            let found = value.and_then(Value::as_map).and_then(|map| map.get(&key));
            if value.is_some() && found.is_none() {
                return Err(no_key().hint("the resource needs an ordinary value there"));
            }
            return Ok((kind, found, rest));
        }
        if !field.is_list() {
            let is_set = self.message.is_some_and(|message| message.has_field(field));
            return Ok((field.kind(), value.filter(|_| is_set), rest));
        }
        let Some((PathPart::Index(index), rest)) = rest.split_first() else {
            let hint = format!("say which item, as in `{name}[0]`");
            return Err(PathFault::new(format!("`{name}` is a list")).hint(hint));
        };
        let Some(items) = value.and_then(Value::as_list) else {
            return Ok((field.kind(), None, rest));
        };
        match items.get(*index) {
            Some(item) => Ok((field.kind(), Some(item), rest)),
            None => Err(PathFault::new(format!(
                "`{name}` has {} items, and none has number {index}, from 0",
                items.len()
            ))),
        }
    }
}

/// The kind of a field at the end of a path.
fn leaf(field: &FieldDescriptor, kind: Kind) -> Result<Kind, PathFault> {
    let name = field.name();
    match &kind {
        Kind::Message(message) => match Special::of(message) {
            Some(Special::Duration) => Ok(kind),
            Some(Special::Wrapper) if !message.full_name().ends_with(".BytesValue") => Ok(kind),
            Some(_) => {
                let of = message.name();
                Err(PathFault::new(format!("`{name}` is a `{of}`, which has no value of a node")))
            }
            None => {
                let of = message.name();
                let hint = format!("go on with one of its fields, as in `{name}.FIELD`");
                Err(PathFault::new(format!("`{name}` is a message `{of}`")).hint(hint))
            }
        },
        Kind::Bytes => Err(PathFault::new(format!("`{name}` has bytes, and no value of a node"))),
        _ => Ok(kind),
    }
}

fn set(message: &mut DynamicMessage, parts: &[PathPart], value: Value, depth: usize) -> Option<()> {
    if any::is_any(&message.descriptor()) {
        let mut content = any::open(message).filter(|_| depth < any::MAX_DEPTH)?;
        set(&mut content, parts, value, depth + 1)?;
        let bytes = Value::Bytes(content.encode_to_vec().into());
        return message.try_set_field_by_number(any::VALUE, bytes).ok();
    }
    let (PathPart::Field(name), mut rest) = parts.split_first()? else { return None };
    let descriptor = message.descriptor();
    let field = descriptor.get_field_by_name(name);
    let field = field.or_else(|| descriptor.get_field_by_json_name(name))?;
    let mut slot = message.get_field_mut(&field);
    if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
        let (PathPart::Key(key), behind) = rest.split_first()? else { return None };
        let key: MapKey = map_key(&entry.map_entry_key_field().kind(), key)?;
        (slot, rest) = (slot.as_map_mut()?.get_mut(&key)?, behind);
    } else if field.is_list() {
        let (PathPart::Index(index), behind) = rest.split_first()? else { return None };
        (slot, rest) = (slot.as_list_mut()?.get_mut(*index)?, behind);
    }
    if rest.is_empty() {
        *slot = value;
        return Some(());
    }
    set(slot.as_message_mut()?, rest, value, depth)
}

fn get(message: &DynamicMessage, parts: &[PathPart], depth: usize) -> Option<Value> {
    let descriptor = message.descriptor();
    if any::is_any(&descriptor) {
        let content = any::open(message).filter(|_| depth < any::MAX_DEPTH)?;
        return get(&content, parts, depth + 1);
    }
    let (PathPart::Field(name), mut rest) = parts.split_first()? else { return None };
    let field = descriptor.get_field_by_name(name);
    let field = field.or_else(|| descriptor.get_field_by_json_name(name))?;
    let held = message.has_field(&field).then(|| message.get_field(&field))?;
    let mut value: &Value = &held;
    if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
        let (PathPart::Key(key), behind) = rest.split_first()? else { return None };
        let key: MapKey = map_key(&entry.map_entry_key_field().kind(), key)?;
        (value, rest) = (value.as_map()?.get(&key)?, behind);
    } else if field.is_list() {
        let (PathPart::Index(index), behind) = rest.split_first()? else { return None };
        (value, rest) = (value.as_list()?.get(*index)?, behind);
    }
    match rest {
        [] => Some(value.clone()),
        rest => get(value.as_message()?, rest, depth),
    }
}

/// Gives the fields on a path the names of the descriptors, as far as it leads.
fn name_fields(message: &DynamicMessage, parts: &mut [PathPart], depth: usize) -> Option<()> {
    let descriptor = message.descriptor();
    if any::is_any(&descriptor) {
        let content = any::open(message).filter(|_| depth < any::MAX_DEPTH)?;
        return name_fields(&content, parts, depth + 1);
    }
    let (PathPart::Field(name), mut rest) = parts.split_first_mut()? else { return None };
    let field = descriptor.get_field_by_name(name);
    let field = field.or_else(|| descriptor.get_field_by_json_name(name))?;
    field.name().clone_into(name);
    let held = message.get_field(&field);
    let mut value: &Value = &held;
    if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
        let (PathPart::Key(key), behind) = rest.split_first_mut()? else { return None };
        let key: MapKey = map_key(&entry.map_entry_key_field().kind(), key)?;
        (value, rest) = (value.as_map()?.get(&key)?, behind);
    } else if field.is_list() {
        let (PathPart::Index(index), behind) = rest.split_first_mut()? else { return None };
        (value, rest) = (value.as_list()?.get(*index)?, behind);
    }
    name_fields(value.as_message()?, rest, depth)
}

/// As it is written.
impl fmt::Display for ValuePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, part) in self.0.iter().enumerate() {
            match part {
                PathPart::Field(name) if at == 0 => f.write_str(name)?,
                PathPart::Field(name) => write!(f, ".{name}")?,
                PathPart::Index(index) => write!(f, "[{index}]")?,
                // As it is read: JSON escapes other characters than Rust does.
                PathPart::Key(key) => write!(f, "[{}]", serde_json::Value::from(key.as_str()))?,
            }
        }
        Ok(())
    }
}

/// The bytes of a path.
const MAX_BYTES: usize = 1024;

/// The steps of a path. Messages are not nested deeper than clients decode them.
const MOST_PARTS: usize = 200;
