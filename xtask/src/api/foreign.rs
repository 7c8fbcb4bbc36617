//! The crates whose items stand in the public signatures of others, as `docs/stability.md` has them.
//!
//! Such a crate cannot be exchanged, nor raised to another major version, without a change for
//! users. So the page names it, and one that the page does not name is a fault.

use std::collections::{BTreeMap, BTreeSet};

use crate::findings::Finding;
use crate::repository::RepositoryTree;

/// The page with the table.
const PAGE: &str = "docs/stability.md";

/// The heading above the table.
const HEADING: &str = "## Items of other crates";

pub(super) fn check(tree: &RepositoryTree, uses: &[(String, BTreeSet<String>)]) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else {
        return vec![Finding::Fault(format!("{PAGE}: is missing"))];
    };
    let table = table(page);
    let none = BTreeSet::new();
    let mut findings = Vec::new();
    for (package, used) in uses {
        let allowed = table.get(package).unwrap_or(&none);
        let mut say = |name: &str, what: &str| {
            findings.push(Finding::Fault(format!("{PAGE}: `{package}`: `{name}` {what}")));
        };
        let is_new = "stands in a public signature and is not in the table";
        used.difference(allowed).for_each(|name| say(name, is_new));
        let is_gone = "is in the table and stands in no public signature";
        allowed.difference(used).for_each(|name| say(name, is_gone));
    }
    let known: BTreeSet<_> = uses.iter().map(|(package, _)| package).collect();
    let gone = table.keys().filter(|package| !known.contains(package));
    findings.extend(gone.map(|package| {
        Finding::Fault(format!("{PAGE}: `{package}` is in the table and is no library"))
    }));
    findings
}

/// Rows of `` | `crate` | `a`, `b` | `` below the heading.
fn table(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let section = page.lines().skip_while(|line| *line != HEADING).skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let row = |line: &str| {
        let (package, rest) = line.strip_prefix("| `")?.split_once("` |")?;
        let cell = rest.split('|').next().unwrap_or_default();
        let names = cell.split('`').skip(1).step_by(2).map(str::to_owned);
        Some((package.to_owned(), names.collect()))
    };
    section.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# x\n\n| `other` | `z` |\n\n## Items of other crates\n\n| crate | of |\n\
                         |---|---|\n| `core` | `bytes`, `http` (1.x) |\n| `proto` | none |\n\n## y\n\n\
                         | `last` | `z` |\n";

    fn faults(page: &str, core: &[&str]) -> Vec<String> {
        let core = core.iter().map(|name| (*name).to_owned()).collect();
        let uses = [("core".to_owned(), core), ("proto".to_owned(), BTreeSet::new())];
        let findings = check(&RepositoryTree::of(&[(PAGE, page)]), &uses);
        findings.into_iter().map(|finding| format!("{finding:?}")).collect()
    }

    #[test]
    fn the_table_is_exact() {
        assert_eq!(faults(TABLE, &["bytes", "http"]), [""; 0]);
        let more = faults(TABLE, &["bytes", "http", "tokio"]);
        assert!(more.len() == 1 && more[0].contains("`core`: `tokio` stands"), "{more:?}");
        let less = faults(TABLE, &["bytes"]);
        assert!(less.len() == 1 && less[0].contains("`core`: `http` is in"), "{less:?}");
    }

    #[test]
    fn a_row_of_no_library_is_a_fault() {
        let page = TABLE.replace("| `proto` |", "| `protocol` |");
        let found = faults(&page, &["bytes", "http"]);
        assert!(found.len() == 1 && found[0].contains("`protocol` is in"), "{found:?}");
    }

    #[test]
    fn a_page_that_is_missing_is_a_fault() {
        assert_eq!(check(&RepositoryTree::of(&[]), &[]).len(), 1);
    }
}
