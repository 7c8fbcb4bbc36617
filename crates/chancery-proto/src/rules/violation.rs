//! A broken rule, and where it is.

use std::fmt;

use chancery_core::printable::Printable;
use prost_reflect::FieldDescriptor;

use super::name::RuleName;
use crate::syntax::{PathStep, append};

/// A rule that a message breaks.
///
/// Displays as `PATH: MESSAGE, found VALUE`, without the parts that are not known.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// The path of the field, as in `load_assignment.endpoints[0].priority`: fields by the names
    /// of the descriptors, indexes from 0, and keys of maps in quotes. It goes through an `Any` as
    /// if its content stood there.
    pub path: String,
    /// The rule.
    pub rule: RuleName,
    /// The rule in a sentence, as in `must be at most 128`.
    pub message: String,
    /// The value, for numbers, durations and enums alone, and never if the field is sensitive.
    pub found: Option<String>,
    /// True if the field has no value, or the default one.
    pub is_unset: bool,
    pub(crate) steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, PartialEq)]
pub(crate) enum Step {
    Field(FieldDescriptor),
    /// A oneof, of which no field is set.
    Oneof(String),
    Index(usize),
    /// A key of a map in its written form, unless it is long or must not be shown.
    Key(Option<String>),
    /// The content of an `Any`.
    Content,
}

impl Violation {
    /// The sentence with the value, if that may be shown.
    pub fn sentence(&self) -> String {
        match &self.found {
            Some(found) if !self.is_unset => format!("{}, found {found}", self.message),
            _ => self.message.clone(),
        }
    }
}

/// The text of a path.
pub(super) fn path_text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Field(field) => append(&mut text, PathStep::Field(field.name())),
            Step::Oneof(name) => append(&mut text, PathStep::Field(name)),
            Step::Index(index) => append(&mut text, PathStep::Index(*index)),
            Step::Key(Some(key)) => append(&mut text, PathStep::Key(key)),
            Step::Key(None) => text.push_str("[…]"),
            Step::Content => {}
        }
    }
    text
}

/// The step as a path has it. The descriptor of a field would be written with all that it refers to,
/// without an end.
impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&path_text(std::slice::from_ref(self)))
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", Printable(&self.path))?;
        }
        write!(f, "{}", Printable(self.sentence()))
    }
}
