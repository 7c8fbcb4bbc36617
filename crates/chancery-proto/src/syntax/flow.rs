//! Large flow collections in YAML (`[…]`, `{…}`), which take much memory to read.
//!
//! The scanner of YAML keeps the tokens of a flow collection that may be a key, some 200 bytes for
//! each. So a text that is JSON is read as JSON, and in any other one the scanner may keep so many
//! tokens. Not here: how they are counted (`counted`), and the size of the tree (`tree_size`).

use super::yaml::Documents;
use super::{Fault, Position, json};

/// The size in bytes of a text that has no flow collection that is too large.
const SMALL: usize = 256 * 1024;

/// The most tokens that the scanner may keep: words, texts, commas, colons and brackets.
pub(super) const MOST_TOKENS: usize = 500_000;

/// Reads a large text that is JSON. The error is the fault of one that begins like JSON and is none.
pub(super) fn read_as_json(text: &str) -> Result<Documents<'_>, Option<Fault>> {
    if text.len() <= SMALL || !is_flow(text) {
        return Err(None);
    }
    let documents = json::read(text);
    // A key that is given twice is a fault too, but leaves the text JSON.
    if documents.roots.is_empty() { Err(documents.faults.into_first()) } else { Ok(documents) }
}

/// The fault of a text with a flow collection that is too large and begins here.
///
/// The author may have meant to write JSON, so the fault is that for which the collection is none.
pub(super) fn too_large(position: Position, no_json: Option<Fault>) -> Fault {
    let Some(fault) = no_json.filter(|fault| fault.position >= Some(position)) else {
        return Fault::new("a flow collection (`[…]` or `{…}`) is too large")
            .at(position)
            .hint("write it in lines that begin with `- ` or a key, or write the file as JSON");
    };
    if fault.hint.is_some() {
        return fault;
    }
    fault.hint(
        "a flow collection (`[…]` or `{…}`) as large as this one is read only from a file that is \
         JSON; if it is YAML, write it in lines that begin with `- ` or a key",
    )
}

/// Returns true if the text as a whole is a flow collection.
fn is_flow(text: &str) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.trim_start().starts_with(['[', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::read_yaml;

    /// The first fault of a text.
    fn fault(text: &str) -> Option<Fault> {
        read_yaml(text).faults.into_first()
    }

    fn is_too_large(text: &str) -> bool {
        let told = fault(text).map(|fault| [fault.message, fault.hint.unwrap_or_default()]);
        told.is_some_and(|told| told.concat().contains("flow collection"))
    }

    fn is_read(text: &str) -> bool {
        fault(text).is_none()
    }

    /// So many repetitions that their tokens are more than may be kept.
    fn many(part: &str, tokens: usize) -> String {
        part.repeat(MOST_TOKENS / tokens + 1)
    }

    #[test]
    fn a_large_flow_collection_is_a_fault_wherever_it_is() {
        let (zeros, lines) = (many("0,", 2), many(" 0,\n", 2));
        for text in [
            format!("- [{zeros}]\n"),
            format!("# a comment\n- {{y: [{zeros}]}}\n"),
            format!("a:\n  [{zeros}]\n"),
            format!("a: [1, [\n{lines}]]\n"),
            format!("--- !!seq &a\n[{zeros}a]"),
        ] {
            assert!(is_too_large(&text), "{}", &text[..40]);
        }
    }

    #[test]
    fn a_bracket_in_a_text_or_a_comment_ends_no_collection() {
        let (zeros, lines) = (many("0,", 2), many("0,\n", 2));
        for text in [
            format!("- [\"]\",{zeros}]\n"),
            format!("- [']',{zeros}]\n"),
            format!("[ # ]\n{lines}a]"),
            format!("- [ # ]\n {}a]", many(" 0,\n", 2)),
            format!("[\n---x,\n{lines}a]"),
            format!("[\n...x,\n{lines}a]"),
            format!("# \r[\r{}a]", many("0,\r", 2)),
        ] {
            assert!(is_too_large(&text), "{}", &text[..40]);
        }
    }

    #[test]
    fn tokens_without_commas_are_tokens_too() {
        for part in ["! ", "&a ", "*a ", "? ", ": ", "''\n", "a #\n"] {
            let text = format!("[{}]", many(part, 1));
            assert!(is_too_large(&text), "{part:?}: {:?}", fault(&text));
        }
    }

    #[test]
    fn other_large_texts_are_read() {
        let zeros = many("0, ", 2);
        for text in [
            format!("[{}1]", many("{\"a\": [1, 2, 3]},\n ", 14)),
            format!("\u{feff}[{}1]", many("{\"a\": [1, 2, 3]},\n ", 14)),
            many("- a: 'a text with an open [bracket'\n  b: {c: [1, 2]}\n", 8),
            // A file that is indented as a whole, with brackets that nothing closes.
            format!("resources:\n{}", many("  - a: x [\n    # {\n    b: {c: '['}\n", 8)),
            format!("a: |\n  [\n  {zeros}\nb: >\n  {{ {zeros}\n"),
            format!("a: '[{zeros}'\nb: \"{{ {zeros}\"\nc: [\"{zeros}\"]\n"),
            format!("a: x [ {zeros}\n  {{ {zeros}\n"),
        ] {
            assert!(is_read(&text), "{}: {:?}", &text[..40], fault(&text));
        }
    }

    #[test]
    fn a_large_text_that_is_nearly_json_is_told_why_it_is_none() {
        let numbers = many("{\"a\": 12345678},\n", 6);
        let fault = fault(&format!("[{numbers}{{\"a\": 1,}}]")).unwrap();
        assert_eq!(fault.message, "no JSON: expected a key in double quotes, found `}`");
        assert_eq!(fault.position.unwrap().line as usize, MOST_TOKENS / 6 + 2);
        assert!(fault.hint.unwrap().contains("only from a file that is JSON"));
    }

    #[test]
    fn a_large_collection_behind_another_document_is_told_by_its_own_place() {
        for begin in ["[", "[["] {
            let fault = fault(&format!("{{}}\n---\n{begin}{}", many("0,", 2))).unwrap();
            assert!(fault.message.contains("flow collection"), "{fault}");
            assert!((2..=3).contains(&fault.position.unwrap().line), "{fault}");
        }
    }

    #[test]
    fn a_large_text_of_json_with_a_key_given_twice_is_told_so() {
        let fault = fault(&format!("[{}{{\"b\": 1, \"b\": 2}}]", many("{\"a\": 12345678},\n", 6)));
        assert!(fault.unwrap().message.contains("the key `b` is given twice"));
    }
}
