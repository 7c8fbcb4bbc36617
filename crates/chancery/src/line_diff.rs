//! The difference of two texts, as lines and those around them.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::colour::{Colour, Paint};

/// Returns the lines that differ, and some around them; empty if there are none.
pub(crate) fn lines(before: &str, after: &str, paint: Paint) -> String {
    // A diff of texts that have nothing in common would take long. It stops in time, and the lines
    // found by then are enough.
    let diff = TextDiff::configure().timeout(LONGEST).diff_lines(before, after);
    let mut out = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        out += &format!("  {}\n", paint.with(Colour::Faint, &hunk.header().to_string()));
        for change in hunk.iter_changes() {
            let line = change.value().trim_end_matches('\n');
            out += &match change.tag() {
                ChangeTag::Equal => format!("    {line}\n"),
                ChangeTag::Delete => paint.with(Colour::Red, &format!("  - {line}")) + "\n",
                ChangeTag::Insert => paint.with(Colour::Green, &format!("  + {line}")) + "\n",
            };
        }
    }
    out
}

const CONTEXT: usize = 3;
const LONGEST: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_around_a_change_are_shown_too() {
        let before = "a\nb\nc\nd\ne\nf\n";
        let after = before.replace("e\n", "x\n");
        let expected = "  @@ -2,5 +2,5 @@\n    b\n    c\n    d\n  - e\n  + x\n    f\n";
        assert_eq!(lines(before, &after, Paint::None), expected);
        assert_eq!(lines(before, before, Paint::None), "");
        let coloured = lines("a\n", "b\n", Paint::Ansi);
        assert!(coloured.contains("\u{1b}[31m  - a\u{1b}[0m\n"), "{coloured:?}");
    }
}
