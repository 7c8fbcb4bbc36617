//! The check that a message does not nest too many `Any`s, which would exhaust the stack.

use prost_reflect::{DynamicMessage, ReflectMessage, Value};

use crate::any;

/// Returns true if there are more than [`any::MAX_DEPTH`] levels of `Any`.
pub(super) fn is_too_deep(message: &DynamicMessage) -> bool {
    exceeds(message, any::MAX_DEPTH)
}

fn exceeds(message: &DynamicMessage, levels: usize) -> bool {
    if any::is_any(&message.descriptor()) {
        let Some(levels) = levels.checked_sub(1) else { return true };
        return any::open(message).is_some_and(|inner| exceeds(&inner, levels));
    }
    message.fields().any(|(_, value)| value_exceeds(value, levels))
}

fn value_exceeds(value: &Value, levels: usize) -> bool {
    match value {
        Value::Message(message) => exceeds(message, levels),
        Value::List(values) => values.iter().any(|value| value_exceeds(value, levels)),
        Value::Map(values) => values.values().any(|value| value_exceeds(value, levels)),
        _ => false,
    }
}
