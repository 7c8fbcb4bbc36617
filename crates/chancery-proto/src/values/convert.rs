//! The value of a node as a value of a field, which it must be exactly.
//!
//! A text is read as JSON has it in quotes: `"8080"` is a number, and `"1.5s"` a duration. Not here: which
//! field that is (`path`).

use prost_reflect::{Kind, Value};

use super::variable::StatedValue;
use crate::document::{Special, duration_message, scalar_of_json, wrapper_message};
use crate::syntax::TreeValue;

/// The value of a field of this kind, or what the field wants.
pub(super) fn convert(kind: &Kind, stated: &StatedValue) -> Result<Value, String> {
    match kind {
        Kind::String => Ok(Value::String(stated.text())),
        Kind::Bool => match stated {
            StatedValue::Bool(value) => Ok(Value::Bool(*value)),
            StatedValue::Text(text) if **text == *"true" => Ok(Value::Bool(true)),
            StatedValue::Text(text) if **text == *"false" => Ok(Value::Bool(false)),
            StatedValue::Text(_) | StatedValue::Number(_) => Err("`true` or `false`".to_owned()),
        },
        Kind::Message(message) => match (Special::of(message), stated) {
            (Some(Special::Duration), StatedValue::Text(text)) => duration_message(message, text)
                .map(Value::Message)
                .ok_or_else(|| "a duration in seconds such as `1.5s`".to_owned()),
            (Some(Special::Wrapper), stated) => {
                let inner = message.get_field(1).ok_or_else(String::new)?.kind();
                Ok(Value::Message(wrapper_message(message, convert(&inner, stated)?)))
            }
            _ => Err("a duration in seconds such as `1.5s`".to_owned()),
        },
        kind => {
            let text = stated.text();
            let value = match stated {
                StatedValue::Text(_) => TreeValue::Text(text.as_str().into()),
                StatedValue::Number(_) => TreeValue::Number(text.as_str().into()),
                StatedValue::Bool(value) => TreeValue::Bool(*value),
            };
            scalar_of_json(kind, value)
        }
    }
}

/// Returns true for a field that may have text around placeholders.
pub(super) fn is_text(kind: &Kind) -> bool {
    match kind {
        Kind::String => true,
        Kind::Message(message) => message.full_name() == "google.protobuf.StringValue",
        _ => false,
    }
}
