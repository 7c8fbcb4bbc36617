//! The rows of docs/rules: their numbers, levels and first sentences.
//!
//! A row is `| S-001 | must | **The rule.** Why it is so. | source |`, under the heading of its
//! section. Tables whose first cell is no number of a row are prose to this module.

use std::collections::{BTreeMap, BTreeSet};

use super::citations::is_row;
use crate::findings::Finding;
use crate::repository::RepositoryTree;

/// The pages in the order of docs/conformance.md.
const PAGES: [&str; 3] = ["docs/rules/server.md", "docs/rules/client.md", "docs/rules/vectors.md"];

/// All rows, by page and section.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) pages: Vec<Page>,
}

/// One file of docs/rules.
#[derive(Debug)]
pub(crate) struct Page {
    /// The name of the file within docs/rules.
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) sections: Vec<Section>,
}

/// The rows under one heading.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) rows: Vec<RuleRow>,
}

/// One rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RuleRow {
    pub(crate) id: String,
    pub(crate) level: RuleLevel,
    pub(crate) is_built: bool,
    /// The sentence in bold type.
    pub(crate) rule: String,
}

/// The weight of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RuleLevel {
    Must,
    Should,
    May,
    Trap,
    Vector,
}

impl RuleLevel {
    const ALL: [Self; 5] = [Self::Must, Self::Should, Self::May, Self::Trap, Self::Vector];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::May => "may",
            Self::Trap => "trap",
            Self::Vector => "vector",
        }
    }
}

impl Catalogue {
    /// The rows of the pages in the tree, and all that is wrong with them.
    pub(crate) fn read(tree: &RepositoryTree) -> (Self, Vec<Finding>) {
        let mut catalogue = Self::default();
        let mut findings = Vec::new();
        for path in PAGES {
            match tree.text(path) {
                Some(text) => catalogue.pages.push(page(path, text, &mut findings)),
                None => findings.push(Finding::Fault(format!("{path}: is missing"))),
            }
        }
        let mut seen = BTreeSet::new();
        let twice = catalogue.rows().filter(|row| !seen.insert(&row.id));
        findings.extend(
            twice.map(|row| Finding::Fault(format!("docs/rules: {} is there twice", row.id))),
        );
        (catalogue, findings)
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &RuleRow> {
        self.pages.iter().flat_map(|page| &page.sections).flat_map(|section| &section.rows)
    }

    pub(crate) fn by_id(&self) -> BTreeMap<&str, &RuleRow> {
        self.rows().map(|row| (row.id.as_str(), row)).collect()
    }
}

fn page(path: &str, text: &str, findings: &mut Vec<Finding>) -> Page {
    let file = path.rsplit('/').next().unwrap_or(path).to_owned();
    let mut page = Page { file, title: String::new(), sections: Vec::new() };
    for (line, number) in text.lines().zip(1..) {
        if let Some(title) = line.strip_prefix("# ") {
            title.clone_into(&mut page.title);
        } else if let Some(heading) = line.strip_prefix("## ") {
            page.sections.push(Section { heading: heading.to_owned(), rows: Vec::new() });
        } else if let Some(row) = row(line) {
            match (row, page.sections.last_mut()) {
                (Ok(row), Some(section)) => section.rows.push(row),
                (Ok(row), None) => findings
                    .push(Finding::Fault(format!("{path}:{number}: {} has no section", row.id))),
                (Err(fault), _) => {
                    findings.push(Finding::Fault(format!("{path}:{number}: {fault}")));
                }
            }
        }
    }
    page
}

/// The row on this line, if the line is one.
fn row(line: &str) -> Option<Result<RuleRow, String>> {
    let cells: Vec<&str> = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ").collect();
    let id = *cells.first()?;
    is_row(id).then(|| read(&cells).map_err(|fault| format!("{id}: {fault}")))
}

fn read(cells: &[&str]) -> Result<RuleRow, &'static str> {
    let [id, level, text, source] = *cells else {
        return Err("has to be `| id | level | **Rule.** Why. | source |`");
    };
    let built = level.strip_suffix(", not built");
    let name = built.unwrap_or(level);
    let level = RuleLevel::ALL.into_iter().find(|level| level.name() == name);
    let level = level.ok_or("is at none of the levels must, should, may, trap and vector")?;
    let rule = text.strip_prefix("**").and_then(|text| text.split_once(".**"));
    let (rule, _) = rule.ok_or("has no first sentence in bold type")?;
    if source.trim().is_empty() {
        return Err("has no source");
    }
    let (id, rule) = (id.to_owned(), format!("{rule}."));
    Ok(RuleRow { id, level, is_built: built.is_none(), rule })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# Rules\n\n## One\n\n| id | level | rule | source |\n|---|---|---|---|\n";

    fn read_page(rows: &str) -> (Catalogue, Vec<String>) {
        let text = format!("{HEAD}{rows}");
        let empty = "# Empty\n";
        let tree = RepositoryTree::of(&[(PAGES[0], &text), (PAGES[1], empty), (PAGES[2], empty)]);
        let (catalogue, findings) = Catalogue::read(&tree);
        let text = |finding| match finding {
            Finding::Fault(text) | Finding::Note(text) => text,
        };
        (catalogue, findings.into_iter().map(text).collect())
    }

    #[test]
    fn a_row_has_a_number_a_level_and_a_sentence() {
        let (catalogue, faults) = read_page(
            "| S-001 | must | **The `*` of it.** Why it is so. | [a](b) |\n\
             | T-01 | trap | **Another.** | seen in c |\n\n## Two\n\n\
             | V1 | vector, not built | **Third.** | d |\n",
        );
        assert_eq!(faults, [""; 0]);
        let row = |id: &str, level, is_built, rule: &str| RuleRow {
            id: id.to_owned(),
            level,
            is_built,
            rule: rule.to_owned(),
        };
        let page = &catalogue.pages[0];
        assert_eq!((page.file.as_str(), page.title.as_str()), ("server.md", "Rules"));
        assert_eq!(page.sections[0].heading, "One");
        let first = row("S-001", RuleLevel::Must, true, "The `*` of it.");
        assert_eq!(page.sections[0].rows, [first, row("T-01", RuleLevel::Trap, true, "Another.")]);
        assert_eq!(page.sections[1].rows, [row("V1", RuleLevel::Vector, false, "Third.")]);
    }

    #[test]
    fn a_row_that_cannot_be_read_is_a_fault() {
        for (cells, fault) in [
            ("must | The rule. | a", "has no first sentence in bold type"),
            ("perhaps | **The rule.** | a", "is at none of the levels"),
            ("must | **The rule.**", "has to be"),
            ("must | **The rule.** |  ", "has no source"),
        ] {
            let (catalogue, faults) = read_page(&format!("| S-001 | {cells} |\n"));
            assert_eq!((catalogue.rows().count(), faults.len()), (0, 1), "{cells}");
            assert!(faults[0].starts_with("docs/rules/server.md:7: S-001: "), "{faults:?}");
            assert!(faults[0].contains(fault), "{faults:?}");
        }
    }

    #[test]
    fn a_number_stands_for_one_row() {
        let row = "| S-001 | must | **The rule.** | a |\n";
        assert_eq!(read_page(&row.repeat(2)).1, ["docs/rules: S-001 is there twice"]);
    }

    #[test]
    fn other_tables_are_prose() {
        let (catalogue, faults) = read_page("| LDS | type | path |\n| S-1a | must |\n| a |\n");
        assert_eq!((catalogue.rows().count(), faults), (0, vec![]));
    }

    #[test]
    fn a_page_that_is_missing_is_a_fault() {
        let (_, findings) = Catalogue::read(&RepositoryTree::of(&[]));
        assert_eq!(findings.len(), 3);
    }

    #[test]
    fn no_row_that_the_project_set_out_with_is_lost() {
        let (catalogue, findings) = Catalogue::read(&RepositoryTree::of(&[
            (PAGES[0], include_str!("../../../docs/rules/server.md")),
            (PAGES[1], include_str!("../../../docs/rules/client.md")),
            (PAGES[2], include_str!("../../../docs/rules/vectors.md")),
        ]));
        assert_eq!(findings, []);
        for (letter, level, least, least_built) in [
            ("S-", RuleLevel::Must, 82, 75),
            ("S-", RuleLevel::Should, 52, 45),
            ("S-", RuleLevel::May, 6, 1),
            ("T-", RuleLevel::Trap, 35, 35),
            ("C-", RuleLevel::Must, 120, 81),
            ("C-", RuleLevel::Should, 23, 13),
            ("C-", RuleLevel::May, 7, 6),
            ("V", RuleLevel::Vector, 11, 11),
            ("P", RuleLevel::Vector, 8, 8),
            ("K", RuleLevel::Vector, 9, 9),
        ] {
            let rows = catalogue.rows().filter(|row| row.id.starts_with(letter));
            let rows: Vec<_> = rows.filter(|row| row.level == level).collect();
            let built = rows.iter().filter(|row| row.is_built).count();
            assert!(rows.len() >= least && built >= least_built, "{letter} {level:?}");
        }
    }
}
