//! The comparison of the items of a list.

use prost_reflect::Value;

/// An item of a list, as it is compared with others.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Item<'v> {
    Text(&'v str),
    Bytes(&'v [u8]),
    Integer(i64),
    Unsigned(u64),
    Float(u64),
}

impl<'v> Item<'v> {
    /// The item, or `None` for one that is equal to no other.
    pub(super) fn of(value: &'v Value) -> Option<Self> {
        // A negative zero is a zero.
        let float = |value: f64| (!value.is_nan()).then(|| Self::Float((value + 0.0).to_bits()));
        match value {
            Value::String(text) => Some(Self::Text(text)),
            Value::Bytes(bytes) => Some(Self::Bytes(bytes)),
            Value::Bool(value) => Some(Self::Integer((*value).into())),
            Value::I32(value) | Value::EnumNumber(value) => Some(Self::Integer((*value).into())),
            Value::I64(value) => Some(Self::Integer(*value)),
            Value::U32(value) => Some(Self::Unsigned((*value).into())),
            Value::U64(value) => Some(Self::Unsigned(*value)),
            Value::F32(value) => float((*value).into()),
            Value::F64(value) => float(*value),
            Value::Message(_) | Value::List(_) | Value::Map(_) => None,
        }
    }
}
