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
/// The line is left out if there is no `text` or if the fault is confidential.
pub fn render(fault: &Fault, file: &str, text: Option<&str>) -> String {
    let mut out = String::from("error: ");
    if !fault.path.is_empty() {
        let _ = write!(out, "{}: ", Printable(&fault.path));
    }
    let _ = write!(out, "{}\n --> {}", Printable(&fault.message), Printable(file));
    if let Some(Position { line, column }) = fault.position {
        let _ = write!(out, ":{line}:{column}");
    }
    out.push('\n');
    let shown = text.filter(|_| !fault.confidential).zip(fault.position);
    if let Some((text, position)) = shown {
        snippet(&mut out, text, position);
    }
    if let Some(hint) = &fault.hint {
        let _ = writeln!(out, "help: {}", Printable(hint));
    }
    out
}

/// Adds the line of a position, with a caret below it.
fn snippet(out: &mut String, text: &str, position: Position) {
    let Some(line) = text.split('\n').nth(position.line as usize - 1) else { return };
    let column = position.column as usize - 1;
    let (cut, window) = window(line.trim_end_matches('\r'), column);
    let number = position.line.to_string();
    let margin = " ".repeat(number.len());
    let below: String =
        window.chars().take(column - cut).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
    let shown: String = window.chars().map(printable).collect();
    let _ = writeln!(out, "{margin} |\n{number} | {shown}\n{margin} | {below}^");
}

/// The part of a line around a column, because one line may be a whole file.
fn window(line: &str, column: usize) -> (usize, String) {
    const AROUND: usize = 80;
    let cut = column.saturating_sub(AROUND);
    (cut, line.chars().skip(cut).take(2 * AROUND).collect())
}

/// Replaces characters that a terminal would take for orders. One stays one, so that the caret is
/// below the right one.
fn printable(character: char) -> char {
    if is_printable(character) || character == '\t' { character } else { '\u{fffd}' }
}
