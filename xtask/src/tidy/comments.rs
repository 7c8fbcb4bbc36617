//! The check that comments have a subject: none begins with `What`, `Whether`, `Who`, `Whom`,
//! `Which` or `How`.
//!
//! Such a comment is half of a sentence, and a reader has to guess the other half: "The number of
//! names" says more than "How many". `xtask/data/headless-comments.txt` lists the files that still
//! have some, with their number, which may only become smaller. Not here: the words of the sentences,
//! which are for people to judge.

use std::collections::BTreeMap;

use super::lexer::comments;
use super::{Finding, RepositoryTree};

/// The words that no comment begins with.
const HEADLESS: [&str; 6] = ["What", "Whether", "Who", "Whom", "Which", "How"];

/// The list of lines `path number`: the files that may have such comments, and the number of them.
const LIST: &str = "xtask/data/headless-comments.txt";

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    let (mut allowed, mut findings) = allowed(tree.text(LIST).unwrap_or_default());
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let lines = headless(file.text().unwrap_or_default());
        let allowed = allowed.remove(file.path.as_str()).unwrap_or(0);
        findings.extend(compared(&file.path, &lines, allowed));
    }
    findings.extend(
        allowed.keys().map(|path| {
            Finding::Fault(format!("{LIST}: `{path}` does not exist; remove the line"))
        }),
    );
    findings
}

/// The numbers of the list by path, and the faults of the list.
fn allowed(list: &str) -> (BTreeMap<&str, usize>, Vec<Finding>) {
    let (mut allowed, mut findings) = (BTreeMap::new(), Vec::new());
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let entry = line.rsplit_once(' ');
        let entry = entry.and_then(|(path, number)| Some((path, number.parse::<usize>().ok()?)));
        let is_new = entry.is_some_and(|(path, number)| allowed.insert(path, number).is_none());
        if !is_new {
            let text = format!("{LIST}: `{line}` is no `path number`, or its path is listed twice");
            findings.push(Finding::Fault(text));
        }
    }
    (allowed, findings)
}

/// The finding about a file with headless comments on these lines, of which so many are allowed.
fn compared(path: &str, lines: &[usize], allowed: usize) -> Option<Finding> {
    let found = lines.len();
    let text = match found {
        _ if found == allowed => return None,
        0 => format!("{LIST}: `{path}` has no such comment any more; remove the line"),
        _ if found < allowed => {
            format!("{LIST}: `{path}` has {found} such comments, not {allowed}; lower the number")
        }
        _ => {
            let lines: Vec<_> = lines.iter().map(ToString::to_string).collect();
            format!(
                "{path}: {found} comments begin with `What`, `Whether`, `Who`, `Whom`, `Which` or \
                 `How`, and {allowed} may: give them a subject (lines {})",
                lines.join(", ")
            )
        }
    };
    Some(Finding::Fault(text))
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

    fn faults(list: &str, text: &str) -> Vec<String> {
        let tree = RepositoryTree::of(&[("a.rs", text), (LIST, list)]);
        let fault = |finding| match finding {
            Finding::Fault(text) => text,
            Finding::Note(text) => format!("note: {text}"),
        };
        check(&tree).into_iter().map(fault).collect()
    }

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
    fn more_than_the_list_allows_fail() {
        let text = "/// What.\nfn a() {}\n/// How.\nfn b() {}\n";
        let expected = "a.rs: 2 comments begin with `What`, `Whether`, `Who`, `Whom`, `Which` or \
                        `How`, and 1 may: give them a subject (lines 1, 3)";
        assert_eq!(faults("a.rs 1\n", text), [expected]);
        assert_eq!(faults("# A remark.\na.rs 2\n", text), [""; 0]);
    }

    #[test]
    fn the_list_only_becomes_shorter() {
        let lower = format!("{LIST}: `a.rs` has 1 such comments, not 2; lower the number");
        assert_eq!(faults("a.rs 2\n", "/// What.\n"), [lower]);
        let remove = format!("{LIST}: `a.rs` has no such comment any more; remove the line");
        assert_eq!(faults("a.rs 1\n", "/// A thing.\n"), [remove]);
        let gone = format!("{LIST}: `b.rs` does not exist; remove the line");
        assert_eq!(faults("b.rs 1\n", ""), [gone]);
    }

    #[test]
    fn a_line_of_the_list_is_a_path_and_a_number() {
        let fault =
            |line| format!("{LIST}: `{line}` is no `path number`, or its path is listed twice");
        assert_eq!(faults("a.rs\n", ""), [fault("a.rs")]);
        assert_eq!(faults("a.rs 1\na.rs 1\n", "/// What.\n"), [fault("a.rs 1")]);
    }
}
