//! The places of the fields in a patch, by the paths that violations have.
//!
//! The text of a patch is gone when it is applied, and whoever reads that it breaks a rule has to find the
//! field. A patch is small, so the places of all its fields are kept. Not here: the place of a path in a text
//! that is at hand (`places`).

use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

use super::scalar;
use super::special::Special;
use crate::any;
use crate::patch::{FieldPlace, FieldPlaces};
use crate::rules::key_text;
use crate::syntax::{PathStep, Position, TreeNode, TreeValue, append};

/// The places of the fields of a message that was read from this node.
pub(super) fn field_places(node: &TreeNode<'_>, message: &DynamicMessage) -> FieldPlaces {
    let mut walk = Walk { start: node.position(), places: FieldPlaces::default() };
    walk.message(node, message, "");
    walk.places
}

struct Walk {
    start: Position,
    places: FieldPlaces,
}

impl Walk {
    fn note(&mut self, path: &str, position: Position) {
        // An alias stands for a text that may be above the patch, which has no place in it.
        let below = position.line.checked_sub(self.start.line);
        let Some(lines_below) = below.and_then(|lines| i32::try_from(lines).ok()) else { return };
        if self.places.0.len() >= MOST_FIELDS {
            return;
        }
        let place = FieldPlace { lines_below, column: position.column };
        self.places.0.insert(path.to_owned(), place);
    }

    fn message(&mut self, node: &TreeNode<'_>, message: &DynamicMessage, path: &str) {
        if self.places.0.len() >= MOST_FIELDS {
            return;
        }
        match Special::of(&message.descriptor()) {
            None => self.fields(node, message, path),
            Some(Special::Any) => {
                let content = any::open(message);
                if let Some(content) = content.filter(|it| Special::of(&it.descriptor()).is_none())
                {
                    self.fields(node, &content, path);
                }
            }
            Some(_) => {}
        }
    }

    fn fields(&mut self, node: &TreeNode<'_>, message: &DynamicMessage, path: &str) {
        let descriptor = message.descriptor();
        for entry in node.entries().unwrap_or_default() {
            let field = descriptor
                .get_field_by_name(&entry.key)
                .or_else(|| descriptor.get_field_by_json_name(&entry.key));
            let Some(field) = field else { continue };
            let mut path = path.to_owned();
            append(&mut path, PathStep::Field(field.name()));
            let is_scalar =
                !matches!(entry.node.value(), TreeValue::Sequence(_) | TreeValue::Mapping(_));
            let position = if is_scalar { entry.node.position() } else { entry.key_position };
            self.note(&path, position);
            self.inside(&field, &entry.node, &message.get_field(&field), &path);
        }
    }

    fn inside(&mut self, field: &FieldDescriptor, node: &TreeNode<'_>, value: &Value, path: &str) {
        match value {
            Value::Message(inner) => self.message(node, inner, path),
            Value::List(values) => {
                let TreeValue::Sequence(nodes) = node.value() else { return };
                for (index, (node, value)) in nodes.iter().zip(values).enumerate() {
                    let mut path = path.to_owned();
                    append(&mut path, PathStep::Index(index));
                    self.note(&path, node.position());
                    if let Value::Message(inner) = value {
                        self.message(node, inner, &path);
                    }
                }
            }
            Value::Map(values) => {
                let Kind::Message(entry_type) = field.kind() else { return };
                let kind = entry_type.map_entry_key_field().kind();
                for entry in node.entries().unwrap_or_default() {
                    let Ok(key) = scalar::map_key(&kind, &entry.key) else { continue };
                    let mut path = path.to_owned();
                    append(&mut path, PathStep::Key(&key_text(&key)));
                    self.note(&path, entry.key_position);
                    if let Some(Value::Message(inner)) = values.get(&key) {
                        self.message(&entry.node, inner, &path);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The number of fields whose places are kept. Those behind are found at the nearest one that is.
const MOST_FIELDS: usize = 1000;
