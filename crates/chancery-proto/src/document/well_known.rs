//! Reading the messages that have a special JSON form ([`Special`]).
//!
//! A value in another form is a fault that names the expected one. Not here: which messages these
//! are (`special`), all other messages (`message`), and an `Any` (`typed`).

use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, Value as Field};
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use super::reader::MessageReader;
use super::scalar::Mismatch;
use super::special::{Special, duration, message_with};
use crate::syntax::{PathStep, TreeNode, TreeValue};

impl<'n> MessageReader<'_, 'n> {
    /// Reads a message in its special form.
    pub(super) fn special(
        &mut self,
        special: Special,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        match special {
            Special::Any => self.any(descriptor, node),
            Special::Duration => self.duration(descriptor, node),
            Special::Timestamp => {
                self.text_form(descriptor, node, "a time such as `2026-01-31T23:59:59Z`")
            }
            Special::FieldMask => {
                self.text_form(descriptor, node, "fields such as `name,otherName`")
            }
            Special::Struct => self.struct_message(descriptor, node),
            Special::Value => self.value_message(descriptor, node),
            Special::ListValue => self.list_value(descriptor, node),
            Special::Wrapper => {
                let kind = descriptor.get_field(1)?.kind();
                self.read_value(&kind, node).map(|value| message_with(descriptor, [(1, value)]))
            }
        }
    }

    fn duration(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        if let Some((seconds, nanos)) = node.text().and_then(duration) {
            let fields = [(1, Field::I64(seconds)), (2, Field::I32(nanos))];
            return Some(message_with(descriptor, fields));
        }
        self.mismatch(node, Mismatch::Expected("a duration in seconds such as `1.5s`".to_owned()))
    }

    /// Reads the forms that are one text and rare; the deserializer of `prost-reflect` parses them.
    fn text_form(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
        expected: &str,
    ) -> Option<DynamicMessage> {
        let parsed = node.text().and_then(|text| {
            let text: StrDeserializer<'_, Error> = text.into_deserializer();
            DynamicMessage::deserialize(descriptor.clone(), text).ok()
        });
        parsed.or_else(|| self.mismatch(node, Mismatch::Expected(expected.to_owned())))
    }

    fn struct_message(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        let entries = self.mapping(node, "a mapping")?;
        let entry = descriptor.get_field(1)?.kind();
        let value_kind = entry.as_message()?.map_entry_value_field().kind();
        let mut fields = std::collections::HashMap::with_capacity(entries.len());
        self.depth += 1;
        for entry in entries {
            self.path.push(PathStep::Key(&entry.key));
            if let Some(value) = self.read_value(&value_kind, &entry.node) {
                fields.insert(prost_reflect::MapKey::String(entry.key.to_string()), value);
            }
            self.path.pop();
        }
        self.depth -= 1;
        (fields.len() == entries.len()).then(|| message_with(descriptor, [(1, Field::Map(fields))]))
    }

    /// Reads a `google.protobuf.Value`, which can be anything that JSON can say.
    fn value_message(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        let number = match node.value() {
            TreeValue::Null => 1,
            TreeValue::Number(_) => 2,
            TreeValue::Bool(_) => 4,
            TreeValue::Mapping(_) => 5,
            TreeValue::Sequence(_) => 6,
            _ => 3,
        };
        let kind = descriptor.get_field(number)?.kind();
        let value = self.read_value(&kind, node)?;
        if value.as_f64().is_some_and(|number| !number.is_finite()) {
            return self.mismatch(node, Mismatch::Expected("a finite number".to_owned()));
        }
        Some(message_with(descriptor, [(number, value)]))
    }

    fn list_value(
        &mut self,
        descriptor: &MessageDescriptor,
        node: &'n TreeNode<'_>,
    ) -> Option<DynamicMessage> {
        let TreeValue::Sequence(nodes) = node.value() else {
            return self.mismatch(node, Mismatch::Expected("a list".to_owned()));
        };
        let Kind::Message(value) = descriptor.get_field(1)?.kind() else { return None };
        let mut values = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            self.path.push(PathStep::Index(index));
            values.extend(self.message(&value, node).map(Field::Message));
            self.path.pop();
        }
        (values.len() == nodes.len()).then(|| message_with(descriptor, [(1, Field::List(values))]))
    }
}
