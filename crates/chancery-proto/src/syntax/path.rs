//! The path of a field, kept as a stack and written only for a fault.

use std::fmt::Write as _;

/// One step of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step<'a> {
    /// A field of a message, or a key of configuration.
    Field(&'a str),
    /// An element of a list.
    Index(usize),
    /// A key of a map.
    Key(&'a str),
}

/// The path from the root of a document to the current value.
#[derive(Debug, Default)]
pub(crate) struct Path<'a>(Vec<Step<'a>>);

impl<'a> Path<'a> {
    pub(crate) fn push(&mut self, step: Step<'a>) {
        self.0.push(step);
    }

    pub(crate) fn pop(&mut self) {
        self.0.pop();
    }

    /// The path as text, as in `clusters[0].metadata["key"]`.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for step in &self.0 {
            append(&mut text, *step);
        }
        text
    }

    /// The path as text, with one more field.
    pub(crate) fn text_with(&self, field: &str) -> String {
        let mut text = self.text();
        append(&mut text, Step::Field(field));
        text
    }
}

/// Adds one step to a path in text form.
pub(crate) fn append(text: &mut String, step: Step<'_>) {
    // Writing to a string cannot fail.
    let _ = match step {
        Step::Field(name) if text.is_empty() => write!(text, "{name}"),
        Step::Field(name) => write!(text, ".{name}"),
        Step::Index(index) => write!(text, "[{index}]"),
        Step::Key(key) => write!(text, "[{key:?}]"),
    };
}
