//! A tree as YAML: blocks, plain scalars where every reader takes them for texts, and texts of
//! several lines in literal blocks.
//!
//! A text that a reader of YAML 1.1 would take for something else is quoted. Not here: the making
//! of the tree, and JSON (`tree`); the reading of YAML (`crate::syntax`).

use std::fmt::Write;
use std::net::Ipv4Addr;

use chancery_core::printable::is_printable;

use super::tree::Tree;
use crate::syntax::is_text;

/// Writes the document, which ends with a line feed.
pub(super) fn write(tree: &Tree) -> String {
    let mut out = String::new();
    match tree {
        Tree::Map(entries) if !entries.is_empty() => map(&mut out, entries, 0, false),
        Tree::List(values) if !values.is_empty() => list(&mut out, values, 0, false),
        scalar => flow(&mut out, scalar, 0),
    }
    out
}

/// Writes the entries of a mapping. If `begun` is true, the indentation of the first entry is
/// written already.
fn map(out: &mut String, entries: &[(String, Tree)], indent: usize, mut begun: bool) {
    for (key, value) in entries {
        start(out, indent, &mut begun);
        scalar(out, key);
        out.push(':');
        match value {
            Tree::Map(entries) if !entries.is_empty() => {
                out.push('\n');
                map(out, entries, indent + 2, false);
            }
            Tree::List(values) if !values.is_empty() => {
                out.push('\n');
                list(out, values, indent, false);
            }
            other => {
                out.push(' ');
                flow(out, other, indent + 2);
            }
        }
    }
}

fn list(out: &mut String, values: &[Tree], indent: usize, mut begun: bool) {
    for value in values {
        start(out, indent, &mut begun);
        out.push_str("- ");
        match value {
            Tree::Map(entries) if !entries.is_empty() => map(out, entries, indent + 2, true),
            Tree::List(values) if !values.is_empty() => list(out, values, indent + 2, true),
            other => flow(out, other, indent + 2),
        }
    }
}

fn start(out: &mut String, indent: usize, begun: &mut bool) {
    if !std::mem::take(begun) {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// Writes a value that needs no lines of its own, or a text of several lines.
fn flow(out: &mut String, tree: &Tree, indent: usize) {
    match tree {
        Tree::Null => out.push_str("null"),
        Tree::Bool(is) => out.push_str(if *is { "true" } else { "false" }),
        Tree::Number(number) => out.push_str(&number.to_string()),
        Tree::Text(text) if is_literal(text) => return literal(out, text, indent.max(2)),
        Tree::Text(text) => scalar(out, text),
        Tree::List(_) => out.push_str("[]"),
        Tree::Map(_) => out.push_str("{}"),
    }
    out.push('\n');
}

fn scalar(out: &mut String, text: &str) {
    if is_plain(text) { out.push_str(text) } else { quoted(out, text) }
}

/// Returns true if a text needs no quotes, also for readers of YAML 1.1: to them `on` is true,
/// `1:30` is ninety, and a date is not a text.
fn is_plain(text: &str) -> bool {
    const OLD: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];
    let mut characters = text.chars();
    let first = characters.next().is_some_and(|it| it.is_alphanumeric() || "_/".contains(it));
    let usual = |it: char| it.is_alphanumeric() || "_/.-+=@%$^~()*,;|<>? ".contains(it);
    let colons = text.split(':').skip(1).all(|rest| !rest.is_empty() && !rest.starts_with(' '));
    first
        && colons
        && characters.all(|it| usual(it) || it == ':')
        && text.chars().all(is_printable)
        && !text.ends_with(' ')
        && is_text(text)
        && !OLD.contains(&&*text.to_ascii_lowercase())
        && !is_old_number(text)
}

fn is_old_number(text: &str) -> bool {
    let numeric = |byte: u8| byte.is_ascii_digit() || b":_-+. TtZzeE".contains(&byte);
    text.starts_with(|first: char| first.is_ascii_digit())
        && (text.bytes().all(numeric) || text.starts_with("0x") || text.starts_with("0b"))
        && text.parse::<Ipv4Addr>().is_err()
}

/// Returns true if a literal block can express the text: it has several lines, and its ends and its
/// characters fit.
fn is_literal(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.contains('\n')
        && !body.ends_with('\n')
        && !body.starts_with([' ', '\t', '\n'])
        && body.chars().all(|it| it == '\n' || it == '\t' || is_printable(it))
        && body.lines().all(|line| !line.ends_with([' ', '\t']))
}

fn literal(out: &mut String, text: &str, indent: usize) {
    out.push_str(if text.ends_with('\n') { "|\n" } else { "|-\n" });
    for line in text.lines() {
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn quoted(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            other if is_printable(other) => out.push(other),
            other => match u32::from(other) {
                first_plane @ ..0x1_0000 => write!(out, "\\u{first_plane:04x}"),
                number => write!(out, "\\U{number:08x}"),
            }
            .expect("a `String` takes all that is written to it"),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::syntax::{Documents, TreeNode, TreeValue, read_yaml};

    fn read(node: &TreeNode<'_>) -> Tree {
        match node.value() {
            TreeValue::Null => Tree::Null,
            TreeValue::Bool(is) => Tree::Bool(*is),
            TreeValue::Number(text) => Tree::Number(text.parse().unwrap()),
            TreeValue::Text(text) => Tree::Text(text.to_string()),
            TreeValue::Sequence(nodes) => Tree::List(nodes.iter().map(read).collect()),
            TreeValue::Mapping(entries) => Tree::Map(
                entries.iter().map(|entry| (entry.key.to_string(), read(&entry.node))).collect(),
            ),
            other => panic!("{other:?}"),
        }
    }

    fn text() -> impl Strategy<Value = String> {
        let odd = proptest::sample::select(vec![
            "",
            "~",
            "null",
            "true",
            "on",
            "No",
            "1",
            "1.5",
            "0x1f",
            "1_000",
            "1:30",
            "2026-01-01",
            "10.0.0.1",
            "- a",
            "a: b",
            "a:",
            "a #b",
            "#",
            "@type",
            "{a}",
            "[",
            "*x",
            "&x",
            "!t",
            "|",
            "> x",
            "%a",
            "a ",
            " a",
            "a\nb",
            "a\nb\n",
            "\na",
            "a\n\nb",
            "a\n b\n",
            "a \nb",
            "a\n\n",
            "\u{feff}",
            "\u{85}",
            "\u{2028}",
            "'",
            "\"",
            "\\",
            "---",
            "...",
            "a\r\nb",
            "=",
            "<<",
            ".",
        ]);
        prop_oneof![odd.prop_map(str::to_owned), "[a-z0-9:#,. \n'\"-]{0,8}", "\\PC{0,5}", ".{0,5}"]
    }

    fn tree() -> impl Strategy<Value = Tree> {
        let leaf = prop_oneof![
            1 => Just(Tree::Null),
            1 => any::<bool>().prop_map(Tree::Bool),
            1 => any::<i32>().prop_map(|number| Tree::Number(number.into())),
            5 => text().prop_map(Tree::Text),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Tree::List),
                proptest::collection::btree_map(text(), inner, 0..4)
                    .prop_map(|entries| Tree::Map(entries.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(tree in tree()) {
            let text = write(&tree);
            prop_assert!(text.ends_with('\n'), "{text:?}");
            let Documents { roots, faults } = read_yaml(&text);
            prop_assert_eq!(faults.first(), &[], "{}", text);
            prop_assert_eq!(roots.len(), 1, "{}", text);
            prop_assert_eq!(read(&roots[0]), tree, "{}", text);
        }
    }

    #[test]
    fn texts_that_older_readers_take_for_something_else_are_quoted() {
        for text in ["on", "No", "y", "1_000", "1:30", "2026-01-01", "0x1f", "1e3", "null"] {
            assert!(!is_plain(text), "{text}");
        }
        for text in ["10.0.0.1", "0.25s", "a.b/c", "xds:///x", "outbound|80||x", "/etc/key", "é"] {
            assert!(is_plain(text), "{text}");
        }
    }
}
