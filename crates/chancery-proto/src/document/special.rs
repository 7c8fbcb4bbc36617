//! The messages that JSON writes in a form of their own, such as `1.5s` for a duration.

use prost_reflect::{DynamicMessage, MessageDescriptor, Value as Field};

/// The special JSON form of a message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Any,
    Duration,
    Timestamp,
    FieldMask,
    Struct,
    Value,
    ListValue,
    /// A scalar that can be absent.
    Wrapper,
}

impl Special {
    /// The form of a type. The result is `None` for messages that are written as their fields.
    pub(crate) fn of(descriptor: &MessageDescriptor) -> Option<Self> {
        Some(match descriptor.full_name().strip_prefix("google.protobuf.")? {
            "Any" => Self::Any,
            "Duration" => Self::Duration,
            "Timestamp" => Self::Timestamp,
            "FieldMask" => Self::FieldMask,
            "Struct" => Self::Struct,
            "Value" => Self::Value,
            "ListValue" => Self::ListValue,
            "BoolValue" | "BytesValue" | "DoubleValue" | "FloatValue" | "Int32Value"
            | "Int64Value" | "StringValue" | "UInt32Value" | "UInt64Value" => Self::Wrapper,
            _ => return None,
        })
    }
}

/// Creates a message of a well-known type with these fields.
pub(super) fn message_with<const N: usize>(
    descriptor: &MessageDescriptor,
    fields: [(u32, Field); N],
) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (number, value) in fields {
        // The kinds come from the descriptor, or are those of Google's definition, so this cannot
        // fail.
        let _ = message.try_set_field_by_number(number, value);
    }
    message
}

/// Parses a duration such as `-1.5s` into seconds and nanoseconds, within the range of protobuf.
pub(crate) fn duration(text: &str) -> Option<(i64, i32)> {
    const LONGEST: i64 = 315_576_000_000;
    let digits = text.strip_suffix('s')?;
    let (sign, digits) = digits.strip_prefix('-').map_or((1, digits), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = whole.parse().ok().filter(|seconds| *seconds <= LONGEST)?;
    let nanos: i32 = format!("{fraction:0<9}").parse().ok()?;
    (seconds < LONGEST || nanos == 0).then_some((sign * seconds, sign as i32 * nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds_with_at_most_nine_places() {
        assert_eq!(duration("1s"), Some((1, 0)));
        assert_eq!(duration("-0.25s"), Some((0, -250_000_000)));
        assert_eq!(duration("1.000000001s"), Some((1, 1)));
        assert_eq!(duration("315576000000s"), Some((315_576_000_000, 0)));
        for text in [
            "",
            "s",
            "1",
            "1m",
            ".5s",
            "1.s",
            "+1s",
            "1.0000000001s",
            "315576000001s",
            "315576000000.1s",
            "99999999999999999999s",
            "1 s",
            "--1s",
        ] {
            assert_eq!(duration(text), None, "{text}");
        }
    }
}
