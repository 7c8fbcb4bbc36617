//! The path of a field, kept as a stack and written only for a fault.

use std::fmt::Write as _;

use super::tree::Short;

/// One step of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PathStep<'a> {
    /// A field of a message, or a key of configuration.
    Field(&'a str),
    /// An element of a list.
    Index(usize),
    /// A key of a map.
    Key(&'a str),
}

/// The path from the root of a document to the current value.
#[derive(Debug, Default)]
pub(crate) struct FieldPath<'a>(Vec<PathStep<'a>>);

impl<'a> FieldPath<'a> {
    pub(crate) fn push(&mut self, step: PathStep<'a>) {
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
        append(&mut text, PathStep::Field(field));
        text
    }
}

/// Adds one step to a path in text form. Names and keys are cut, because a text may have megabytes
/// of a key and many faults below it.
pub(crate) fn append(text: &mut String, step: PathStep<'_>) {
    // Writing to a string cannot fail.
    let _ = match step {
        PathStep::Field(name) if text.is_empty() => write!(text, "{}", Short(name)),
        PathStep::Field(name) => write!(text, ".{}", Short(name)),
        PathStep::Index(index) => write!(text, "[{index}]"),
        PathStep::Key(key) => match key.char_indices().nth(Short::LONGEST) {
            Some((end, _)) => write!(text, "[{:?}…]", &key[..end]),
            None => write!(text, "[{key:?}]"),
        },
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_is_cut() {
        let long = "x".repeat(100_000);
        let mut path = FieldPath::default();
        path.push(PathStep::Field(&long));
        path.push(PathStep::Key(&long));
        assert!(path.text().len() < 200);
    }
}
