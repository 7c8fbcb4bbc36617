//! The rules of one value that is no message, no list and no map, and of durations and times.
//!
//! A check tells which rules a value breaks, and describes a rule when somebody wants the sentence.

use prost_reflect::{DynamicMessage, EnumDescriptor, Value};

use super::limits::Limits;
use super::name::RuleName;
use super::text::{BytesRules, TextRules};

/// The rules of a value, by its kind.
pub(super) enum Check {
    Integer(Limits<i128>),
    Float(Limits<f64>),
    Bool(bool),
    Enum(EnumRules),
    Text(TextRules),
    Bytes(BytesRules),
    /// In nanoseconds.
    Duration(Limits<i128>),
    /// In nanoseconds since 1970.
    Timestamp(Limits<i128>),
}

/// The rules of an enum.
pub(super) struct EnumRules {
    pub(super) of: EnumDescriptor,
    /// The numbers that are defined, in order, if no others are allowed.
    pub(super) defined: Option<Vec<i32>>,
    pub(super) limits: Limits<i128>,
}

impl Check {
    /// Tells `broken` the rules that the value breaks.
    pub(super) fn judge(&self, value: &Value, broken: &mut dyn FnMut(RuleName)) {
        match self {
            Self::Integer(limits) => {
                if let Some(value) = integer(value) {
                    limits.judge(value, broken);
                }
            }
            Self::Float(limits) => {
                if let Some(value) = float(value) {
                    limits.judge(value, broken);
                }
            }
            Self::Bool(constant) => {
                if value.as_bool().is_some_and(|value| value != *constant) {
                    broken(RuleName::BOOL_CONST);
                }
            }
            Self::Enum(rules) => {
                if let Some(number) = value.as_enum_number() {
                    rules.judge(number, broken);
                }
            }
            Self::Text(rules) => {
                if let Some(text) = value.as_str() {
                    rules.judge(text, broken);
                }
            }
            Self::Bytes(rules) => {
                if let Some(bytes) = value.as_bytes() {
                    rules.judge(bytes, broken);
                }
            }
            Self::Duration(limits) => {
                if let Some(message) = value.as_message() {
                    match duration(message) {
                        Some(nanos) => limits.judge(nanos, broken),
                        None => broken(RuleName::DURATION_VALID),
                    }
                }
            }
            Self::Timestamp(limits) => {
                if let Some(message) = value.as_message() {
                    match timestamp(message) {
                        Some(nanos) => limits.judge(nanos, broken),
                        None => broken(RuleName::TIMESTAMP_VALID),
                    }
                }
            }
        }
    }

    /// The sentence of a rule that was broken.
    pub(super) fn describe(&self, rule: RuleName) -> String {
        match self {
            Self::Integer(limits) => limits.describe(rule, |value| value.to_string()),
            Self::Float(limits) => limits.describe(rule, |value| value.to_string()),
            Self::Bool(constant) => format!("must be {constant}"),
            Self::Enum(rules) => rules.describe(rule),
            Self::Text(rules) => rules.describe(rule),
            Self::Bytes(rules) => rules.describe(rule),
            Self::Duration(_) if rule == RuleName::DURATION_VALID => {
                "must be a duration: its seconds and nanoseconds are out of range or differ in their \
                 sign"
                    .to_owned()
            }
            Self::Duration(limits) => limits.describe(rule, seconds),
            Self::Timestamp(_) if rule == RuleName::TIMESTAMP_VALID => {
                "must be a time from the year 1 to the year 9999".to_owned()
            }
            Self::Timestamp(limits) => {
                limits.describe(rule, |nanos| format!("{} since 1970", seconds(nanos)))
            }
        }
    }

    /// The value for a sentence. Texts and bytes are never shown.
    pub(super) fn found(&self, value: &Value) -> Option<String> {
        match self {
            Self::Integer(_) => integer(value).map(|value| value.to_string()),
            Self::Float(_) => match value {
                Value::F32(value) => Some(value.to_string()),
                _ => float(value).map(|value| value.to_string()),
            },
            Self::Enum(rules) => value.as_enum_number().map(|number| rules.shown(number)),
            Self::Duration(_) => duration(value.as_message()?).map(seconds),
            Self::Bool(_) | Self::Text(_) | Self::Bytes(_) | Self::Timestamp(_) => None,
        }
    }
}

impl EnumRules {
    fn judge(&self, number: i32, broken: &mut dyn FnMut(RuleName)) {
        self.limits.judge(number.into(), broken);
        if self.defined.as_ref().is_some_and(|all| all.binary_search(&number).is_err()) {
            broken(RuleName::ENUM_DEFINED_ONLY);
        }
    }

    fn describe(&self, rule: RuleName) -> String {
        if rule == RuleName::ENUM_DEFINED_ONLY {
            return format!("must be a value of `{}`", self.of.name());
        }
        self.limits.describe(rule, |number| {
            i32::try_from(number).map_or_else(|_| number.to_string(), |number| self.shown(number))
        })
    }

    fn shown(&self, number: i32) -> String {
        match self.of.get_value(number) {
            Some(value) => format!("`{}`", value.name()),
            None => number.to_string(),
        }
    }
}

/// The number of an integer of any size.
pub(super) fn integer(value: &Value) -> Option<i128> {
    Some(match value {
        Value::I32(value) => (*value).into(),
        Value::I64(value) => (*value).into(),
        Value::U32(value) => (*value).into(),
        Value::U64(value) => (*value).into(),
        _ => return None,
    })
}

/// The number of a float of any size.
pub(super) fn float(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_f32().map(f64::from))
}

fn seconds_and_nanos(message: &DynamicMessage) -> Option<(i64, i32)> {
    let seconds = message.get_field_by_number(1)?.as_i64()?;
    Some((seconds, message.get_field_by_number(2)?.as_i32()?))
}

fn in_nanos(seconds: i64, nanos: i32) -> i128 {
    i128::from(seconds) * NANOS + i128::from(nanos)
}

/// The nanoseconds of a duration, or `None` if it is none.
pub(super) fn duration(message: &DynamicMessage) -> Option<i128> {
    const LONGEST: i64 = 315_576_000_000;
    let (seconds, nanos) = seconds_and_nanos(message)?;
    let is_valid = (-LONGEST..=LONGEST).contains(&seconds)
        && i128::from(nanos).abs() < NANOS
        && (seconds <= 0 || nanos >= 0)
        && (seconds >= 0 || nanos <= 0);
    is_valid.then(|| in_nanos(seconds, nanos))
}

/// The nanoseconds since 1970 of a time, or `None` if it is none.
pub(super) fn timestamp(message: &DynamicMessage) -> Option<i128> {
    const FIRST: i64 = -62_135_596_800;
    const LAST: i64 = 253_402_300_799;
    let (seconds, nanos) = seconds_and_nanos(message)?;
    let is_valid = (FIRST..=LAST).contains(&seconds) && (0..NANOS).contains(&nanos.into());
    is_valid.then(|| in_nanos(seconds, nanos))
}

const NANOS: i128 = 1_000_000_000;

/// Nanoseconds as files write a duration, as in `1.5s`.
fn seconds(nanos: i128) -> String {
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.abs());
    let (whole, rest) = (nanos / NANOS, nanos % NANOS);
    let rest = format!("{rest:09}");
    match rest.trim_end_matches('0') {
        "" => format!("{sign}{whole}s"),
        rest => format!("{sign}{whole}.{rest}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;

    #[test]
    fn durations_are_exact_and_told_as_files_write_them() {
        let of = |seconds: i64, nanos: i32| {
            let mut message =
                DynamicMessage::new(Schema::bundled().message("google.protobuf.Duration").unwrap());
            message.set_field_by_number(1, Value::I64(seconds));
            message.set_field_by_number(2, Value::I32(nanos));
            message
        };
        assert_eq!(duration(&of(1, 1)), Some(1_000_000_001));
        assert_eq!(duration(&of(315_576_000_000, 999_999_999)), Some(315_576_000_000_999_999_999));
        for (seconds, nanos) in [(315_576_000_001, 0), (1, -1), (-1, 1), (0, 1_000_000_000)] {
            assert_eq!(duration(&of(seconds, nanos)), None);
        }
        assert_eq!(timestamp(&of(0, -1)), None);
        assert_eq!([0, 1_500_000_000, -1].map(seconds), ["0s", "1.5s", "-0.000000001s"]);
    }
}
