//! The parts of a text in YAML that can be read independently of each other.
//!
//! Every YAML document of a stream stands alone. A line that starts with `---` begins one, wherever
//! it stands, even in a block scalar or a quoted text. Some things tie documents together or change
//! how lines are counted: directives, anchors (aliases count against one budget for the whole text)
//! and line breaks of other systems. A text with any of these stays in one piece, and so does one
//! of very many documents that are next to empty.

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The number of lines before it.
    pub lines: u32,
    /// Its text.
    pub text: &'a str,
}

/// Splits a text in YAML into its documents. The result is `None` if the text has to be read as a
/// whole.
///
/// If each document is without faults and no two define the same name, the documents together give
/// the same resources as the whole text, with lines counted from the start of the piece.
pub fn pieces(text: &str) -> Option<Vec<Piece<'_>>> {
    let depends = |line: &str| line.starts_with('%') || line.starts_with("...");
    if text.contains(['&', '\r']) || !text.contains("\n---") {
        return None;
    }
    // A piece costs some hundred bytes, and a resource has more than this.
    let most = FREE_PIECES + text.len() / BYTES_PER_PIECE;
    let mut pieces = Vec::new();
    let (mut start, mut lines, mut at, mut line) = (0, 0u32, 0, 0u32);
    for next in text.split_inclusive('\n') {
        if depends(next) {
            return None;
        }
        if at > 0 && begins_document(next) {
            if pieces.len() == most {
                return None;
            }
            pieces.push(Piece { lines, text: &text[start..at] });
            (start, lines) = (at, line);
        }
        at += next.len();
        line = line.checked_add(1)?;
    }
    pieces.push(Piece { lines, text: &text[start..] });
    Some(pieces)
}

/// The number of pieces that any text may have.
const FREE_PIECES: usize = 1024;

/// The bytes of text for each piece beyond that.
const BYTES_PER_PIECE: usize = 64;

fn begins_document(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n']))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::document::{Format, Parsed, parse};
    use crate::schema::Schema;

    #[test]
    fn a_piece_begins_where_a_document_does() {
        let text = "# first\na: 1\n---\nb: |\n  ---\n--- c\n----\n---";
        let found = pieces(text).unwrap();
        let wanted =
            [(0, "# first\na: 1\n"), (2, "---\nb: |\n  ---\n"), (5, "--- c\n----\n"), (7, "---")];
        assert_eq!(found, wanted.map(|(lines, text)| Piece { lines, text }));
        for whole in [
            "a: 1\n",
            "a: &b 1\n---\n",
            "a: 1\r\n---\r\n",
            "%YAML 1.2\n---\n---\n",
            "a\n...\n---\n",
        ] {
            assert_eq!(pieces(whole), None, "{whole}");
        }
    }

    #[test]
    fn documents_that_are_next_to_empty_are_no_pieces() {
        let count = |text: &str| pieces(text).map(|pieces| pieces.len());
        assert_eq!(count(&"---\n".repeat(1000)), Some(1000));
        assert_eq!(count(&"---\n".repeat(2000)), None);
        let cluster = "---\n\"@type\": t/envoy.config.cluster.v3.Cluster\nname: a\n";
        assert_eq!(count(&cluster.repeat(5000)), Some(5000));
    }

    /// A line that begins a document, looks as if it did, or is content.
    fn line() -> impl Strategy<Value = String> {
        let cluster = "\"@type\": t/envoy.config.cluster.v3.Cluster";
        let typed = move |rest: &str| format!("{cluster}\n{rest}");
        let named = proptest::sample::select(vec!["a", "b", "c", "d", "e", "f", "g"]);
        prop_oneof![
            8 => named.clone().prop_map(move |name| typed(&format!("name: {name}"))),
            4 => named.prop_map(move |name| format!("- {{ {cluster}, name: {name} }}")),
            8 => Just("---".to_owned()),
            1 => Just("--- # comment".to_owned()),
            1 => Just("--- {}".to_owned()),
            1 => Just("---x".to_owned()),
            1 => Just("# comment".to_owned()),
            1 => Just("alt_stat_name: |\n  text\n  ---\n".to_owned()),
            1 => Just("alt_stat_name: 'quoted".to_owned()),
            1 => Just("connect_timeout: 1s".to_owned()),
            1 => Just("...".to_owned()),
            1 => Just(String::new()),
            1 => Just("\u{feff}".to_owned()),
        ]
    }

    type Summary = Vec<(String, String, u32, u32)>;

    fn summary(parsed: &Parsed, lines: u32) -> Summary {
        let resources = parsed.resources.iter();
        let found = resources.map(|it| {
            let at = it.position;
            (it.type_url.to_string(), format!("{:?}", it.resource), at.line + lines, at.column)
        });
        found.collect()
    }

    proptest! {
        #[test]
        fn good_pieces_are_what_the_whole_is(lines in vec(line(), 0..16)) {
            let (schema, text) = (Schema::bundled(), lines.join("\n"));
            if let Some(pieces) = pieces(&text) {
                let read = |piece: &Piece<'_>| parse(&schema, Format::Yaml, piece.text.as_bytes());
                let parts: Vec<_> = pieces.iter().map(read).collect();
                let parted: Summary = pieces
                    .iter()
                    .zip(&parts)
                    .flat_map(|(piece, part)| summary(part, piece.lines))
                    .collect();
                let names: std::collections::BTreeSet<_> = parts
                    .iter()
                    .flat_map(|part| &part.resources)
                    .map(|it| (&it.type_url, it.resource.name()))
                    .collect();
                let good = parts.iter().all(|part| part.faults.is_empty());
                let whole = parse(&schema, Format::Yaml, text.as_bytes());
                if good && names.len() == parted.len() {
                    prop_assert!(whole.faults.is_empty(), "{:?}", whole.faults);
                    prop_assert_eq!(summary(&whole, 0), parted);
                }
            }
        }
    }
}
