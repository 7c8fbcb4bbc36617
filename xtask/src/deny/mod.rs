//! Bans, licences, sources and the Rust of what is built from elsewhere, by the rules of
//! `deny.toml`.
//!
//! ```text
//!   rules      deny.toml, read; a rule that is not checked here is a fault
//!   bans       one version of each package, and no requirement that any version meets
//!   licenses   an expression of licences (spdx) that the allowed ones satisfy
//!   sources    the default registry and this repository
//!   toolchain  no package needs a later Rust than ours do
//! ```
//!
//! `cargo deny`, where it is installed, reads the same file and finds the same except for the last.
//! It alone checks advisories: their database is a repository, and CI contacts only package
//! registries.

mod bans;
mod licenses;
mod rules;
mod sources;
mod spdx;
mod toolchain;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use self::rules::Rules;
use crate::findings::report;
use crate::steps::{cargo, output};

/// Checks every package that is built for one of the targets of `deny.toml`.
pub(crate) fn deny(root: &Path) -> Result<()> {
    let text = std::fs::read_to_string(root.join("deny.toml")).context("`deny.toml`")?;
    let rules = Rules::read(&text)?;
    let packages = packages(root, &rules.targets)?;
    let today = rules::days_since_1970(SystemTime::now());
    let mut findings = bans::check(&rules, &packages, today);
    findings.extend(licenses::check(&rules, &packages));
    findings.extend(sources::check(&packages));
    findings.extend(toolchain::check(&packages));
    report("deny", &findings)?;
    println!("deny: {} packages are in order", packages.len());
    Ok(())
}

/// A package that is built, as `cargo metadata` describes it.
struct Package {
    name: String,
    version: String,
    /// Nothing for a directory of this machine.
    source: Option<String>,
    license: Option<String>,
    rust_version: Option<String>,
    /// False for the packages of this repository.
    is_published: bool,
    dependencies: Vec<Dependency>,
}

/// A dependency as the manifest of a package declares it.
struct Dependency {
    name: String,
    requirement: String,
    is_path: bool,
    /// Nothing for the default registry.
    registry: Option<String>,
    source: Option<String>,
}

/// The packages of `cargo metadata` that `cargo tree` has too: the former lists also what no
/// feature turns on.
fn packages(root: &Path, targets: &[String]) -> Result<Vec<Package>> {
    let words = ["metadata", "--locked", "--format-version", "1", "--all-features"];
    let metadata = output(&mut cargo(root, &words))?;
    let metadata: Value = serde_json::from_str(&metadata).context("`cargo metadata`")?;
    let words = ["tree", "--locked", "--workspace", "--all-features", "--prefix", "none"];
    let mut tree = cargo(root, &words);
    tree.args(["--edges", "normal,build,dev", "--format", "{p}"]);
    for target in targets {
        tree.args(["--target", target]);
    }
    let tree = output(&mut tree)?;
    let built = built(&tree);
    let packages = metadata["packages"].as_array().context("`cargo metadata` has no packages")?;
    let packages: Vec<_> = packages
        .iter()
        .filter_map(package)
        .filter(|package| built.contains(&(package.name.as_str(), package.version.as_str())))
        .collect();
    if packages.len() < built.len() {
        bail!("`cargo tree` has packages that `cargo metadata` lacks");
    }
    Ok(packages)
}

/// Name and version of each line `name v1.2.3 (…)`.
fn built(tree: &str) -> BTreeSet<(&str, &str)> {
    tree.lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, words.next()?.strip_prefix('v')?))
        })
        .collect()
}

fn package(value: &Value) -> Option<Package> {
    Some(Package {
        name: text(&value["name"])?,
        version: text(&value["version"])?,
        source: text(&value["source"]),
        license: text(&value["license"]),
        rust_version: text(&value["rust_version"]),
        // A list names registries; an empty one is `publish = false`.
        is_published: value["publish"].as_array().is_none_or(|registries| !registries.is_empty()),
        dependencies: value["dependencies"].as_array()?.iter().filter_map(dependency).collect(),
    })
}

fn dependency(value: &Value) -> Option<Dependency> {
    Some(Dependency {
        name: text(&value["name"])?,
        requirement: text(&value["req"])?,
        is_path: !value["path"].is_null(),
        registry: text(&value["registry"]),
        source: text(&value["source"]),
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::findings::Finding;

    /// A package of the default registry, without dependencies.
    pub(super) fn published(name: &str, version: &str) -> Package {
        let value = json!({"name": name, "version": version, "license": "MIT",
                           "source": "registry+https://default", "publish": null,
                           "dependencies": []});
        package(&value).unwrap()
    }

    /// A package of this repository with one dependency.
    pub(super) fn ours(dependency: &Value) -> Package {
        let value = json!({"name": "ours", "version": "0.1.0", "license": "Apache-2.0",
                           "source": null, "publish": [], "dependencies": [dependency]});
        package(&value).unwrap()
    }

    pub(super) fn faults(findings: Vec<Finding>) -> Vec<String> {
        let text = |finding| match finding {
            Finding::Fault(text) => Some(text),
            Finding::Note(_) => None,
        };
        findings.into_iter().filter_map(text).collect()
    }

    #[test]
    fn the_tree_has_names_and_versions() {
        let tree =
            "anyhow v1.0.0\nours v0.1.0 (/somewhere/ours)\nderive v2.0.1 (proc-macro) (*)\n\n";
        let expected = [("anyhow", "1.0.0"), ("derive", "2.0.1"), ("ours", "0.1.0")];
        assert_eq!(built(tree).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn packages_of_this_repository_are_not_published() {
        assert!(published("a", "1.0.0").is_published);
        assert!(!ours(&json!({"name": "a", "req": "^1"})).is_published);
    }
}
