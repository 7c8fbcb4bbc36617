//! The conformance table: every row of the catalogue in scope, and the tests that prove it.
//!
//! `data/rows.txt` says which rows are in scope and at which level; `docs/conformance.md` must list
//! exactly those. A row at level must, and a trap, needs a test; every test that is named must
//! exist. A test is written `crate/tests/file.rs::name`, from below `crates/`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree};

const TABLE: &str = "docs/conformance.md";
const ROWS: &str = include_str!("../../data/rows.txt");

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    match tree.text(TABLE) {
        Some(table) => compare(&scope(ROWS), &rows(table), tree),
        None => vec![Finding::Fault(format!("{TABLE}: is missing"))],
    }
}

/// Row to level, from lines of `S-001 must`.
fn scope(text: &str) -> BTreeMap<&str, &str> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .collect()
}

/// One line of the table.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    line: usize,
    id: &'a str,
    level: &'a str,
    tests: Vec<&'a str>,
}

/// The lines `| S-001 | level | what it says | tests |` of the table.
fn rows(table: &str) -> Vec<Row<'_>> {
    let lines = table.lines().enumerate();
    lines.filter_map(|(index, line)| row(index + 1, line)).collect()
}

fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = text.strip_prefix('|')?.split('|').map(str::trim).collect();
    let [id, level, _, tests, ..] = *cells.as_slice() else { return None };
    let (letter, number) = id.split_once('-')?;
    let is_row = matches!(letter, "S" | "T") && number.chars().all(|char| char.is_ascii_digit());
    let words = tests.split(['`', ' ', ',']).flat_map(|part| part.split("<br>"));
    let tests = words.filter(|word| word.contains("::")).collect();
    is_row.then_some(Row { line, id, level, tests })
}

fn compare(scope: &BTreeMap<&str, &str>, rows: &[Row<'_>], tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for row in rows {
        let place = format!("{TABLE}:{}: {}", row.line, row.id);
        if !listed.insert(row.id) {
            findings.push(Finding::Fault(format!("{place} is listed twice")));
        }
        match scope.get(row.id) {
            None => findings.push(Finding::Fault(format!("{place} is not in scope"))),
            Some(level) if *level != row.level => findings.push(Finding::Fault(format!(
                "{place} is listed as `{}`, the catalogue says `{level}`",
                row.level
            ))),
            Some(_) => {}
        }
        findings.extend(tests(row, &place, tree));
    }
    let missing = scope.keys().filter(|id| !listed.contains(*id));
    findings.extend(missing.map(|id| Finding::Fault(format!("{TABLE}: {id} is not listed"))));
    findings
}

fn tests(row: &Row<'_>, place: &str, tree: &Tree) -> Vec<Finding> {
    if row.tests.is_empty() {
        let text = format!("{place} ({}) has no test", row.level);
        return vec![match row.level {
            "should" => Finding::Note(text),
            _ => Finding::Fault(text),
        }];
    }
    let unknown = row.tests.iter().filter(|test| !exists(test, tree));
    unknown.map(|test| Finding::Fault(format!("{place}: no test `{test}`"))).collect()
}

/// Whether the file has a test function of that name.
fn exists(test: &str, tree: &Tree) -> bool {
    let Some((file, name)) = test.split_once("::") else { return false };
    let Some(text) = tree.text(&format!("crates/{file}")) else { return false };
    let start = format!("fn {name}(");
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let named = |line: &str| line.strip_prefix("async ").unwrap_or(line).starts_with(&start);
    lines.iter().enumerate().any(|(at, line)| named(line) && is_test(&lines[..at]))
}

/// Whether the attributes right above make the next function a test.
fn is_test(above: &[&str]) -> bool {
    let attributes = above.iter().rev().take_while(|line| {
        line.starts_with("#[") || line.starts_with("//") || line.ends_with(")]")
    });
    attributes.into_iter().any(|line| {
        line.starts_with("#[test]") || line.contains("::test]") || line.contains("::test(")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "//! x\n\n// S-001\n#[test]\nfn one() {}\n\n#[tokio::test(start_paused = true)]\n\
                          async fn two() {}\n\nfn no_test() {}\n";

    fn tree() -> Tree {
        Tree::of(&[("crates/core/tests/a.rs", SOURCE)])
    }

    fn faults(table: &str) -> Vec<String> {
        let scope = scope("# rows\nS-001 must\nS-002 should\nT-01 trap\n");
        let fault = |finding| match finding {
            Finding::Fault(text) => Some(text.replace(TABLE, "table")),
            Finding::Note(_) => None,
        };
        compare(&scope, &rows(table), &tree()).into_iter().filter_map(fault).collect()
    }

    const GOOD: &str = "| row | level | what | tests |\n|---|---|---|---|\n\
                        | S-001 | must | a | `core/tests/a.rs::one`<br>`core/tests/a.rs::two` |\n\
                        | S-002 | should | b | |\n\
                        | T-01 | trap | c | core/tests/a.rs::one, core/tests/a.rs::two |\n";

    #[test]
    fn a_full_table_has_no_faults() {
        assert_eq!(faults(GOOD), [""; 0]);
    }

    #[test]
    fn a_must_row_without_a_test_is_a_fault() {
        let table = GOOD.replace("`core/tests/a.rs::one`<br>`core/tests/a.rs::two`", "");
        assert_eq!(faults(&table), ["table:3: S-001 (must) has no test"]);
    }

    #[test]
    fn a_trap_without_a_test_is_a_fault() {
        let table = GOOD.replace("core/tests/a.rs::one, core/tests/a.rs::two", "later");
        assert_eq!(faults(&table), ["table:5: T-01 (trap) has no test"]);
    }

    #[test]
    fn a_test_that_does_not_exist_is_a_fault() {
        for (name, wrong) in
            [("one`", "three`"), ("one`", "no_test`"), ("a.rs::one`", "b.rs::one`")]
        {
            let found = faults(&GOOD.replacen(name, wrong, 1));
            assert_eq!(found.len(), 1, "{wrong}");
            assert!(found[0].starts_with("table:3: S-001: no test"), "{found:?}");
        }
    }

    #[test]
    fn rows_and_levels_are_those_of_the_catalogue() {
        assert_eq!(
            faults(&GOOD.replace("| S-002 |", "| S-003 |")),
            ["table:4: S-003 is not in scope", "table: S-002 is not listed",]
        );
        assert_eq!(
            faults(&GOOD.replace("| should |", "| may |")),
            [
                "table:4: S-002 is listed as `may`, the catalogue says `should`",
                "table:4: S-002 (may) has no test"
            ]
        );
        let twice = format!("{GOOD}| S-002 | should | b | |\n");
        assert_eq!(faults(&twice), ["table:6: S-002 is listed twice"]);
    }

    #[test]
    fn the_scope_is_what_the_project_set_out_to_do() {
        let scope = scope(ROWS);
        let count = |level| scope.values().filter(|found| **found == level).count();
        assert_eq!((count("must"), count("should"), count("trap")), (75, 45, 35));
    }
}
