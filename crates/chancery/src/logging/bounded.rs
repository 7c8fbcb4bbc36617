//! Text in a line of the log, escaped, as far as there is room.
//!
//! A writer that is full stops whoever writes to it, so a text costs what is shown of it, however
//! long it is. Not here: the form of a line (`format`).

use std::fmt::{self, Write};

use chancery_core::printable::{PrintForm, is_printable, printable};

/// The sign of a text that did not fit.
pub(super) const CUT: &str = "… (cut)";

/// The notation in which a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// A line for people.
    Text,
    /// A string of JSON, between its quotes.
    JsonString,
}

/// A writer that appends to a line until that is full, and then fails. A character is escaped whole
/// or left out.
pub(super) struct BoundedText<'l> {
    notation: Notation,
    line: &'l mut String,
    /// The bytes that the line may have.
    end: usize,
}

impl Notation {
    fn keeps(self, character: char) -> bool {
        match character {
            '"' | '\\' => self == Self::Text,
            _ => is_printable(character),
        }
    }

    fn escaped(self, character: char) -> String {
        let mut utf8 = [0; 4];
        let text = &*character.encode_utf8(&mut utf8);
        match (self, character) {
            (Self::Text, _) => printable(text, PrintForm::Line).into_owned(),
            (Self::JsonString, '"' | '\\') => format!("\\{character}"),
            (Self::JsonString, '\n') => "\\n".to_owned(),
            (Self::JsonString, _) => printable(text, PrintForm::Json).into_owned(),
        }
    }
}

impl<'l> BoundedText<'l> {
    pub(super) fn new(notation: Notation, line: &'l mut String, end: usize) -> Self {
        Self { notation, line, end }
    }

    /// Appends this as it is, if there is room for all of it.
    pub(super) fn push_whole(&mut self, text: &str) -> fmt::Result {
        if text.len() > self.room() {
            return self.fill();
        }
        self.line.push_str(text);
        Ok(())
    }

    fn room(&self) -> usize {
        self.end.saturating_sub(self.line.len())
    }

    /// Takes nothing more from now on, whoever goes on writing.
    fn fill(&mut self) -> fmt::Result {
        self.end = 0;
        Err(fmt::Error)
    }
}

impl Write for BoundedText<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        loop {
            // The part that does not fit is not looked at.
            let fitting = &rest[..rest.floor_char_boundary(self.room())];
            let escaped = fitting.find(|character| !self.notation.keeps(character));
            let Some(at) = escaped else {
                self.line.push_str(fitting);
                return if fitting.len() == rest.len() { Ok(()) } else { self.fill() };
            };
            self.line.push_str(&rest[..at]);
            let mut from = rest[at..].chars();
            if let Some(character) = from.next() {
                self.push_whole(&self.notation.escaped(character))?;
            }
            rest = from.as_str();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Display;

    use super::*;

    #[test]
    fn a_text_is_cut_where_the_line_ends_and_an_escape_is_never_halved() {
        let odd = "a\u{1b}ä\"\u{202e}\n\\🦀\u{e0041}";
        for notation in [Notation::Text, Notation::JsonString] {
            let mut whole = String::new();
            BoundedText::new(notation, &mut whole, usize::MAX).write_str(odd).unwrap();
            for end in 0..whole.len() {
                let mut line = String::new();
                assert!(BoundedText::new(notation, &mut line, end).write_str(odd).is_err());
                assert!(line.len() <= end && whole.starts_with(&line), "{line:?}");
                let json = format!("\"{line}\"");
                let is_whole = serde_json::from_str::<String>(&json).is_ok();
                assert!(is_whole || notation == Notation::Text, "{json}");
            }
        }
    }

    #[test]
    fn whoever_writes_is_stopped_when_the_line_is_full() {
        struct Endless<'c>(&'c std::cell::Cell<usize>);
        impl Display for Endless<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    self.0.set(self.0.get() + 1);
                    f.write_str("0123456789")?;
                }
            }
        }
        let written = std::cell::Cell::new(0);
        let mut line = String::new();
        let text = &mut BoundedText::new(Notation::Text, &mut line, 25);
        assert!(write!(text, "{}", Endless(&written)).is_err());
        assert_eq!((line.as_str(), written.get()), ("0123456789012345678901234", 3));
    }
}
