//! The check that comments have a subject: none begins with `What`, `Whether`, `Who`, `Whom`,
//! `Which` or `How`.
//!
//! Such a comment is half of a sentence, and a reader has to guess the other half: "The number of
//! names" says more than "How many". Not here: the words of the sentences, which are for people to
//! judge.

use super::RepositoryTree;
use crate::findings::Finding;
use crate::lexer::comments;

/// The words that no comment begins with.
const HEADLESS: [&str; 6] = ["What", "Whether", "Who", "Whom", "Which", "How"];

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    let sources = tree.files.iter().filter(|file| file.is_rust());
    let faults = sources.flat_map(|file| {
        let lines = headless(file.text().unwrap_or_default());
        lines.into_iter().map(|line| fault(&file.path, line))
    });
    faults.collect()
}

/// The finding about a comment on this line.
fn fault(path: &str, line: usize) -> Finding {
    Finding::Fault(format!(
        "{path}:{line}: a comment begins with `What`, `Whether`, `Who`, `Whom`, `Which` or `How`; \
         give it a subject"
    ))
}

/// The lines on which a comment, or a paragraph of one, begins with one of the words.
fn headless(source: &str) -> Vec<usize> {
    let comments = comments(source);
    let mut lines = Vec::new();
    let mut before = None;
    for ((line, comment), number) in source.lines().zip(comments.lines()).zip(1..) {
        let paragraph = paragraph(comment);
        let begins = before.is_none() || before != paragraph.map(|(kind, _)| kind);
        let word = paragraph.and_then(|(_, text)| text.split(|c: char| !c.is_alphabetic()).next());
        if begins && word.is_some_and(|word| HEADLESS.contains(&word)) {
            lines.push(number);
        }
        // A comment behind code ends with its line.
        let is_alone = line.trim() == comment.trim();
        before = paragraph.map(|(kind, _)| kind).filter(|_| is_alone);
    }
    lines
}

/// The kind of the comment on a line (`//`, `///` or `//!`), and its text if it has any.
fn paragraph(comment: &str) -> Option<(&str, &str)> {
    let comment = comment.trim();
    let kind = ["///", "//!", "//"].into_iter().find(|kind| comment.starts_with(kind))?;
    let text = comment[kind.len()..].trim();
    (!text.is_empty()).then_some((kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_begins_with_its_subject() {
        for word in HEADLESS {
            for kind in ["///", "//!", "//", "    ///", "a(); //"] {
                assert_eq!(headless(&format!("{kind} {word} is kept.\n")), [1], "{kind} {word}");
            }
        }
        assert_eq!(headless("/// The number of names.\n// However long.\n"), [0; 0]);
    }

    #[test]
    fn a_paragraph_begins_with_its_subject_and_a_line_within_one_need_not() {
        assert_eq!(headless("/// The thing.\n///\n/// How it works.\n"), [3]);
        assert_eq!(headless("/// The thing says\n/// What it wants.\n"), [0; 0]);
        assert_eq!(headless("a(); // The thing\n// What else.\n"), [2]);
        assert_eq!(headless("//! A module.\n/// Who it is for.\n"), [2]);
    }

    #[test]
    fn text_and_code_are_no_comments() {
        assert_eq!(headless("let a = \"\n// What\n\";\nHow();\n"), [0; 0]);
    }

    #[test]
    fn every_such_comment_is_a_fault_of_its_line() {
        let text = "/// What.\nfn a() {}\n/// A thing.\nfn b() {}\n// How.\n";
        let tree = RepositoryTree::of(&[("a.rs", text), ("a.md", "// What.\n")]);
        let text = |line| {
            format!(
                "a.rs:{line}: a comment begins with `What`, `Whether`, `Who`, `Whom`, `Which` or \
                 `How`; give it a subject"
            )
        };
        assert_eq!(check(&tree), [1, 5].map(|line| Finding::Fault(text(line))));
    }
}
