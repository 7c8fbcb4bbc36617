//! The conformance table: every row of the catalogues in scope, and the tests that prove it.
//!
//! `data/rows.txt` says which rows are in scope and at which level; `docs/conformance.md` must list
//! exactly those. A row at level must, a trap and a vector need a test; every test that is named
//! must exist. A test is written `crate/tests/file.rs::name`, from below `crates/`. A row marked
//! `later` has no tests, and the table says `not built`, so that nobody takes it for proved.

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

/// What a row has to come to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Aim<'a> {
    level: &'a str,
    later: bool,
}

/// Row to aim, from lines of `S-001 must` and `C-092 must later`.
fn scope(text: &str) -> BTreeMap<&str, Aim<'_>> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let aim = |line| {
        let (id, rest) = str::split_once(line, ' ')?;
        let level = rest.strip_suffix(" later");
        Some((id, Aim { level: level.unwrap_or(rest), later: level.is_some() }))
    };
    lines.filter_map(aim).collect()
}

/// One line of the table.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    line: usize,
    id: &'a str,
    level: &'a str,
    tests: Vec<&'a str>,
    /// Whether the table says so.
    not_built: bool,
}

/// The lines `| S-001 | level | what it says | tests |` of the table.
fn rows(table: &str) -> Vec<Row<'_>> {
    let lines = table.lines().enumerate();
    lines.filter_map(|(index, line)| row(index + 1, line)).collect()
}

fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let cells: Vec<&str> = text.strip_prefix('|')?.split('|').map(str::trim).collect();
    let [id, level, _, tests, ..] = *cells.as_slice() else { return None };
    let not_built = tests.starts_with("not built: ");
    let words = tests.split(['`', ' ', ',']).flat_map(|part| part.split("<br>"));
    let tests = words.filter(|word| word.contains("::")).collect();
    is_row(id).then_some(Row { line, id, level, tests, not_built })
}

/// Rows of the catalogues are `S-001`, `T-01` and `C-001`, vectors `V1`, `P1` and `K1`.
fn is_row(id: &str) -> bool {
    let number = match id.split_once('-') {
        Some(("S" | "T" | "C", number)) => Some(number),
        Some(_) => None,
        None => id.strip_prefix(['V', 'P', 'K']),
    };
    number.is_some_and(|it| !it.is_empty() && it.chars().all(|char| char.is_ascii_digit()))
}

fn compare(scope: &BTreeMap<&str, Aim<'_>>, rows: &[Row<'_>], tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeSet::new();
    for row in rows {
        let place = format!("{TABLE}:{}: {}", row.line, row.id);
        if !listed.insert(row.id) {
            findings.push(Finding::Fault(format!("{place} is listed twice")));
        }
        match scope.get(row.id) {
            None => findings.push(Finding::Fault(format!("{place} is not in scope"))),
            Some(aim) if aim.level != row.level => findings.push(Finding::Fault(format!(
                "{place} is listed as `{}`, the catalogue says `{}`",
                row.level, aim.level
            ))),
            Some(_) => {}
        }
        if scope.get(row.id).is_some_and(|aim| aim.later) {
            findings.extend(unproved(row, &place));
        } else {
            findings.extend(tests(row, &place, tree));
        }
    }
    let missing = scope.keys().filter(|id| !listed.contains(*id));
    findings.extend(missing.map(|id| Finding::Fault(format!("{TABLE}: {id} is not listed"))));
    findings
}

/// A row that is not built says so, and claims nothing.
fn unproved(row: &Row<'_>, place: &str) -> Option<Finding> {
    let honest = row.not_built && row.tests.is_empty();
    let text = || format!("{place} is for later; say `not built: WHERE` and name no test");
    (!honest).then(|| Finding::Fault(text()))
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
    fn a_row_for_later_says_so_and_names_no_test() {
        let scope = scope("C-092 must later\nV1 vector\n");
        let faults = |cell: &str| {
            let table = format!(
                "| C-092 | must | a | {cell} |\n| V1 | vector | b | core/tests/a.rs::one |"
            );
            compare(&scope, &rows(&table), &tree()).len()
        };
        assert_eq!(faults("not built: the data plane"), 0);
        assert_eq!(faults(""), 1);
        assert_eq!(faults("core/tests/a.rs::one"), 1);
        assert_eq!(faults("not built: core/tests/a.rs::one"), 1);
    }

    #[test]
    fn headings_and_other_tables_are_no_rows() {
        for id in ["S-001", "T-01", "C-150", "V11", "P1", "K9"] {
            assert!(is_row(id), "{id}");
        }
        for id in ["row", "---", "V", "S-", "X-001", "V-1", "Vx", "P1a"] {
            assert!(!is_row(id), "{id}");
        }
    }

    #[test]
    fn the_scope_is_what_the_project_set_out_to_do() {
        let scope = scope(ROWS);
        let count = |catalogue: &str, level| {
            let rows = scope.iter().filter(|(id, _)| id.starts_with(catalogue));
            rows.filter(|(_, aim)| aim.level == level).count()
        };
        let server = (count("S-", "must"), count("S-", "should"), count("T-", "trap"));
        assert_eq!(server, (75, 45, 35));
        let client = (count("C-", "must"), count("C-", "should"), count("C-", "may"));
        assert_eq!(client, (120, 23, 7));
        assert_eq!(["V", "P", "K"].map(|letter| count(letter, "vector")), [11, 8, 9]);
    }
}
