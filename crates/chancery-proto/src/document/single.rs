//! Single values that come from elsewhere than a text, read as the values of a text are.

use prost_reflect::{DynamicMessage, Kind, MapKey, MessageDescriptor, Value as Field};

use super::Position;
use super::dialect::Dialect;
use super::scalar::{self, Mismatch};
use super::special::{duration, message_with};
use crate::syntax::{TreeNode, TreeValue};

/// A value of JSON as one of a kind, which is no message; or a description of the value that was expected.
pub(crate) fn scalar_of_json(kind: &Kind, value: TreeValue<'_>) -> Result<Field, String> {
    let node = TreeNode::new(value, Position::START);
    scalar::scalar(kind, &node, Dialect::Json).map_err(|mismatch| match mismatch {
        Mismatch::Expected(expected) => expected,
        Mismatch::Invalid(..) => match kind {
            Kind::Enum(of) => format!("a value of `{}`", of.name()),
            _ => "a number in range".to_owned(),
        },
    })
}

/// A key of a map, as JSON writes it.
pub(crate) fn map_key(kind: &Kind, text: &str) -> Option<MapKey> {
    scalar::map_key(kind, text).ok()
}

/// A duration such as `1.5s`.
pub(crate) fn duration_message(
    descriptor: &MessageDescriptor,
    text: &str,
) -> Option<DynamicMessage> {
    let (seconds, nanos) = duration(text)?;
    Some(message_with(descriptor, [(1, Field::I64(seconds)), (2, Field::I32(nanos))]))
}

/// A wrapper around a value.
pub(crate) fn wrapper_message(descriptor: &MessageDescriptor, value: Field) -> DynamicMessage {
    message_with(descriptor, [(1, value)])
}
