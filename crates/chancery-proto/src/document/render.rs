//! The text form of a fault for people: the message, the place, the line itself, and the hint.

use std::fmt::Write as _;

use chancery_core::printable::{Printable, is_printable};

use crate::syntax::{Fault, Position};

/// Writes a fault with its line, as plain text that ends with a line feed.
///
/// ```text
/// error: clusters[0].conect_timeout: unknown field `conect_timeout`: `Cluster` has none such
///  --> cds.yaml:3:5
///   |
/// 3 |     conect_timeout: 1s
///   |     ^
/// help: did you mean `connect_timeout`?
/// ```
///
/// The line is left out if there is no `text` or if the fault is confidential. A [`Renderer`] writes
/// many faults of one text.
pub fn render(fault: &Fault, file: &str, text: Option<&str>) -> String {
    Renderer::new(file, text).render(fault)
}

/// Writes the faults of one text as [`render`] does. Faults in the order of their positions cost one
/// walk over the text together, and each of them the part of its line that is shown.
#[derive(Debug)]
pub struct Renderer<'a> {
    file: &'a str,
    text: Option<&'a str>,
    /// The start of the line found last.
    line: TextPlace,
    /// The start of the part of that line that was shown last. A line may be a whole file.
    window: TextPlace,
}

/// A place in a text: its byte, and the number of lines or characters before it.
#[derive(Clone, Copy, Debug, Default)]
struct TextPlace {
    offset: usize,
    before: usize,
}

impl<'a> Renderer<'a> {
    /// A renderer of the faults of this file, which shows lines if there is a text.
    pub fn new(file: &'a str, text: Option<&'a str>) -> Self {
        let start = TextPlace::default();
        Self { file, text, line: start, window: start }
    }

    /// Writes a fault.
    pub fn render(&mut self, fault: &Fault) -> String {
        let mut out = String::from("error: ");
        if !fault.path.is_empty() {
            let _ = write!(out, "{}: ", Printable(&fault.path));
        }
        let _ = write!(out, "{}\n --> {}", Printable(&fault.message), Printable(self.file));
        if let Some(Position { line, column }) = fault.position {
            let _ = write!(out, ":{line}:{column}");
        }
        out.push('\n');
        let shown = self.text.filter(|_| !fault.confidential).zip(fault.position);
        if let Some((text, position)) = shown {
            self.snippet(&mut out, text, position);
        }
        if let Some(hint) = &fault.hint {
            let _ = writeln!(out, "help: {}", Printable(hint));
        }
        out
    }

    /// Adds the line of a position, with a caret below it.
    fn snippet(&mut self, out: &mut String, text: &str, position: Position) {
        let column = (position.column as usize).saturating_sub(1);
        let cut = column.saturating_sub(AROUND);
        if self.seek(text, (position.line as usize).saturating_sub(1), cut).is_none() {
            return;
        }
        let rest = &text[self.window.offset..];
        let (window, behind) = rest.split_at(window_length(rest.chars()));
        let is_line_end = behind.is_empty() || behind.starts_with('\n');
        let window = if is_line_end { window.trim_end_matches('\r') } else { window };
        let before = column.saturating_sub(self.window.before);
        let below: String =
            window.chars().take(before).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let shown: String = window.chars().map(printable).collect();
        let number = position.line.to_string();
        let margin = " ".repeat(number.len());
        let _ = writeln!(out, "{margin} |\n{number} | {shown}\n{margin} | {below}^");
    }

    /// Moves to a line, and in it behind so many characters or to its end. Lines and characters are
    /// counted from the last place, if that is not behind the wanted one. Returns `None` if there is
    /// no such line.
    fn seek(&mut self, text: &str, line: usize, characters: usize) -> Option<()> {
        if line < self.line.before {
            (self.line, self.window) = (TextPlace::default(), TextPlace::default());
        }
        while self.line.before < line {
            let length = text[self.line.offset..].find('\n')?;
            self.line.offset += length + 1;
            self.line.before += 1;
            self.window = TextPlace { offset: self.line.offset, before: 0 };
        }
        if characters < self.window.before {
            self.window = TextPlace { offset: self.line.offset, before: 0 };
        }
        let ahead = characters - self.window.before;
        let passed = text[self.window.offset..].chars().take_while(|c| *c != '\n').take(ahead);
        for character in passed {
            self.window.offset += character.len_utf8();
            self.window.before += 1;
        }
        Some(())
    }
}

/// The bytes of the part of a line that is shown. The end of the line may be far away, and is not
/// looked for.
fn window_length(line: impl Iterator<Item = char>) -> usize {
    line.take_while(|c| *c != '\n').take(2 * AROUND).map(char::len_utf8).sum()
}

/// Replaces characters that a terminal would take for orders. One stays one, so that the caret is
/// below the right one.
fn printable(character: char) -> char {
    if is_printable(character) || character == '\t' { character } else { '\u{fffd}' }
}

/// The number of characters that are shown on both sides of a column, because one line may be a
/// whole file.
const AROUND: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize, column: usize) -> Fault {
        Fault::new("wrong").at(Position::new(line, column))
    }

    #[test]
    fn many_faults_of_a_text_cost_one_walk_over_it() {
        // Whoever looked again at what is before the last fault would find another line or column.
        let text = "some words\n".repeat(1000);
        let other = format!("{}{}", "x".repeat(500 * 11), &text[500 * 11..]);
        let line = "some words ".repeat(1000);
        let other_line = format!("{}{}", "\u{e4}".repeat(250 * 11), &line[500 * 11..]);
        for (text, other, first, second) in [
            (&text, &other, at(501, 1), at(700, 6)),
            (&line, &other_line, at(1, 500 * 11 + AROUND + 1), at(1, 700 * 11 + 6)),
        ] {
            let mut renderer = Renderer::new("a", Some(text));
            renderer.render(&first);
            renderer.text = Some(other);
            assert_eq!(renderer.render(&second), render(&second, "a", Some(text)));
        }
    }

    #[test]
    fn a_line_is_read_as_far_as_it_is_shown() {
        let endless = std::iter::repeat_n('\u{e4}', 2 * AROUND);
        let endless = endless.chain(std::iter::from_fn(|| panic!("the rest was read")));
        assert_eq!(window_length(endless), 2 * 2 * AROUND);
        assert_eq!(window_length("ab\ncd".chars()), 2);
    }

    #[test]
    fn faults_in_any_order_are_written_as_each_alone() {
        let text = format!("\u{e4}b\tc\r\n\n{}\nlast", "\u{e4}x".repeat(300));
        let mut renderer = Renderer::new("a", Some(&text));
        let places =
            [(3, 1), (3, 500), (3, 490), (1, 3), (1, 99), (2, 1), (4, 5), (9, 1), (3, 601)];
        for (line, column) in places {
            let fault = at(line, column);
            assert_eq!(renderer.render(&fault), render(&fault, "a", Some(&text)));
        }
    }
}
