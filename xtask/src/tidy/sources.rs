//! The form of Rust files: module docs, sizes, and words that must not stay.
//!
//! Sizes are lines as an editor counts them, tests included. A file may be larger for a reason,
//! which is listed in `data/large-files.txt`; a function may not.

use crate::findings::Finding;
use crate::functions::{function_length, function_name};
use crate::lexer::code;
use crate::repository::{RepositoryFile, RepositoryTree};

/// A file with more lines than the first gives a note, with more than the second a fault.
const FILE_NOTE: usize = 500;
const FILE_LIMIT: usize = 800;

/// A function above this fails.
const FUNCTION_LIMIT: usize = 80;

/// Lines of `path reason`: files that may be larger than the limit.
const LARGE_FILES: &str = include_str!("../../data/large-files.txt");

/// Code that says of itself that it is not finished.
const UNFINISHED: [&str; 5] = ["todo!", "unimplemented!", "dbg!", "#[ignore", "#[should_panic"];

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    let mut findings: Vec<_> =
        tree.files.iter().filter(|file| file.is_rust()).flat_map(of_file).collect();
    findings.extend(exceptions(tree));
    findings
}

fn of_file(file: &RepositoryFile) -> Vec<Finding> {
    let path = &file.path;
    let Some(text) = file.text() else {
        return vec![Finding::Fault(format!("{path}: is not UTF-8 text"))];
    };
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(Finding::Fault(format!("{path}:1: does not open with `//!`")));
    }
    findings.extend(size(path, text));
    let code = code(text);
    findings.extend(functions(path, &code));
    findings.extend(unfinished(path, text, &code));
    findings
}

fn size(path: &str, text: &str) -> Option<Finding> {
    let lines = text.lines().count();
    if lines > FILE_LIMIT && reason(path).is_none() {
        let text = format!("{path}: {lines} lines; more than {FILE_LIMIT} need a reason");
        return Some(Finding::Fault(format!("{text} in `xtask/data/large-files.txt`")));
    }
    (lines > FILE_NOTE).then(|| Finding::Note(format!("{path}: {lines} lines")))
}

fn reason(path: &str) -> Option<&'static str> {
    large_files().find(|(file, _)| *file == path).map(|(_, reason)| reason)
}

fn large_files() -> impl Iterator<Item = (&'static str, &'static str)> {
    LARGE_FILES
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
}

/// An exception that is no longer needed, or gives no reason, is a fault of the list.
fn exceptions(tree: &RepositoryTree) -> Vec<Finding> {
    let needed = |path| tree.text(path).is_some_and(|text| text.lines().count() > FILE_LIMIT);
    large_files()
        .filter(|(path, reason)| reason.trim().is_empty() || !needed(path))
        .map(|(path, _)| {
            Finding::Fault(format!(
                "xtask/data/large-files.txt: `{path}` needs no exception, or lacks a reason"
            ))
        })
        .collect()
}

fn functions(path: &str, code: &str) -> Vec<Finding> {
    let lines: Vec<&str> = code.lines().collect();
    let starts = (0..lines.len()).filter_map(|at| Some((at, function_name(lines[at])?)));
    starts
        .filter_map(|(at, name)| {
            let length = function_length(&lines[at..])?;
            (length > FUNCTION_LIMIT).then(|| {
                let line = at + 1;
                Finding::Fault(format!(
                    "{path}:{line}: `{name}` has {length} lines; at most {FUNCTION_LIMIT} may be"
                ))
            })
        })
        .collect()
}

fn unfinished(path: &str, text: &str, code: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, (line, code)) in text.lines().zip(code.lines()).enumerate() {
        let place = format!("{path}:{}", index + 1);
        for word in UNFINISHED {
            if code.contains(word) {
                findings.push(Finding::Fault(format!("{place}: `{word}` must not stay")));
            }
        }
        if commented_out_test(line) {
            findings.push(Finding::Fault(format!("{place}: a test that is commented out")));
        }
    }
    findings
}

fn commented_out_test(line: &str) -> bool {
    let Some(comment) = line.trim_start().strip_prefix("//") else { return false };
    if comment.starts_with(['/', '!']) {
        return false;
    }
    let comment = comment.trim_start();
    comment.starts_with("#[test]") || comment.starts_with("#[tokio::test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let tree = RepositoryTree::of(&[("a.rs", text)]);
        let fault = |finding| match finding {
            Finding::Fault(text) => Some(text),
            Finding::Note(_) => None,
        };
        of_file(&tree.files[0]).into_iter().filter_map(fault).collect()
    }

    #[test]
    fn a_module_opens_with_its_docs() {
        assert_eq!(faults("//! A module.\n"), [""; 0]);
        assert_eq!(faults("use std::fs;\n"), ["a.rs:1: does not open with `//!`"]);
        assert_eq!(faults(""), ["a.rs:1: does not open with `//!`"]);
    }

    #[test]
    fn a_file_of_800_lines_passes_and_one_of_801_fails() {
        assert_eq!(faults(&"//! x\n".repeat(800)), [""; 0]);
        assert_eq!(faults(&"//! x\n".repeat(801)).len(), 1);
    }

    #[test]
    fn a_function_of_80_lines_passes_and_one_of_81_fails() {
        let function =
            |lines: usize| format!("//! x\nfn f() {{\n{}}}\n", "a();\n".repeat(lines - 2));
        assert_eq!(faults(&function(80)), [""; 0]);
        assert_eq!(faults(&function(81)), ["a.rs:2: `f` has 81 lines; at most 80 may be"]);
    }

    #[test]
    fn braces_in_text_do_not_count() {
        let body = "a(\"{\"); // {\n".repeat(40);
        assert_eq!(faults(&format!("//! x\nfn f() {{\n{body}}}\nfn g() {{\n{body}}}\n")), [""; 0]);
    }

    #[test]
    fn braces_between_the_parameters_are_not_the_body() {
        let body = "a();\n".repeat(80);
        let function = format!("//! x\nfn f(a in all().map(|a| {{ a }})) {{\n{body}}}\n");
        assert_eq!(faults(&function), ["a.rs:2: `f` has 82 lines; at most 80 may be"]);
    }

    #[test]
    fn a_function_without_a_body_has_no_length() {
        let methods = "fn f(&self, a: [u8; 3]) -> u8;\n".repeat(100);
        assert_eq!(faults(&format!("//! x\ntrait T {{\n{methods}}}\n")), [""; 0]);
    }

    #[test]
    fn unfinished_code_must_not_stay() {
        let text = format!("//! x\nfn f() {{ {}!() }}\n#[{}]\nfn g() {{}}\n", "todo", "ignore");
        let expected = ["a.rs:2: `todo!` must not stay", "a.rs:3: `#[ignore` must not stay"];
        assert_eq!(faults(&text), expected);
        assert_eq!(faults("//! Never writes todo!().\n"), [""; 0]);
    }

    #[test]
    fn a_commented_out_test_must_not_stay() {
        let text = format!("//! x\n    // #[{}]\n", "test");
        assert_eq!(faults(&text), ["a.rs:2: a test that is commented out"]);
        assert_eq!(faults("//! x\n/// #[test]\nfn f() {}\n"), [""; 0]);
    }
}
