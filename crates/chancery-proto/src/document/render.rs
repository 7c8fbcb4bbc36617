//! A fault as people read it: what, where, the line itself, and what helps.

use std::fmt::Write as _;

use crate::syntax::{Fault, Position};

/// A fault with the line it is in, as plain text that ends with a line feed.
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
/// Without the `text`, or where it may hold a secret, the line is left out.
pub fn render(fault: &Fault, file: &str, text: Option<&str>) -> String {
    let mut out = String::from("error: ");
    if !fault.path.is_empty() {
        let _ = write!(out, "{}: ", fault.path);
    }
    let _ = write!(out, "{}\n --> {file}", fault.message);
    if let Some(Position { line, column }) = fault.position {
        let _ = write!(out, ":{line}:{column}");
    }
    out.push('\n');
    let shown = text.filter(|_| !fault.confidential).zip(fault.position);
    if let Some((text, position)) = shown {
        snippet(&mut out, text, position);
    }
    if let Some(hint) = &fault.hint {
        let _ = writeln!(out, "help: {hint}");
    }
    out
}

/// The line of a place and a caret below it.
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

/// The part of a line around a column: a line may be a whole file.
fn window(line: &str, column: usize) -> (usize, String) {
    const AROUND: usize = 80;
    let cut = column.saturating_sub(AROUND);
    (cut, line.chars().skip(cut).take(2 * AROUND).collect())
}

/// Nothing in a file speaks to the terminal.
fn printable(character: char) -> char {
    if character.is_control() && character != '\t' { '\u{fffd}' } else { character }
}
