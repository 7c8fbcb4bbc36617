//! Large flow collections in YAML (`[…]`, `{…}`), which take much memory to read.
//!
//! The scanner of YAML keeps the words of a whole flow collection, some 300 bytes for each. So a text
//! that is JSON is read as JSON, and any other one may have so many words in a flow collection. Not
//! here: the size of the tree (`tree_size`).

use super::yaml::Documents;
use super::{Fault, Position, json};

/// The size in bytes of a text whose flow collections are small in any case.
const SMALL: usize = 256 * 1024;

/// The most commas, colons and brackets of one flow collection.
const MOST_WORDS: usize = 256 * 1024;

/// Reads a large text that is JSON; `None` if it is none.
pub(super) fn read_as_json(text: &str) -> Option<Documents<'_>> {
    if text.len() <= SMALL || !is_flow(text) {
        return None;
    }
    Some(json::read(text)).filter(|documents| documents.faults.is_empty())
}

/// The fault of a text with a flow collection that is too large.
///
/// Brackets are counted in texts and comments too, so this may find a collection that is larger than
/// it is, and never one that is smaller. A collection with a key or a `-` before it does not go on over
/// a line that begins without a space; another one may.
pub(super) fn too_large(text: &str) -> Option<Fault> {
    if text.len() <= SMALL {
        return None;
    }
    let (mut depth, mut words, mut is_nested) = (0_usize, 0, false);
    for (number, line) in text.split('\n').enumerate() {
        let indented =
            line.starts_with([' ', '\t', '\r', '[', ']', '{', '}', ',']) || line.is_empty();
        if (is_nested && !indented) || line.starts_with("---") || line.starts_with("...") {
            (depth, words) = (0, 0);
        }
        for (at, byte) in line.bytes().enumerate() {
            match byte {
                b'[' | b'{' => {
                    is_nested = if depth == 0 { has_key(&line[..at]) } else { is_nested };
                    depth += 1;
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                b',' | b':' => {}
                _ => continue,
            }
            words = if depth == 0 { 0 } else { words + 1 };
            if words > MOST_WORDS {
                return Some(fault(Position::new(number + 1, 1)));
            }
        }
    }
    None
}

/// Returns true if a key or a `-` stands before a collection, so that it is a part of another one.
fn has_key(before: &str) -> bool {
    before.contains(": ") || before.trim_start().starts_with("- ")
}

fn fault(position: Position) -> Fault {
    Fault::new("a flow collection (`[…]` or `{…}`) is too large up to here")
        .at(position)
        .hint("write it in lines that begin with `- ` or a key, or write the file as JSON")
}

/// Returns true if the text as a whole is a flow collection.
fn is_flow(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::read_yaml;

    fn is_too_large(text: &str) -> bool {
        let documents = read_yaml(text);
        documents.faults.first().iter().any(|fault| fault.message.contains("flow collection"))
    }

    #[test]
    fn a_large_flow_collection_is_a_fault_wherever_it_is() {
        let many = "0,".repeat(MOST_WORDS + 2);
        assert!(is_too_large(&format!("a: [{many}]\n")));
        assert!(is_too_large(&format!("# a comment\n- x: {{y: [{many}]}}\n")));
        let lines = "0,\n".repeat(MOST_WORDS + 2);
        assert!(is_too_large(&format!("[{lines}a]")), "no JSON, because of a plain text");
        // The reader takes no such collection over lines that begin without a space.
        assert!(!read_yaml("a: [\n0,\n1]\n").faults.is_empty());
        for before in ["# c\n", "---\n", "!!seq ", "&a ", "--- !!seq &a "] {
            assert!(is_too_large(&format!("{before}[\n{lines}a]")), "{before}");
        }
        let indented = " 0,\n".repeat(MOST_WORDS + 2);
        assert!(is_too_large(&format!("a: [\n{indented}]\n")));
    }

    #[test]
    fn other_large_texts_are_read() {
        let list = format!("[{}1]", "{\"a\": [1, 2, 3]},\n ".repeat(MOST_WORDS / 4));
        assert!(list.len() > SMALL);
        let documents = read_yaml(&list);
        assert!(documents.faults.is_empty() && documents.roots.len() == 1, "it is JSON");
        let open = "- a: 'a text with an open [bracket'\n  b: {c: [1, 2]}\n".repeat(MOST_WORDS / 8);
        let documents = read_yaml(&open);
        assert!(documents.faults.is_empty() && documents.roots.len() == 1);
    }
}
