//! Scalars as the fields of messages: the JSON mapping of proto3, and the forms of protobuf text.
//!
//! These functions know only the kind of the field and the value. Its position and path are known
//! to [`super::reader`].

use chancery_core::base64;
use prost_reflect::bytes::Bytes;
use prost_reflect::{EnumDescriptor, Kind, MapKey, Value as Field};

use super::dialect::Dialect;
use crate::syntax::{TreeNode, TreeValue, closest, did_you_mean, float, integer};

/// The reason why a value does not fit.
pub(super) enum Mismatch {
    /// The value is of another sort. The text says what was expected.
    Expected(String),
    /// The value is of the right sort but not valid: a message, and a hint if there is one.
    Invalid(String, Option<String>),
}

type Fit<T> = Result<T, Mismatch>;

/// Reads a value of a kind that is not a message.
pub(super) fn scalar(kind: &Kind, node: &TreeNode<'_>, dialect: Dialect) -> Fit<Field> {
    let whole = |type_name, min, max| whole_number(node, dialect, type_name, min, max);
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            whole("int32", i32::MIN.into(), i32::MAX.into()).map(|number| Field::I32(number as i32))
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            whole("int64", i64::MIN.into(), i64::MAX.into()).map(|number| Field::I64(number as i64))
        }
        Kind::Uint32 | Kind::Fixed32 => {
            whole("uint32", 0, u32::MAX.into()).map(|number| Field::U32(number as u32))
        }
        Kind::Uint64 | Kind::Fixed64 => {
            whole("uint64", 0, u64::MAX.into()).map(|number| Field::U64(number as u64))
        }
        Kind::Double => number(node, dialect).map(Field::F64),
        Kind::Float => float32(node, dialect).map(Field::F32),
        Kind::Bool => boolean(node, dialect).map(Field::Bool),
        Kind::String => text(node).map(|text| Field::String(text.to_owned())),
        Kind::Bytes => bytes(node, dialect).map(Field::Bytes),
        Kind::Enum(descriptor) => enum_number(descriptor, node, dialect).map(Field::EnumNumber),
        Kind::Message(descriptor) => {
            Err(Mismatch::Expected(format!("a message `{}`", descriptor.name())))
        }
    }
}

/// Reads the key of a map, which JSON writes as a text for every kind.
pub(super) fn map_key(kind: &Kind, text: &str) -> Fit<MapKey> {
    fn parsed<T: std::str::FromStr>(text: &str, expected: &str) -> Fit<T> {
        text.parse().map_err(|_| Mismatch::Expected(format!("{expected} as key")))
    }
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => parsed(text, "an int32").map(MapKey::I32),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => parsed(text, "an int64").map(MapKey::I64),
        Kind::Uint32 | Kind::Fixed32 => parsed(text, "a uint32").map(MapKey::U32),
        Kind::Uint64 | Kind::Fixed64 => parsed(text, "a uint64").map(MapKey::U64),
        Kind::Bool => parsed(text, "`true` or `false`").map(MapKey::Bool),
        _ => Ok(MapKey::String(text.to_owned())),
    }
}

/// Reads a whole number, which JSON writes as a number or as a text.
fn whole_number(
    node: &TreeNode<'_>,
    dialect: Dialect,
    name: &str,
    min: i128,
    max: i128,
) -> Fit<i128> {
    let expected = || Mismatch::Expected(format!("a whole number ({name})"));
    let number = match node.value() {
        TreeValue::Number(text) => integer(text).ok_or_else(|| no_whole_number(text, &expected)),
        TreeValue::Text(text) if dialect == Dialect::Json && is_json_number(text) => {
            integer(text).ok_or_else(expected)
        }
        _ => Err(expected()),
    }?;
    if (min..=max).contains(&number) {
        return Ok(number);
    }
    Err(Mismatch::Invalid(format!("{number} is out of range for {name} ({min} to {max})"), None))
}

/// The mismatch of a number that is not whole: it has a fraction, or is too large for every kind.
fn no_whole_number(text: &str, expected: &impl Fn() -> Mismatch) -> Mismatch {
    match float(text) {
        Some(number) if number.is_finite() && number.fract() == 0.0 => {
            Mismatch::Invalid("the number is out of range".to_owned(), None)
        }
        _ => expected(),
    }
}

fn float32(node: &TreeNode<'_>, dialect: Dialect) -> Fit<f32> {
    let wide = number(node, dialect)?;
    let narrow = wide as f32;
    if wide.is_finite() && narrow.is_infinite() {
        return Err(Mismatch::Invalid("the number is out of range for float".to_owned(), None));
    }
    Ok(narrow)
}

fn number(node: &TreeNode<'_>, dialect: Dialect) -> Fit<f64> {
    let expected = || Mismatch::Expected("a number".to_owned());
    let number = match node.value() {
        TreeValue::Number(text) => {
            let number = float(text).ok_or_else(expected)?;
            if number.is_infinite()
                && !text.contains("inf")
                && !text.contains("INF")
                && !text.contains("Inf")
            {
                let message = "the number is out of range for double".to_owned();
                return Err(Mismatch::Invalid(message, None));
            }
            Some(number)
        }
        TreeValue::Text(text) if dialect == Dialect::Json => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            digits if is_json_number(digits) => float(digits).filter(|number| number.is_finite()),
            _ => None,
        },
        TreeValue::Word("nan") => Some(f64::NAN),
        TreeValue::Word("inf" | "infinity") => Some(f64::INFINITY),
        _ => None,
    };
    number.ok_or_else(expected)
}

/// Returns true for a text that is a number of JSON. YAML's own forms, such as `0x10`, do not
/// count.
fn is_json_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
        && text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
}

fn boolean(node: &TreeNode<'_>, dialect: Dialect) -> Fit<bool> {
    match node.value() {
        TreeValue::Bool(value) => Ok(*value),
        TreeValue::Word("true" | "True" | "t") => Ok(true),
        TreeValue::Word("false" | "False" | "f") => Ok(false),
        TreeValue::Number(text) if dialect == Dialect::Text && text == "1" => Ok(true),
        TreeValue::Number(text) if dialect == Dialect::Text && text == "0" => Ok(false),
        _ => Err(Mismatch::Expected("`true` or `false`".to_owned())),
    }
}

fn text<'n>(node: &'n TreeNode<'_>) -> Fit<&'n str> {
    node.text().ok_or_else(|| Mismatch::Expected("a text".to_owned()))
}

fn bytes(node: &TreeNode<'_>, dialect: Dialect) -> Fit<Bytes> {
    match (node.value(), dialect) {
        (TreeValue::Text(text), Dialect::Json) => base64::decode(text)
            .map(Bytes::from)
            .ok_or_else(|| Mismatch::Invalid("the text is no base64".to_owned(), None)),
        (TreeValue::Text(text), Dialect::Text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
        (TreeValue::Bytes(bytes), _) => Ok(Bytes::copy_from_slice(bytes)),
        _ => Err(Mismatch::Expected("bytes as base64".to_owned())),
    }
}

/// Reads an enum value by name or by number. A number that is not declared is refused like an
/// unknown name.
fn enum_number(descriptor: &EnumDescriptor, node: &TreeNode<'_>, dialect: Dialect) -> Fit<i32> {
    let name = match (node.value(), dialect) {
        (TreeValue::Text(text), Dialect::Json) => &**text,
        (TreeValue::Word(text), Dialect::Text) => text,
        (TreeValue::Number(text), _) => return declared_number(descriptor, text),
        (TreeValue::Null, _) if descriptor.full_name() == "google.protobuf.NullValue" => {
            return Ok(0);
        }
        _ => return Err(Mismatch::Expected(format!("a value of `{}`", descriptor.name()))),
    };
    if let Some(value) = descriptor.get_value_by_name(name) {
        return Ok(value.number());
    }
    let values: Vec<_> = descriptor.values().collect();
    let hint = match closest(name, values.iter().map(|value| value.name())) {
        Some(closest) => did_you_mean(name, closest),
        None => one_of(values.iter().map(|value| value.name())),
    };
    Err(Mismatch::Invalid(format!("`{}` has no such value", descriptor.name()), Some(hint)))
}

fn declared_number(descriptor: &EnumDescriptor, text: &str) -> Fit<i32> {
    let number = integer(text).and_then(|number| i32::try_from(number).ok());
    match number.and_then(|number| descriptor.get_value(number)) {
        Some(value) => Ok(value.number()),
        None => Err(Mismatch::Invalid(format!("`{}` has no such value", descriptor.name()), None)),
    }
}

/// A list of names for a hint, cut after the first few.
fn one_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 12;
    let mut names: Vec<_> = names.take(MOST + 1).map(|name| format!("`{name}`")).collect();
    if names.len() > MOST {
        names[MOST] = "…".to_owned();
    }
    format!("expected one of {}", names.join(", "))
}
