//! Fields and values of a message, read from a tree by the descriptor of the message.
//!
//! Both [`Dialect`]s share this code: the JSON mapping of proto3 (YAML and JSON), and protobuf
//! text, which repeats keys instead of nesting lists, writes maps as lists of entries, and has no
//! special forms for the well-known types.
//!
//! Each method returns `None` after it recorded a fault, and the reader goes on behind it, so that
//! all faults of a text are found. The content of an `Any` is read in place, so its faults have
//! positions like all others.

use std::collections::HashMap;

use prost_reflect::{
    DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage,
    Value as Field,
};

use super::dialect::Dialect;
use super::reader::{MessageReader, UNKNOWN_FIELD};
use super::scalar::{self, Mismatch};
use super::special::Special;
use crate::any;
use crate::syntax::{
    MapEntry, PathStep, Position, Short, TreeNode, TreeValue, closest, did_you_mean,
};

/// The fields of a message that were read so far, with their positions.
type GivenFields = Vec<(FieldDescriptor, Position)>;

impl<'n> MessageReader<'_, 'n> {
    /// Reads a message of a known type, if it is not nested deeper than decoders allow.
    pub(super) fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        if self.depth >= MAX_MESSAGE_DEPTH {
            self.fault(node.position(), || {
                (format!("nested in {MAX_MESSAGE_DEPTH} messages; clients go no deeper"), None)
            });
            return None;
        }
        self.depth += 1;
        let message = self.message_within(descriptor, node);
        self.depth -= 1;
        message
    }

    fn message_within(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        if self.dialect == Dialect::Json
            && let Some(special) = Special::of(descriptor)
        {
            return self.special(special, descriptor, node);
        }
        let expected = format!("the fields of `{}`", descriptor.name());
        let entries = self.mapping(node, &expected)?;
        self.fields(descriptor, entries.iter())
    }

    /// Reads the fields of a message.
    pub(super) fn fields<'e>(
        &mut self,
        descriptor: &MessageDescriptor,
        entries: impl Iterator<Item = &'n MapEntry<'e>>,
    ) -> Option<DynamicMessage>
    where
        'e: 'n,
    {
        let before = self.faults.count();
        let mut message = DynamicMessage::new(descriptor.clone());
        let mut given = GivenFields::new();
        let expands = self.dialect == Dialect::Text && any::is_any(descriptor);
        for entry in entries {
            if expands && entry.key.starts_with('[') {
                self.expanded_any(&mut message, entry);
                continue;
            }
            self.path.push(PathStep::Field(&entry.key));
            self.entry(&mut message, &mut given, entry);
            self.path.pop();
        }
        (self.faults.count() == before).then_some(message)
    }

    fn entry(
        &mut self,
        message: &mut DynamicMessage,
        given: &mut GivenFields,
        entry: &'n MapEntry<'_>,
    ) {
        let descriptor = message.descriptor();
        let field = descriptor
            .get_field_by_name(&entry.key)
            .or_else(|| descriptor.get_field_by_json_name(&entry.key));
        let Some(field) = field else { return self.unknown_field(&descriptor, entry) };
        if entry.node.is_null() && !accepts_null(&field) {
            return;
        }
        if !self.may_be_given(given, &field, entry) {
            return;
        }
        if given.iter().all(|(other, _)| other.number() != field.number()) {
            given.push((field.clone(), entry.key_position));
        }
        let Some(value) = self.field(&field, &entry.node) else { return };
        match (message.get_field_mut(&field), value) {
            (Field::List(all), Field::List(more)) => all.extend(more),
            (Field::Map(all), Field::Map(more)) => all.extend(more),
            (slot, value) => *slot = value,
        }
    }

    /// Checks that a field is given once, and only one field of a oneof.
    fn may_be_given(
        &mut self,
        given: &GivenFields,
        field: &FieldDescriptor,
        entry: &MapEntry<'_>,
    ) -> bool {
        let repeats = self.dialect == Dialect::Text && (field.is_list() || field.is_map());
        let oneof = field.containing_oneof();
        for (other, first) in given {
            let name = field.name();
            if other.number() == field.number() {
                if repeats {
                    continue;
                }
                let again = "is given twice; it was first given at";
                self.fault(entry.key_position, || {
                    (format!("the field `{name}` {again} {first}"), None)
                });
            } else if oneof.is_some() && other.containing_oneof() == oneof {
                let rule = "may be set; the other is at";
                self.fault(entry.key_position, || {
                    (format!("only one of `{name}` and `{}` {rule} {first}", other.name()), None)
                });
            } else {
                continue;
            }
            return false;
        }
        true
    }

    fn field(&mut self, field: &FieldDescriptor, node: &'n TreeNode<'_>) -> Option<Field> {
        let kind = field.kind();
        if let (true, Some(entry)) = (field.is_map(), kind.as_message()) {
            return match self.dialect {
                Dialect::Json => self.map(entry, node),
                Dialect::Text => self.map_entries(entry, node),
            };
        }
        if field.is_list() { self.list(&kind, node) } else { self.read_value(&kind, node) }
    }

    fn list(&mut self, kind: &Kind, node: &'n TreeNode<'_>) -> Option<Field> {
        let TreeValue::Sequence(nodes) = node.value() else {
            if self.dialect == Dialect::Text {
                return self.read_value(kind, node).map(|value| Field::List(vec![value]));
            }
            return self.mismatch(node, Mismatch::Expected("a list".to_owned()));
        };
        let mut values = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            self.path.push(PathStep::Index(index));
            values.extend(self.read_value(kind, node));
            self.path.pop();
        }
        (values.len() == nodes.len()).then_some(Field::List(values))
    }

    fn map(&mut self, entry: &MessageDescriptor, node: &'n TreeNode<'_>) -> Option<Field> {
        let entries = self.mapping(node, "a mapping")?;
        let key_kind = entry.map_entry_key_field().kind();
        let value_kind = entry.map_entry_value_field().kind();
        let mut map = HashMap::with_capacity(entries.len());
        self.depth += 1;
        for entry in entries {
            self.path.push(PathStep::Key(&entry.key));
            let value = self.read_value(&value_kind, &entry.node);
            if let (Some(key), Some(value)) = (self.map_key(&key_kind, entry), value)
                && map.insert(key, value).is_some()
            {
                self.fault(entry.key_position, || {
                    ("the map has this key already, in another spelling".to_owned(), None)
                });
            }
            self.path.pop();
        }
        self.depth -= 1;
        (map.len() == entries.len()).then_some(Field::Map(map))
    }

    fn map_key(&mut self, kind: &Kind, entry: &MapEntry<'_>) -> Option<MapKey> {
        match scalar::map_key(kind, &entry.key) {
            Ok(key) => Some(key),
            Err(mismatch) => {
                let key = TreeNode::new(TreeValue::Text(entry.key.clone()), entry.key_position);
                self.mismatch(&key, mismatch)
            }
        }
    }

    /// Reads the entries of a map in protobuf text: messages with a key and a value.
    fn map_entries(&mut self, entry: &MessageDescriptor, node: &'n TreeNode<'_>) -> Option<Field> {
        let (key_field, value_field) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        let Field::List(entries) = self.list(&Kind::Message(entry.clone()), node)? else {
            return None;
        };
        let pair = |entry: &Field| -> Option<(MapKey, Field)> {
            let entry = entry.as_message()?;
            let key = entry.get_field(&key_field).into_owned().into_map_key()?;
            Some((key, entry.get_field(&value_field).into_owned()))
        };
        entries.iter().map(pair).collect::<Option<_>>().map(Field::Map)
    }

    /// Reads one value, which is neither a list nor a map.
    pub(super) fn read_value(&mut self, kind: &Kind, node: &'n TreeNode<'_>) -> Option<Field> {
        match kind {
            Kind::Message(descriptor) => self.message(descriptor, node).map(Field::Message),
            kind => match scalar::scalar(kind, node, self.dialect) {
                Ok(value) => Some(value),
                Err(mismatch) => self.mismatch(node, mismatch),
            },
        }
    }

    fn unknown_field(&mut self, descriptor: &MessageDescriptor, entry: &MapEntry<'_>) {
        self.fault_of(UNKNOWN_FIELD, entry.key_position, || {
            let fields: Vec<_> = descriptor.fields().collect();
            let closest = closest(&entry.key, fields.iter().map(|field| field.name()));
            let hint = match &*entry.key {
                "patch" | "remove" | "values" => {
                    Some("edits stand in a document of their own: write `---` above".to_owned())
                }
                _ => closest.map(|name| did_you_mean(&entry.key, name)),
            };
            let key = Short(&entry.key);
            (format!("unknown field `{key}`: `{}` has none such", descriptor.name()), hint)
        });
    }
}

/// Returns true if `null` is a value of the field. For all other fields `null` means "not set".
fn accepts_null(field: &FieldDescriptor) -> bool {
    match field.kind() {
        _ if field.is_list() || field.is_map() => false,
        Kind::Message(message) => message.full_name() == "google.protobuf.Value",
        Kind::Enum(descriptor) => descriptor.full_name() == "google.protobuf.NullValue",
        _ => false,
    }
}

/// The depth of nested messages at which all protobuf decoders stop.
const MAX_MESSAGE_DEPTH: usize = 100;
