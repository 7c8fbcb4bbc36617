//! docs/conformance.md as text.

use std::fmt::Write as _;

use super::catalogue::{Catalogue, RuleRow, Section};
use super::proofs::Proofs;

/// The page that is made here.
pub(crate) const PAGE: &str = "docs/conformance.md";

/// The words before the tables.
const INTRODUCTION: &str = include_str!("../../data/conformance.md");

/// The whole page: the introduction, then a table for each section of the rules.
pub(crate) fn page(catalogue: &Catalogue, proofs: &Proofs) -> String {
    let mut text = INTRODUCTION.to_owned();
    for page in &catalogue.pages {
        let _ = write!(
            text,
            "\n## {}\n\nFrom [rules/{file}](rules/{file}).\n",
            page.title,
            file = page.file
        );
        for section in page.sections.iter().filter(|section| !section.rows.is_empty()) {
            table(&mut text, section, proofs);
        }
    }
    text
}

fn table(text: &mut String, section: &Section, proofs: &Proofs) {
    let head = "| row | level | rule | tests |\n|---|---|---|---|";
    let _ = writeln!(text, "\n### {}\n\n{head}", section.heading);
    for row in &section.rows {
        let (id, level, tests) = (&row.id, row.level.name(), tests(row, proofs));
        let _ = writeln!(text, "| {id} | {level} | {} | {tests} |", row.rule);
    }
}

fn tests(row: &RuleRow, proofs: &Proofs) -> String {
    if !row.is_built {
        return "not built".to_owned();
    }
    let tests = proofs.get(&row.id).into_iter().flatten();
    let tests: Vec<_> = tests.map(|test| format!("`{test}`")).collect();
    if tests.is_empty() { "none".to_owned() } else { tests.join("<br>") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rules::catalogue::{Page, RuleLevel};

    #[test]
    fn a_section_is_a_table_of_its_rows() {
        let row = |id: &str, is_built| RuleRow {
            id: id.to_owned(),
            level: RuleLevel::Must,
            is_built,
            rule: format!("Rule {id}."),
        };
        let rows = vec![row("S-001", true), row("S-002", true), row("S-003", false)];
        let section = |heading: &str, rows| Section { heading: heading.to_owned(), rows };
        let page = Page {
            file: "server.md".to_owned(),
            title: "Rules".to_owned(),
            sections: vec![section("One", rows), section("Prose", vec![])],
        };
        let tests = ["a.rs::two", "a.rs::one"].map(str::to_owned);
        let proofs = Proofs::from([("S-001".to_owned(), BTreeSet::from(tests))]);
        let text = super::page(&Catalogue { pages: vec![page] }, &proofs);
        let tables = text.strip_prefix(INTRODUCTION).unwrap();
        assert_eq!(
            tables,
            "\n## Rules\n\nFrom [rules/server.md](rules/server.md).\n\n### One\n\n\
             | row | level | rule | tests |\n|---|---|---|---|\n\
             | S-001 | must | Rule S-001. | `a.rs::one`<br>`a.rs::two` |\n\
             | S-002 | must | Rule S-002. | none |\n\
             | S-003 | must | Rule S-003. | not built |\n"
        );
    }
}
