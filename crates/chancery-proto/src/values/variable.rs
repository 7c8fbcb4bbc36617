//! Variables: the parts of a node that a value may be made of, and what a node states of them.
//!
//! Not here: the text around them (`template`), and the fields that they fill (`path`).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use chancery_core::printable::Printable;
use chancery_core::{Node, Value};

/// A part of a node, as in `node.metadata.port`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variable {
    /// `node.id`.
    Id,
    /// `node.cluster`.
    Cluster,
    /// `node.locality.region`.
    Region,
    /// `node.locality.zone`.
    Zone,
    /// `node.locality.sub_zone`.
    SubZone,
    /// `node.metadata.KEY`, with more keys for what is in a map.
    Metadata(Vec<String>),
}

/// A value that a node states.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatedValue {
    /// A text.
    Text(Arc<str>),
    /// A number, by the bits of its floating-point form.
    Number(u64),
    /// A boolean.
    Bool(bool),
}

/// The values that a node states, of some variables.
pub type Stated = BTreeMap<Variable, StatedValue>;

/// The reason for which a node has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotStated {
    /// The node says nothing there.
    Missing,
    /// The node has a list, a map or `null` there.
    NoValue,
    /// The text is too long.
    TooLong,
    /// The text has a character that is for terminals, as a line break.
    ControlCharacter,
}

/// The variables that have one word, and the words.
const PLAIN: [(&str, Variable); 5] = [
    ("node.id", Variable::Id),
    ("node.cluster", Variable::Cluster),
    ("node.locality.region", Variable::Region),
    ("node.locality.zone", Variable::Zone),
    ("node.locality.sub_zone", Variable::SubZone),
];

const METADATA: &str = "node.metadata.";

impl Variable {
    /// The variable of a text, as of `node.metadata.port`; `None` if it is none.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some((_, plain)) = PLAIN.iter().find(|(word, _)| *word == text) {
            return Some(plain.clone());
        }
        let keys: Vec<_> = text.strip_prefix(METADATA)?.split('.').map(str::to_owned).collect();
        let are_keys = keys.iter().all(|key| !key.is_empty() && !key.contains(['{', '}', '$']));
        (are_keys && keys.len() <= MOST_KEYS).then_some(Self::Metadata(keys))
    }

    /// The words that may be meant by another one.
    pub(crate) fn words() -> impl Iterator<Item = &'static str> {
        PLAIN.iter().map(|(word, _)| *word)
    }

    /// The value that a node states.
    ///
    /// # Errors
    /// If it states none, or none that can be used.
    pub fn of_node(&self, node: &Node) -> Result<StatedValue, NotStated> {
        let text = |text: &str| match text {
            "" => Err(NotStated::Missing),
            text => StatedValue::of_text(text),
        };
        match self {
            Self::Id => text(&node.id),
            Self::Cluster => text(&node.cluster),
            Self::Region => text(&node.locality.region),
            Self::Zone => text(&node.locality.zone),
            Self::SubZone => text(&node.locality.sub_zone),
            Self::Metadata(keys) => of_metadata(&node.metadata, keys),
        }
    }
}

fn of_metadata(
    metadata: &BTreeMap<String, Value>,
    keys: &[String],
) -> Result<StatedValue, NotStated> {
    let (last, before) = keys.split_last().ok_or(NotStated::Missing)?;
    let mut map = metadata;
    for key in before {
        map = match map.get(key) {
            Some(Value::Map(inner)) => inner,
            Some(_) | None => return Err(NotStated::Missing),
        };
    }
    match map.get(last).ok_or(NotStated::Missing)? {
        Value::Text(text) => StatedValue::of_text(text),
        Value::Bool(value) => Ok(StatedValue::Bool(*value)),
        Value::Number(number) if number.is_finite() => Ok(StatedValue::Number(number.to_bits())),
        Value::Number(_) | Value::Null | Value::List(_) | Value::Map(_) => Err(NotStated::NoValue),
    }
}

impl StatedValue {
    fn of_text(text: &str) -> Result<Self, NotStated> {
        match text {
            long if long.len() > MAX_TEXT_BYTES => Err(NotStated::TooLong),
            odd if odd.contains(char::is_control) => Err(NotStated::ControlCharacter),
            text => Ok(Self::Text(text.into())),
        }
    }

    /// The value as it stands in a text.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.as_ref().to_owned(),
            Self::Number(bits) => f64::from_bits(*bits).to_string(),
            Self::Bool(value) => value.to_string(),
        }
    }

    /// The bytes that are kept of it, about.
    pub fn held_bytes(&self) -> usize {
        let text = if let Self::Text(text) = self { text.len() } else { 0 };
        size_of::<Self>() + text
    }
}

/// As it is written between `${` and `}`.
impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata(keys) => write!(f, "{METADATA}{}", Printable(&keys.join("."))),
            plain => match PLAIN.iter().find(|(_, variable)| variable == plain) {
                Some((word, _)) => f.write_str(word),
                None => f.write_str("node"),
            },
        }
    }
}

/// The sort of the value alone: values of metadata are never printed (S-138).
impl fmt::Debug for StatedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text",
            Self::Number(_) => "Number",
            Self::Bool(_) => "Bool",
        })
    }
}

/// The end of a sentence about a node: what it does.
impl fmt::Display for NotStated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("is not stated"),
            Self::NoValue => f.write_str("is no text, number or boolean"),
            Self::TooLong => write!(f, "has more than {MAX_TEXT_BYTES} bytes"),
            Self::ControlCharacter => f.write_str("has a control character"),
        }
    }
}

/// The bytes of a text that a node may state for one variable.
pub const MAX_TEXT_BYTES: usize = 1024;

/// The keys of a variable of the metadata.
const MOST_KEYS: usize = 16;
