//! Faults in a text, with their positions.
//!
//! A fault never contains the body of a resource. It may quote the scalar it is about, and its
//! rendering shows the line. Both are left out for a `confidential` fault, because a file of
//! secrets must not end up in a log.

use std::fmt;

use chancery_core::printable::Printable;

/// A position in a text, counted in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// A fault in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The code of faults of this kind, which is stable, as in `unknown-field`.
    pub code: &'static str,
    /// The position, if it is known.
    pub position: Option<Position>,
    /// The path of the field at fault, as in `virtual_hosts[0].routes[1].match`. It may be empty.
    pub path: String,
    /// The message.
    pub message: String,
    /// Advice, if any is known.
    pub hint: Option<String>,
    /// True if the text around the fault may hold a secret and must not be shown.
    pub confidential: bool,
}

impl Position {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The position of a byte in a text, or the end of a shorter text.
    pub(crate) fn of_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Self::new(line, column)
    }

    /// Creates a position from a line and a column, both from 1. Numbers above four billion become
    /// the largest one.
    pub(crate) fn new(line: usize, column: usize) -> Self {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: narrow(line), column: narrow(column) }
    }
}

/// The code of faults of the language.
const SYNTAX: &str = "syntax";

impl Fault {
    /// Creates a fault with a message only. Its code is that of faults of the language.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: SYNTAX,
            position: None,
            path: String::new(),
            message: message.into(),
            hint: None,
            confidential: false,
        }
    }

    /// Sets the code.
    #[must_use]
    pub fn of_code(mut self, code: &'static str) -> Self {
        self.code = code;
        self
    }

    /// Sets the position.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// Sets the path of the field.
    #[must_use]
    pub fn under(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Keeps the text around the fault from being shown.
    #[must_use]
    pub(crate) fn confidential(mut self) -> Self {
        self.confidential = true;
        self
    }

    /// The fault without anything that it says of the text but its position: no path, no hint, and
    /// nothing in backticks. A number that is out of range stands without them.
    #[must_use]
    pub fn unquoted(self) -> Self {
        let message = self.message.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit());
        let number = if message.len() < self.message.len() { "…" } else { "" };
        let message = match (message.find('`'), message.rfind('`')) {
            (Some(first), Some(last)) if first < last => {
                format!("{number}{}`…`{}", &message[..first], &message[last + 1..])
            }
            (Some(first), _) => format!("{number}{}…", &message[..first]),
            (None, _) => format!("{number}{message}"),
        };
        Self { message, path: String::new(), hint: None, confidential: true, ..self }
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "{position}: ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", Printable(&self.path))?;
        }
        write!(f, "{}", Printable(&self.message))
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unquoted_fault_says_nothing_of_the_text_but_where() {
        let fault =
            Fault::new("unknown field `a`b`: `Cluster` has none such").under("x.a").hint("y");
        let told = fault.at(Position::START).unquoted();
        assert_eq!(told.to_string(), "line 1, column 1: unknown field `…` has none such");
        assert!(told.confidential && told.hint.is_none());
        assert_eq!(Fault::new("no YAML: found `x\'").unquoted().message, "no YAML: found …");
        assert_eq!(Fault::new("-70000 is out of range").unquoted().message, "… is out of range");
        assert_eq!(Fault::new("it ends").unquoted().message, "it ends");
    }
}
