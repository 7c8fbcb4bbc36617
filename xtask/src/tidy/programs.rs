//! The check that each file of tests is in a test program.
//!
//! A crate with `autotests = false` has one program for most of its tests, because each program links
//! all that it tests. Cargo would not notice a file there that no program has: its tests would never
//! run.

use crate::findings::Finding;
use crate::repository::{RepositoryFile, RepositoryTree};

pub(crate) fn check(tree: &RepositoryTree) -> Vec<Finding> {
    let manifests = tree.files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        let manifest = file.text()?;
        manifest.contains("\nautotests = false\n").then_some((folder, manifest))
    });
    manifests.flat_map(|(folder, manifest)| lost(tree, folder, manifest)).collect()
}

/// The files of a crate that are neither a program nor a module of the one of `tests/main.rs`.
fn lost<'a>(
    tree: &'a RepositoryTree,
    folder: &str,
    manifest: &str,
) -> impl Iterator<Item = Finding> + 'a {
    let tests = format!("{folder}/tests/");
    let main = tree.text(&format!("{tests}main.rs")).unwrap_or_default();
    let known: Vec<_> =
        [main, manifest].into_iter().flat_map(str::lines).map(str::to_owned).collect();
    tree.files.iter().filter_map(move |RepositoryFile { path, .. }| {
        let name = path.strip_prefix(&tests)?.strip_suffix(".rs")?;
        let ways = [format!("mod {name};"), format!("name = \"{name}\"")];
        let is_known =
            name == "main" || name.contains('/') || ways.iter().any(|way| known.contains(way));
        let fault =
            format!("{path}: no test program has it: write `mod {name};` in {tests}main.rs");
        (!is_known).then_some(Finding::Fault(fault))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nautotests = false\n\n[[test]]\nname = \"b\"\n";

    fn faults(manifest: &str) -> Vec<Finding> {
        let tests = ["main", "a", "b", "c", "support/d"].map(|name| format!("k/tests/{name}.rs"));
        let mut files: Vec<_> = tests.iter().map(|path| (path.as_str(), "mod a;\n")).collect();
        files.extend([("k/Cargo.toml", manifest), ("k/src/c.rs", "")]);
        check(&RepositoryTree::of(&files))
    }

    #[test]
    fn a_file_in_no_program_is_a_fault() {
        let fault = "k/tests/c.rs: no test program has it: write `mod c;` in k/tests/main.rs";
        assert_eq!(faults(MANIFEST), [Finding::Fault(fault.to_owned())]);
    }

    #[test]
    fn cargo_finds_the_files_of_other_crates() {
        assert_eq!(faults("[package]\nname = \"k\"\n"), []);
    }
}
