//! One version of each package, and no dependency that any version would do for.

use std::collections::BTreeMap;

use super::Package;
use super::rules::{Rules, Skip};
use crate::findings::Finding;

/// Skips that are older than half a year are worth a look.
const OLD: i64 = 183;

pub(super) fn check(rules: &Rules, packages: &[Package], today: i64) -> Vec<Finding> {
    let mut findings = duplicates(rules, packages);
    findings.extend(rules.skips.iter().filter(|skip| today - skip.added > OLD).map(old));
    findings.extend(wildcards(packages));
    findings
}

fn old(skip: &Skip) -> Finding {
    let Skip { name, version, .. } = skip;
    Finding::Note(format!("skip `{name}@{version}` is older than half a year: is it needed still?"))
}

/// Of each package one version is left that no skip names; and each skip names one of several.
fn duplicates(rules: &Rules, packages: &[Package]) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    let mut findings = Vec::new();
    for (name, versions) in &versions {
        let skipped = |version: &&&str| rules.skips.iter().any(|skip| skip.matches(name, version));
        let left: Vec<_> = versions.iter().filter(|version| !skipped(version)).copied().collect();
        if left.len() > 1 {
            findings.push(Finding::Fault(format!(
                "`{name}` is built in several versions: {}",
                left.join(", ")
            )));
        }
    }
    for skip in &rules.skips {
        let Skip { name, version, .. } = skip;
        let others = versions.get(name.as_str()).into_iter().flatten();
        if !others.into_iter().any(|other| skip.matches(name, other)) {
            findings.push(Finding::Fault(format!(
                "skip `{name}@{version}` is not needed: it is not one of several versions"
            )));
        }
    }
    findings
}

/// Packages of this repository use each other without a version, by path.
fn wildcards(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        for dependency in &package.dependencies {
            let may_lack_version = dependency.is_path && !package.is_published;
            if dependency.requirement == "*" && !may_lack_version {
                findings.push(Finding::Fault(format!(
                    "`{}` takes any version of `{}`",
                    package.name, dependency.name
                )));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{faults, ours, published};
    use super::*;

    fn skipping(name: &str, version: &str) -> Rules {
        let skip = Skip { name: name.to_owned(), version: version.to_owned(), added: 100 };
        Rules { skips: vec![skip], ..Rules::default() }
    }

    #[test]
    fn a_second_version_is_refused() {
        let packages = [published("a", "1.0.0"), published("b", "1.2.0"), published("b", "2.0.0")];
        let found = faults(check(&Rules::default(), &packages, 100));
        assert_eq!(found, ["`b` is built in several versions: 1.2.0, 2.0.0"]);
        assert_eq!(check(&skipping("b", "1"), &packages, 100), []);
    }

    #[test]
    fn a_skip_leaves_room_for_one_version_more() {
        let packages = ["1.0.0", "2.0.0", "3.0.0"].map(|version| published("b", version));
        let found = faults(check(&skipping("b", "1"), &packages, 100));
        assert_eq!(found, ["`b` is built in several versions: 2.0.0, 3.0.0"]);
    }

    #[test]
    fn a_skip_that_is_not_needed_is_refused() {
        let packages = [published("b", "1.2.0")];
        let found = faults(check(&skipping("b", "1"), &packages, 100));
        assert_eq!(found, ["skip `b@1` is not needed: it is not one of several versions"]);
        let several = [published("b", "2.0.0"), published("b", "3.0.0")];
        assert_eq!(faults(check(&skipping("b", "1"), &several, 100)).len(), 2);
    }

    #[test]
    fn a_skip_of_half_a_year_ago_is_worth_a_look() {
        let packages = [published("b", "1.0.0"), published("b", "2.0.0")];
        assert_eq!(check(&skipping("b", "1"), &packages, 100 + OLD), []);
        let found = check(&skipping("b", "1"), &packages, 101 + OLD);
        assert!(matches!(&found[..], [Finding::Note(text)] if text.contains("`b@1`")), "{found:?}");
    }

    #[test]
    fn any_version_will_not_do() {
        let found = faults(check(
            &Rules::default(),
            &[ours(&json!({"name": "b", "req": "*", "path": null}))],
            100,
        ));
        assert_eq!(found, ["`ours` takes any version of `b`"]);
        let path = ours(&json!({"name": "b", "req": "*", "path": "/somewhere/b"}));
        assert_eq!(check(&Rules::default(), &[path], 100), []);
    }
}
