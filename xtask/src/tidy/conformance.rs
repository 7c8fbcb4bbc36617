//! The check of the rules and their tests: a rule that is cited exists, a rule that is built has a
//! test, and the page that lists both is up to date with `cargo xtask conformance`.

use std::collections::BTreeMap;

use crate::findings::Finding;
use crate::lexer::comments;
use crate::repository::{RepositoryFile, RepositoryTree};
use crate::rules::catalogue::{Catalogue, RuleLevel, RuleRow};
use crate::rules::proofs::{self, Proofs};
use crate::rules::{citations, table};

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    let (catalogue, mut findings) = Catalogue::read(tree);
    if !findings.is_empty() {
        return findings;
    }
    let proofs = proofs::in_repository(tree);
    findings.extend(catalogue.rows().filter_map(|row| proved(row, &proofs)));
    let known = catalogue.by_id();
    findings.extend(tree.files.iter().flat_map(|file| unknown(file, &known)));
    findings.extend(stale(tree, &table::page(&catalogue, &proofs)));
    findings
}

/// A row that is built has a test, and one that is not has none.
fn proved(row: &RuleRow, proofs: &Proofs) -> Option<Finding> {
    let id = &row.id;
    match (row.is_built, proofs.get(id).and_then(|tests| tests.first())) {
        (true, None) => {
            let text = format!("docs/rules: {id} ({}) has no test that cites it", row.level.name());
            Some(if row.level == RuleLevel::Should {
                Finding::Note(text)
            } else {
                Finding::Fault(text)
            })
        }
        (false, Some(test)) => {
            Some(Finding::Fault(format!("docs/rules: {id} is not built, and `{test}` cites it")))
        }
        _ => None,
    }
}

/// Numbers that are cited and that docs/rules does not have.
fn unknown(file: &RepositoryFile, known: &BTreeMap<&str, &RuleRow>) -> Vec<Finding> {
    let path = &file.path;
    let Some(text) = file.text().filter(|_| path != table::PAGE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut find = |number: u32, id: &str| {
        if !known.contains_key(id) {
            let text = format!("{path}:{number}: cites {id}, which docs/rules does not have");
            findings.push(Finding::Fault(text));
        }
    };
    for (line, number) in text.lines().zip(1..) {
        citations::rules(line).for_each(|id| find(number, id));
    }
    let is_suspect = citations::vectors(text).any(|id| !known.contains_key(id));
    let prose = match path.rsplit_once('.') {
        Some((_, "md")) if is_suspect => text.to_owned(),
        Some((_, "rs")) if is_suspect => comments(text),
        _ => String::new(),
    };
    for (line, number) in prose.lines().zip(1..) {
        citations::vectors(line).for_each(|id| find(number, id));
    }
    findings
}

fn stale(tree: &RepositoryTree, page: &str) -> Option<Finding> {
    (tree.text(table::PAGE) != Some(page)).then(|| {
        let page = table::PAGE;
        Finding::Fault(format!(
            "{page}: the rules and tests say otherwise; run `cargo xtask conformance`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "# Rules\n\n## One\n\n| S-001 | must | **One.** | a |\n\
                         | S-002 | should | **Two.** | a |\n| T-01 | trap | **Three.** | a |\n\
                         | C-092 | must, not built | **Four.** | a |\n| V1 | vector | **Five.** | a |\n";
    const TESTS: &str = "//! x\n\n#[test]\nfn one() {\n    // S-001, T-01, V1\n}\n\n\
                         // S-002\n#[test]\nfn two() {}\n";

    /// The findings about these tests and this other file, if the page is up to date.
    fn findings(tests: &str, path: &str, text: &str) -> Vec<String> {
        let rules =
            [("docs/rules/server.md", RULES), ("crates/core/tests/a.rs", tests), (path, text)];
        let empty =
            [("docs/rules/client.md", "# Client\n"), ("docs/rules/vectors.md", "# Vectors\n")];
        let files: Vec<_> = rules.into_iter().chain(empty).collect();
        let tree = RepositoryTree::of(&files);
        let page = table::page(&Catalogue::read(&tree).0, &proofs::in_repository(&tree));
        let page = [(table::PAGE, page.as_str())];
        let text = |finding| match finding {
            Finding::Fault(text) => text,
            Finding::Note(text) => format!("note: {text}"),
        };
        let files: Vec<_> =
            files.into_iter().filter(|file| file.0 != table::PAGE).chain(page).collect();
        check(&RepositoryTree::of(&files)).into_iter().map(text).collect()
    }

    #[test]
    fn rules_with_tests_are_in_order() {
        assert_eq!(findings(TESTS, "README.md", "S-001, T-01 and V1."), [""; 0]);
    }

    #[test]
    fn a_rule_that_is_built_has_a_test() {
        let found = |row: &str| findings(&TESTS.replace(row, "x"), "a.md", "");
        assert_eq!(found("S-001"), ["docs/rules: S-001 (must) has no test that cites it"]);
        assert_eq!(found("S-002"), ["note: docs/rules: S-002 (should) has no test that cites it"]);
        assert_eq!(found("T-01"), ["docs/rules: T-01 (trap) has no test that cites it"]);
        assert_eq!(found("V1"), ["docs/rules: V1 (vector) has no test that cites it"]);
    }

    #[test]
    fn a_rule_that_is_not_built_has_none() {
        let found = findings(&TESTS.replace("S-002", "S-002, C-092"), "a.md", "");
        let expected = "docs/rules: C-092 is not built, and `core/tests/a.rs::two` cites it";
        assert_eq!(found, [expected]);
        assert_eq!(findings(TESTS, "crates/core/src/a.rs", "// C-092\nfn a() {}\n"), [""; 0]);
    }

    #[test]
    fn a_number_that_does_not_exist_is_found_wherever_it_is_cited() {
        let (rule, vector) = (format!("S-{}", 999), format!("V{}", 12));
        let text = format!("\n// {rule} {vector}\nconst A: &str = \"{rule} {vector}\";\n");
        let fault = |path: &str, line: u8, id: &str| {
            format!("{path}:{line}: cites {id}, which docs/rules does not have")
        };
        for (path, vectors) in [("a.rs", vec![2]), ("a.md", vec![2, 3]), ("a.yaml", vec![])] {
            let mut expected = vec![fault(path, 2, &rule), fault(path, 3, &rule)];
            expected.extend(vectors.into_iter().map(|line| fault(path, line, &vector)));
            assert_eq!(findings(TESTS, path, &text), expected);
        }
    }

    #[test]
    fn a_page_that_is_out_of_date_is_found() {
        let mut files = vec![
            ("docs/rules/server.md", RULES),
            ("docs/rules/client.md", "# Client\n"),
            ("docs/rules/vectors.md", "# Vectors\n"),
            ("crates/core/tests/a.rs", TESTS),
        ];
        let expected = Finding::Fault(
            "docs/conformance.md: the rules and tests say otherwise; run `cargo xtask conformance`"
                .to_owned(),
        );
        assert_eq!(check(&RepositoryTree::of(&files)), std::slice::from_ref(&expected));
        files.push((table::PAGE, "# Conformance\n"));
        assert_eq!(check(&RepositoryTree::of(&files)), [expected]);
    }

    #[test]
    fn rules_that_cannot_be_read_are_found() {
        assert_eq!(check(&RepositoryTree::of(&[])).len(), 3);
    }
}
