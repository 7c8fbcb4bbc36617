//! The sources of packages: the default registry, and directories of this repository.

use std::collections::BTreeSet;

use super::Package;
use crate::findings::Finding;

/// The default registry: a dependency that names no registry is of this one.
pub(super) fn check(packages: &[Package]) -> Vec<Finding> {
    let dependencies = || packages.iter().flat_map(|package| &package.dependencies);
    let defaults: BTreeSet<&str> = dependencies()
        .filter(|dependency| dependency.registry.is_none())
        .filter_map(|dependency| dependency.source.as_deref())
        .filter(|source| source.starts_with("registry+"))
        .collect();
    let is_foreign = |source: &&str| !defaults.contains(source);
    let mut findings = Vec::new();
    for package in packages {
        if let Some(source) = package.source.as_deref().filter(is_foreign) {
            let kind = if source.starts_with("git+") { "git" } else { "another registry" };
            findings.push(Finding::Fault(format!(
                "`{}` {} comes from {kind}: `{source}`",
                package.name, package.version
            )));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{faults, ours, published};
    use super::*;

    /// The findings about a package from `source`, beside one of the default registry.
    fn check_of(source: Option<&str>) -> Vec<String> {
        let dependency = json!({"name": "a", "req": "^1", "registry": null,
                                "source": "registry+https://default"});
        let b = Package { source: source.map(str::to_owned), ..published("b", "2.0.0") };
        faults(check(&[ours(&dependency), published("a", "1.0.0"), b]))
    }

    #[test]
    fn the_default_registry_and_directories_are_allowed() {
        assert_eq!(check_of(Some("registry+https://default")), [""; 0]);
        assert_eq!(check_of(None), [""; 0]);
    }

    #[test]
    fn git_is_refused() {
        let found = check_of(Some("git+https://somewhere/b#1234"));
        assert_eq!(found, ["`b` 2.0.0 comes from git: `git+https://somewhere/b#1234`"]);
    }

    #[test]
    fn another_registry_is_refused() {
        let found = check_of(Some("registry+https://other"));
        assert_eq!(found, ["`b` 2.0.0 comes from another registry: `registry+https://other`"]);
    }

    #[test]
    fn a_dependency_that_names_a_registry_does_not_make_it_the_default() {
        let dependency = json!({"name": "b", "req": "^1", "registry": "https://other",
                                "source": "registry+https://other"});
        let b = Package {
            source: Some("registry+https://other".to_owned()),
            ..published("b", "2.0.0")
        };
        assert_eq!(faults(check(&[ours(&dependency), b])).len(), 1);
    }
}
