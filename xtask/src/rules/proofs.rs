//! The tests that cite rows.
//!
//! A test is a function with an attribute `#[test]` or `#[….::test]`, in a file below `crates/`; those
//! within `proptest!` have it too. It cites a row in a comment directly above it, among its attributes,
//! or inside it. What other functions, modules and messages cite proves nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::citations::cited;
use crate::functions::{function_length, function_name};
use crate::lexer::{code, comments};
use crate::repository::{RepositoryFile, RepositoryTree};

/// The tests of each row, as `crate/path/file.rs::name`.
pub(crate) type Proofs = BTreeMap<String, BTreeSet<String>>;

pub(crate) fn in_repository(tree: &RepositoryTree) -> Proofs {
    let mut proofs = Proofs::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        of_file(file, &mut proofs);
    }
    proofs
}

fn of_file(file: &RepositoryFile, proofs: &mut Proofs) {
    let (Some(path), Some(text)) = (file.path.strip_prefix("crates/"), file.text()) else { return };
    if cited(text).is_empty() {
        return;
    }
    for (name, rows) in of_source(text) {
        for row in rows {
            proofs.entry(row).or_default().insert(format!("{path}::{name}"));
        }
    }
}

/// The tests of a file, each with the rows that it cites.
fn of_source(text: &str) -> Vec<(String, Vec<String>)> {
    let (code, comments) = (code(text), comments(text));
    let code: Vec<&str> = code.lines().collect();
    let comments: Vec<&str> = comments.lines().collect();
    let mut tests = Vec::new();
    for (at, line) in code.iter().enumerate() {
        let Some(name) = function_name(line) else { continue };
        let start = head(&code[..at], &comments[..at]);
        let Some(length) = function_length(&code[at..]) else { continue };
        if code[start..at].iter().any(|line| is_test(line)) {
            let rows = comments[start..at + length].iter().flat_map(|line| cited(line));
            tests.push((name.to_owned(), rows.collect()));
        }
    }
    tests
}

/// The first line of the comments and attributes right above a function.
fn head(code: &[&str], comments: &[&str]) -> usize {
    let mut start = code.len();
    while start > 0 {
        let line = code[start - 1].trim();
        let above = if line.is_empty() && !comments[start - 1].trim().is_empty() {
            Some(start - 1)
        } else if line.ends_with(']') {
            (0..start).rev().find(|at| code[*at].trim_start().starts_with("#["))
        } else {
            None
        };
        match above {
            Some(above) => start = above,
            None => break,
        }
    }
    start
}

/// Returns true if this line of code begins the attribute of a test.
fn is_test(line: &str) -> bool {
    let Some(attribute) = line.trim_start().strip_prefix("#[") else { return false };
    let path = attribute.split(['(', ']']).next().unwrap_or(attribute);
    path == "test" || path.ends_with("::test")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests(text: &str) -> Vec<(String, Vec<String>)> {
        of_source(text)
    }

    fn named(name: &str, rows: &[&str]) -> (String, Vec<String>) {
        (name.to_owned(), rows.iter().map(|row| (*row).to_owned()).collect())
    }

    #[test]
    fn a_test_cites_rows_above_it_and_inside_it() {
        let text = "//! S-009\n\n// S-008\n\n/// S-001, T-21.\n#[test]\n// C-002\nfn one() {\n    // V3\n    a();\n\
                    }\n// S-007\n\n#[test]\nfn two() {}\n";
        let one = named("one", &["S-001", "T-21", "C-002", "V3"]);
        assert_eq!(tests(text), [one, named("two", &[])]);
    }

    #[test]
    fn a_test_has_the_attribute_of_one() {
        for attribute in [
            "#[test]",
            "#[tokio::test]",
            "#[tokio::test(start_paused = true)]",
            "#[tokio::test(\n    flavor = \"multi_thread\",\n    worker_threads = 2,\n)]",
            "#[test]\n#[cfg(unix)]",
            "#[cfg(unix)]\n#[test]\n/// A sentence.",
        ] {
            let text = format!("use a;\n\n{attribute}\nasync fn one() {{\n    // S-001\n}}\n");
            assert_eq!(tests(&text), [named("one", &["S-001"])], "{attribute}");
        }
        for attribute in ["", "#[cfg(test)]", "#[test_case(1)]", "// #[test]", "#[inline]"] {
            let text = format!("use a;\n\n{attribute}\nfn one() {{\n    // S-001\n}}\n");
            assert_eq!(tests(&text), [], "{attribute}");
        }
    }

    #[test]
    fn a_test_within_a_macro_is_found() {
        let text = "proptest! {\n    #![proptest_config(few())]\n\n    // S-001\n    #[test]\n    \
                    fn one(all in vec(op().prop_map(|op| { op }), 0..60)) {\n        // S-002\n    }\n\n    \
                    #[test]\n    fn two(a in b()) {\n        // S-003\n    }\n}\n";
        assert_eq!(tests(text), [named("one", &["S-001", "S-002"]), named("two", &["S-003"])]);
    }

    #[test]
    fn text_and_code_cite_nothing() {
        let text = "#[test]\nfn one() {\n    assert!(a, \"S-001 // S-002\");\n    let b = V3;\n}\n";
        assert_eq!(tests(text), [named("one", &[])]);
    }

    #[test]
    fn a_proof_is_named_from_below_crates() {
        let text = "#[test]\nfn one() {\n    // S-001, S-002\n}\n";
        let tree =
            RepositoryTree::of(&[("crates/core/tests/a.rs", text), ("xtask/src/b.rs", text)]);
        let test = BTreeSet::from(["core/tests/a.rs::one".to_owned()]);
        let expected = ["S-001", "S-002"].map(|row| (row.to_owned(), test.clone()));
        assert_eq!(in_repository(&tree), Proofs::from(expected));
    }
}
