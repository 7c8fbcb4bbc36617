//! A document as a tree in which every key and value has a position.
//!
//! The readers of YAML, JSON and protobuf text build it. The reader of messages and the
//! deserializer of configuration walk it. Numbers stay as they were written, because only their
//! field decides about their range. A tree is at most [`MAX_DEPTH`] deep, aliases included, so
//! walks need no check of their own.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::rc::Rc;

use chancery_core::printable::is_printable;

use super::tree_size::{ENTRY, INDEXED_ENTRY};
use super::{Fault, Position};

/// The depth to which collections may nest. Clients decode messages at most 100 deep.
pub(crate) const MAX_DEPTH: usize = 128;

/// A value and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TreeNode<'a> {
    pub(crate) value: TreeValue<'a>,
    position: Position,
}

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TreeValue<'a> {
    Null,
    Bool(bool),
    /// A number in its written form.
    Number(Cow<'a, str>),
    Text(Cow<'a, str>),
    /// A bare identifier of protobuf text; YAML and JSON have none.
    Word(&'a str),
    /// A string of protobuf text that is not UTF-8; YAML and JSON have none.
    Bytes(Vec<u8>),
    Sequence(Vec<TreeNode<'a>>),
    Mapping(Vec<MapEntry<'a>>),
    /// A value with an anchor, or an alias of one. It never contains another `Shared` directly.
    Shared(Rc<TreeNode<'a>>),
}

/// A key and its value. Keys are unique except in protobuf text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapEntry<'a> {
    pub(crate) key: Cow<'a, str>,
    pub(crate) key_position: Position,
    pub(crate) node: TreeNode<'a>,
}

impl<'a> TreeNode<'a> {
    pub(crate) fn new(value: TreeValue<'a>, position: Position) -> Self {
        Self { value, position }
    }

    /// The value; an alias is followed.
    pub(crate) fn value(&self) -> &TreeValue<'a> {
        match &self.value {
            TreeValue::Shared(node) => &node.value,
            value => value,
        }
    }

    /// The position of the value. For an alias it is that of the anchor.
    pub(crate) fn position(&self) -> Position {
        match &self.value {
            TreeValue::Shared(node) => node.position,
            _ => self.position,
        }
    }

    /// The entries, if this is a mapping.
    pub(crate) fn entries(&self) -> Option<&[MapEntry<'a>]> {
        match self.value() {
            TreeValue::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// The text, if this is one.
    pub(crate) fn text(&self) -> Option<&str> {
        match self.value() {
            TreeValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.value(), TreeValue::Null)
    }
}

/// The description of a value for a message: short, and with the value only if it may be shown.
pub(crate) struct FoundValue<'n, 'a> {
    pub(crate) node: &'n TreeNode<'a>,
    pub(crate) confidential: bool,
}

impl fmt::Display for FoundValue<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, text): (_, &str) = match self.node.value() {
            TreeValue::Null => return f.write_str("nothing"),
            TreeValue::Sequence(_) => return f.write_str("a list"),
            TreeValue::Mapping(_) => return f.write_str("a mapping"),
            TreeValue::Bytes(_) => return f.write_str("a string of bytes"),
            TreeValue::Shared(_) => return f.write_str("an alias"),
            TreeValue::Bool(true) => ("the boolean", "true"),
            TreeValue::Bool(false) => ("the boolean", "false"),
            TreeValue::Number(text) => ("the number", text),
            TreeValue::Text(text) => ("the text", text),
            TreeValue::Word(text) => ("the word", text),
        };
        if self.confidential { f.write_str(kind) } else { write!(f, "{kind} `{}`", Short(text)) }
    }
}

/// A text in one line, cut to a length that fits in a message.
pub(crate) struct Short<'a>(pub(crate) &'a str);

impl Short<'_> {
    /// The number of characters that are shown.
    pub(super) const LONGEST: usize = 60;
}

impl fmt::Display for Short<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, character) in self.0.chars().enumerate() {
            match character {
                _ if count == Self::LONGEST => return f.write_char('…'),
                odd if !is_printable(odd) => write!(f, "{}", odd.escape_default())?,
                plain => f.write_char(plain)?,
            }
        }
        Ok(())
    }
}

/// An index of the keys of a mapping. Only large mappings are really indexed.
#[derive(Debug, Default)]
pub(crate) struct KeyIndex<'a>(HashMap<Cow<'a, str>, Position>);

/// The number of entries from which on their keys are indexed.
const LARGE: usize = 24;

impl<'a> KeyIndex<'a> {
    /// The size in the tree of one entry more.
    pub(super) fn size_of_entry(entries: &[MapEntry<'a>]) -> usize {
        if entries.len() < LARGE { ENTRY } else { INDEXED_ENTRY }
    }

    /// The position of a key among the entries so far.
    pub(crate) fn first_place(&mut self, entries: &[MapEntry<'a>], key: &str) -> Option<Position> {
        if entries.len() < LARGE {
            return entries.iter().find(|entry| entry.key == key).map(|entry| entry.key_position);
        }
        for entry in &entries[self.0.len()..] {
            self.0.insert(entry.key.clone(), entry.key_position);
        }
        self.0.get(key).copied()
    }
}

/// The fault of a duplicate key.
pub(crate) fn duplicate_key(key: &str, first: Position, second: Position) -> Fault {
    let key = Short(key);
    Fault::new(format!("the key `{key}` is given twice; it was first given at {first}")).at(second)
}

/// The fault of nesting that no client would decode.
pub(crate) fn too_deep(position: Position) -> Fault {
    Fault::new(format!("nested more than {MAX_DEPTH} deep")).at(position)
}
