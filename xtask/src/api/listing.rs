//! The listing of one crate: its lines in their order, as text, and compared with the record.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The number of lines that are shown of a difference.
const SHOWN: usize = 30;

/// One line. Lines are sorted by path, so that fields and methods stand below their type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ApiLine {
    path: Vec<String>,
    rank: Rank,
    text: String,
}

/// The order of lines of one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Declaration,
    Implementation,
    Call,
    /// The items of other crates come last.
    Foreign,
}

impl ApiLine {
    pub(super) fn new(path: &[String], rank: Rank, text: String) -> Self {
        Self { path: path.to_vec(), rank, text }
    }

    fn is_foreign(&self) -> bool {
        self.rank == Rank::Foreign
    }
}

/// The text of a listing.
pub(super) fn written(package: &str, lines: BTreeSet<ApiLine>) -> String {
    let mut text = format!(
        "# The public interface of {package}, written by `cargo xtask api` from the sources.\n\
         # docs/stability.md says how it is read. A change here is a change for users.\n\n"
    );
    let (foreign, own): (Vec<_>, Vec<_>) = lines.into_iter().partition(ApiLine::is_foreign);
    own.iter().for_each(|line| _ = writeln!(text, "{}", line.text));
    if !foreign.is_empty() {
        text.push_str("\n# Items of other crates in these lines.\n\n");
    }
    foreign.iter().for_each(|line| _ = writeln!(text, "{}", line.text));
    text
}

/// The lines that a listing lost and won, if it is not the one on record.
pub(super) fn difference(recorded: &str, now: &str) -> Option<String> {
    if recorded == now {
        return None;
    }
    let (before, after): (BTreeSet<&str>, BTreeSet<&str>) =
        (recorded.lines().collect(), now.lines().collect());
    let removed = recorded.lines().filter(|line| !after.contains(line));
    let added = now.lines().filter(|line| !before.contains(line));
    let lines: Vec<_> = removed
        .map(|line| format!("  - {line}\n"))
        .chain(added.map(|line| format!("  + {line}\n")))
        .collect();
    if lines.is_empty() {
        return Some("  the same lines in another order\n".to_owned());
    }
    let mut text: String = lines.iter().take(SHOWN).map(String::as_str).collect();
    if lines.len() > SHOWN {
        _ = writeln!(text, "  and {} more", lines.len() - SHOWN);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_lines_on_both_sides() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let found = difference("a\nb\n", "a\nc\n");
        assert_eq!(found.as_deref(), Some("  - b\n  + c\n"));
        let order = difference("a\nb\n", "b\na\n");
        assert_eq!(order.as_deref(), Some("  the same lines in another order\n"));
    }

    #[test]
    fn a_difference_has_a_bound() {
        let many: String = (0..SHOWN + 7).map(|number| format!("{number}\n")).collect();
        let found = difference("", &many).unwrap();
        assert_eq!(found.lines().count(), SHOWN + 1);
        assert!(found.ends_with("  and 7 more\n"), "{found}");
    }

    #[test]
    fn what_belongs_to_a_type_stands_below_it() {
        let line = |path: &str, rank, text: &str| {
            let path: Vec<_> = path.split("::").map(str::to_owned).collect();
            ApiLine::new(&path, rank, text.to_owned())
        };
        let lines = BTreeSet::from([
            line("a::B", Rank::Foreign, "extern a::B"),
            line("XY", Rank::Declaration, "pub struct XY"),
            line("X::new", Rank::Declaration, "pub fn X::new()"),
            line("X", Rank::Implementation, "impl Clone for X"),
            line("X", Rank::Declaration, "pub struct X"),
        ]);
        let text = written("a", lines);
        let shown: Vec<_> =
            text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(
            shown,
            ["pub struct X", "impl Clone for X", "pub fn X::new()", "pub struct XY", "extern a::B"]
        );
    }
}
