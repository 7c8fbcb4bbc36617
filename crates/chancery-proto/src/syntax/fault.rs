//! What is wrong in a text, and where.
//!
//! A fault never carries a resource's body. It may quote the one scalar it is about, and the
//! rendering shows its line; both are left out when the fault is `confidential`, because a file
//! of secrets must not end up in a log.

use std::fmt;

/// A place in a text, counted in characters from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

/// One thing that is wrong in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, if that is known.
    pub position: Option<Position>,
    /// The path of the field at fault, as in `virtual_hosts[0].routes[1].match`; may be empty.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it, if anything is known to help.
    pub hint: Option<String>,
    /// Whether the text around the fault may hold a secret, and so must not be shown.
    pub confidential: bool,
}

impl Position {
    /// The first character.
    pub const START: Self = Self { line: 1, column: 1 };

    /// The place of a byte in a text; the end of the text if it is shorter.
    pub(crate) fn of_offset(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        Self::new(line, column)
    }

    /// Both from 1. A text of four billion lines is told apart no further.
    pub(crate) fn new(line: usize, column: usize) -> Self {
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        Self { line: narrow(line), column: narrow(column) }
    }
}

impl Fault {
    /// A fault of which only the message is known yet.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            position: None,
            path: String::new(),
            message: message.into(),
            hint: None,
            confidential: false,
        }
    }

    /// Says where.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// Says in which field.
    #[must_use]
    pub fn under(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    /// Says what helps.
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
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}
