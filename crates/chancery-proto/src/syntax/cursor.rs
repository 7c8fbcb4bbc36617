//! A position in a text that moves forward, and knows its line and column.

use super::Position;
use super::tree::Short;

/// The input of the hand-written readers.
pub(super) struct Cursor<'a> {
    text: &'a str,
    offset: usize,
    /// The last position that was asked for. Columns are counted from there, because a text may be
    /// one line of many megabytes.
    place: CountedTo,
}

#[derive(Clone, Copy)]
struct CountedTo {
    offset: usize,
    line: usize,
    column: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of a text, behind its byte order mark.
    pub(super) fn new(text: &'a str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self { text, offset: 0, place: CountedTo { offset: 0, line: 1, column: 1 } }
    }

    /// The next byte. A cursor stops only at ASCII characters, so this is never a part of a
    /// character.
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.offset).copied()
    }

    /// The rest of the text.
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.offset..).unwrap_or("")
    }

    /// The next character, for a message.
    pub(super) fn character(&self) -> Option<Short<'a>> {
        let rest = self.rest();
        rest.chars().next().map(|next| Short(&rest[..next.len_utf8()]))
    }

    /// Moves past `length` bytes and returns them.
    pub(super) fn take(&mut self, length: usize) -> &'a str {
        let rest = self.rest();
        let taken = rest.get(..length).unwrap_or(rest);
        self.offset += taken.len();
        taken
    }

    /// Moves past all bytes that match and returns them.
    pub(super) fn take_while(&mut self, belongs: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        self.take(rest.bytes().position(|byte| !belongs(byte)).unwrap_or(rest.len()))
    }

    /// Moves past `byte` if it is next. Returns true if it was.
    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let eaten = self.peek() == Some(byte);
        self.offset += usize::from(eaten);
        eaten
    }

    /// The position of the next byte.
    pub(super) fn position(&mut self) -> Position {
        let CountedTo { offset, mut line, mut column } = self.place;
        for character in self.text.get(offset..self.offset).unwrap_or("").chars() {
            if character == '\n' {
                (line, column) = (line + 1, 1);
            } else {
                column += 1;
            }
        }
        self.place = CountedTo { offset: self.offset, line, column };
        Position::new(line, column)
    }
}
