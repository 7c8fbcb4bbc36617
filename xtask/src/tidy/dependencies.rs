//! The check of the walls between crates: each has exactly the dependencies that are listed for it.
//!
//! `data/dependencies.txt` has one line per crate and kind of dependency; `cargo metadata` must say
//! the same, no less and no more. So a new edge shows in a change, and a wall cannot fall unseen.
//! The packages that the core must never use are listed here as well, because that table could be
//! edited.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::findings::Finding;

const TABLE: &str = include_str!("../../data/dependencies.txt");

/// Crate to what it must never use outside of its tests.
const WALLS: [(&str, &[&str]); 8] = [
    (
        "chancery-core",
        &[
            "tokio",
            "tonic",
            "prost",
            "prost-types",
            "prost-reflect",
            "serde",
            "serde_json",
            "tracing",
            "chancery-catalog",
            "chancery-client",
            "chancery-proto",
            "chancery-server",
            "chancery-sources",
            "chancery-testkit",
        ],
    ),
    (
        "chancery-bench",
        &[
            "h2",
            "hyper",
            "prost",
            "clap",
            "anyhow",
            "chancery-client",
            "chancery-proto",
            "chancery-server",
            "chancery-sources",
        ],
    ),
    (
        "chancery-catalog",
        &[
            "tokio",
            "tonic",
            "hyper",
            "tracing",
            "notify",
            "chancery-client",
            "chancery-server",
            "chancery-sources",
        ],
    ),
    (
        "chancery-client",
        &["chancery-catalog", "chancery-server", "chancery-sources", "clap", "anyhow", "notify"],
    ),
    (
        "chancery-proto",
        &[
            "tokio",
            "tonic",
            "hyper",
            "chancery-catalog",
            "chancery-client",
            "chancery-server",
            "chancery-sources",
        ],
    ),
    ("chancery-server", &["chancery-client", "chancery-sources", "clap", "anyhow", "notify"]),
    ("chancery-sources", &["chancery-server", "tonic", "hyper", "clap", "anyhow"]),
    ("chancery-testkit", &["chancery-sources", "clap", "anyhow"]),
];

/// One crate's dependencies of one kind.
type Uses = BTreeMap<(String, String), BTreeSet<String>>;

pub(crate) fn check(metadata: &Value) -> Vec<Finding> {
    let found = uses(metadata);
    let mut findings = compare(&table(TABLE), &found);
    findings.extend(walls(&found));
    findings.extend(cycles(metadata));
    findings
}

/// Lines of `crate: a b c`, `crate dev: a b c` and `crate build: a b c`.
fn table(text: &str) -> Uses {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(key, names)| {
            let (package, kind) = key.split_once(' ').unwrap_or((key, ""));
            let names = names.split_whitespace().map(str::to_owned).collect();
            ((package.to_owned(), kind.to_owned()), names)
        })
        .collect()
}

fn packages(metadata: &Value) -> impl Iterator<Item = (&str, &Vec<Value>)> {
    metadata["packages"].as_array().into_iter().flatten().filter_map(|package| {
        Some((package["name"].as_str()?, package["dependencies"].as_array()?))
    })
}

fn uses(metadata: &Value) -> Uses {
    let mut uses = Uses::new();
    for (package, dependencies) in packages(metadata) {
        uses.entry((package.to_owned(), String::new())).or_default();
        for dependency in dependencies {
            let kind = dependency["kind"].as_str().unwrap_or("").to_owned();
            let Some(name) = dependency["name"].as_str() else { continue };
            uses.entry((package.to_owned(), kind)).or_default().insert(name.to_owned());
        }
    }
    uses
}

fn compare(table: &Uses, found: &Uses) -> Vec<Finding> {
    let none = BTreeSet::new();
    let keys: BTreeSet<_> = table.keys().chain(found.keys()).collect();
    let mut findings = Vec::new();
    for key in keys {
        let (package, kind) = key;
        let space = if kind.is_empty() { "" } else { " " };
        let allowed = table.get(key).unwrap_or(&none);
        let used = found.get(key).unwrap_or(&none);
        let mut say = |name: &str, what: &str| {
            findings.push(Finding::Fault(format!("{package}{space}{kind}: `{name}` {what}")));
        };
        used.difference(allowed)
            .for_each(|name| say(name, "is used and not in `xtask/data/dependencies.txt`"));
        allowed
            .difference(used)
            .for_each(|name| say(name, "is in `xtask/data/dependencies.txt` and not used"));
    }
    findings
}

fn walls(found: &Uses) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, banned) in WALLS {
        let Some(used) = found.get(&(package.to_owned(), String::new())) else { continue };
        for name in banned.iter().filter(|name| used.contains(**name)) {
            findings.push(Finding::Fault(format!("{package}: must never use `{name}`")));
        }
    }
    findings
}

/// A cycle through tests is legal only without a version: with one, no crate of it can be released.
fn cycles(metadata: &Value) -> Vec<Finding> {
    let ours: BTreeSet<_> = packages(metadata).map(|(name, _)| name).collect();
    let mut findings = Vec::new();
    for (package, dependencies) in packages(metadata) {
        for dependency in dependencies {
            let name = dependency["name"].as_str().unwrap_or("");
            let is_dev = dependency["kind"].as_str() == Some("dev");
            if is_dev && ours.contains(name) && dependency["req"].as_str() != Some("*") {
                findings.push(Finding::Fault(format!(
                    "{package} dev: `{name}` is one of our crates and must have no version"
                )));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(req: &str) -> Value {
        serde_json::json!({"packages": [
            {"name": "chancery-core", "dependencies": [
                {"name": "bytes", "kind": null, "req": "^1"},
                {"name": "chancery-testkit", "kind": "dev", "req": req}]},
            {"name": "chancery-testkit", "dependencies": [
                {"name": "chancery-core", "kind": null, "req": "*"}]},
        ]})
    }

    const GOOD: &str = "# who uses what\n\nchancery-core: bytes\nchancery-core dev: chancery-testkit\n\
                        chancery-testkit: chancery-core\n";

    fn faults(text: &str) -> Vec<String> {
        let findings = compare(&table(text), &uses(&metadata("*")));
        findings.into_iter().map(|finding| format!("{finding:?}")).collect()
    }

    #[test]
    fn the_table_is_exact() {
        assert_eq!(faults(GOOD), [""; 0]);
        let more = faults(&GOOD.replace("bytes", "bytes imbl"));
        assert!(more[0].contains("chancery-core: `imbl` is in") && more.len() == 1, "{more:?}");
        let less = faults(&GOOD.replace("bytes", ""));
        assert!(less[0].contains("chancery-core: `bytes` is used") && less.len() == 1, "{less:?}");
        let gone = faults(&GOOD.replace("chancery-core dev: chancery-testkit\n", ""));
        assert!(gone[0].contains("chancery-core dev: `chancery-testkit`"), "{gone:?}");
    }

    #[test]
    fn the_core_never_uses_a_runtime() {
        let found = table("chancery-core: bytes tokio\n");
        assert_eq!(walls(&found).len(), 1);
        assert_eq!(walls(&table("chancery-core: bytes\nchancery-core dev: tokio\n")), []);
    }

    #[test]
    fn a_cycle_through_tests_has_no_version() {
        assert_eq!(cycles(&metadata("*")), []);
        assert_eq!(cycles(&metadata("^0.1")).len(), 1);
    }
}
