//! The libraries of the workspace, as `cargo metadata` tells them.

use std::collections::BTreeMap;

use serde_json::Value;

/// A crate that others may use: a member below `crates/` with a library.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Library {
    pub(super) package: String,
    /// Its root, below that of the repository.
    pub(super) root: String,
    pub(super) features: Vec<String>,
    /// The crates it may name: the name in code, and the package.
    pub(super) crates: BTreeMap<String, String>,
}

impl Library {
    /// The listing on record, below the root of the repository.
    pub(super) fn listing(&self) -> String {
        format!("{LISTINGS}/{}.txt", self.package)
    }
}

/// The directory of the listings.
pub(super) const LISTINGS: &str = "docs/api";

/// All libraries, by name.
pub(super) fn libraries(metadata: &Value) -> Vec<Library> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut libraries: Vec<_> = packages.filter_map(|package| library(package, root)).collect();
    libraries.sort_by(|one, other| one.package.cmp(&other.package));
    libraries
}

fn library(package: &Value, root: &str) -> Option<Library> {
    let mut targets = package["targets"].as_array()?.iter();
    let lib = targets.find(|target| {
        let mut kinds = target["kind"].as_array().into_iter().flatten();
        kinds.any(|kind| kind.as_str() == Some("lib"))
    })?;
    let path = lib["src_path"].as_str()?.strip_prefix(root)?.trim_start_matches('/');
    let features = package["features"].as_object();
    let crates = package["dependencies"].as_array()?.iter().filter_map(used);
    path.starts_with("crates/").then_some(Library {
        package: package["name"].as_str()?.to_owned(),
        root: path.to_owned(),
        features: features.map(|features| features.keys().cloned().collect()).unwrap_or_default(),
        crates: crates.collect(),
    })
}

/// A dependency that is not only one of tests or of the build script.
fn used(dependency: &Value) -> Option<(String, String)> {
    let package = dependency["name"].as_str().filter(|_| dependency["kind"].is_null())?;
    let name = dependency["rename"].as_str().unwrap_or(package);
    Some((name.replace('-', "_"), package.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_members_below_crates_that_have_one() {
        let package = |name: &str, path: &str, kind: &str| {
            serde_json::json!({
                "name": name,
                "features": {"server": ["dep:http"]},
                "targets": [{"kind": [kind], "src_path": format!("/w/{path}")}],
                "dependencies": [
                    {"name": "tokio-util", "kind": null, "rename": null},
                    {"name": "tempfile", "kind": "dev", "rename": null},
                    {"name": "http", "kind": null, "rename": "web"},
                ],
            })
        };
        let metadata = serde_json::json!({"workspace_root": "/w", "packages": [
            package("chancery", "crates/chancery/src/main.rs", "bin"),
            package("chancery-core", "crates/chancery-core/src/lib.rs", "lib"),
            package("tool", "bench/tool/src/lib.rs", "lib"),
        ]});
        let found = libraries(&metadata);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].listing(), "docs/api/chancery-core.txt");
        assert_eq!(found[0].root, "crates/chancery-core/src/lib.rs");
        let crates: Vec<_> =
            found[0].crates.iter().map(|(name, package)| [name, package]).collect();
        assert_eq!(crates, [["tokio_util", "tokio-util"], ["web", "http"]]);
    }
}
