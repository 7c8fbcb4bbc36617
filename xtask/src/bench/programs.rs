//! The programs of the benchmark: Chancery and the other servers, built with optimisation.
//!
//! Cargo builds the Rust programs of the workspace each time. The others are built once for each
//! version of their sources ([`PartsDirectory`]). A server that cannot be built is reported and
//! left out, and its goals are then not met.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::parts::PartsDirectory;
use crate::peers::{self, Build};
use crate::steps::{cargo, exists, program, run};

/// The paths of the programs.
#[derive(Debug)]
pub(crate) struct Programs {
    /// The daemon, which is also the driver.
    pub(crate) chancery: PathBuf,
    /// Chancery as a library, with the control port of the servers under test.
    pub(crate) library: PathBuf,
    pub(crate) tcp: PathBuf,
    pub(crate) h2: PathBuf,
    /// Readers of the events of a daemon.
    pub(crate) events: PathBuf,
    /// go-control-plane, or the reason why it is missing.
    pub(crate) go: Result<PathBuf, String>,
    /// rust-control-plane, or the reason why it is missing.
    pub(crate) rust_control_plane: Result<PathBuf, String>,
}

/// Builds all programs.
pub(crate) fn build(root: &Path) -> Result<Programs> {
    println!("building Chancery and the servers beside it");
    let words =
        ["build", "--release", "--locked", "-p", "chancery", "-p", "chancery-bench-servers"];
    let target = root.join("target");
    run(cargo(root, &words).arg("--target-dir").arg(&target))?;
    let parts = PartsDirectory { root: root.to_path_buf(), below: "target/bench" };
    let release = target.join("release");
    Ok(Programs {
        chancery: release.join("chancery"),
        library: release.join("bench-chancery"),
        tcp: release.join("bench-tcp"),
        h2: release.join("bench-h2"),
        events: release.join("bench-events"),
        go: reported(go(&parts)),
        rust_control_plane: reported(rust_control_plane(&parts)),
    })
}

fn reported(outcome: Result<PathBuf>) -> Result<PathBuf, String> {
    outcome.map_err(|fault| {
        let why = format!("{fault:#}");
        println!("left out: {why}");
        why
    })
}

const GO: &str = "bench/go-control-plane";

fn go(parts: &PartsDirectory) -> Result<PathBuf> {
    let dir = parts.root.join(GO);
    if !exists(&mut program(&dir, "go", &["version"])) {
        bail!("go-control-plane needs `go`, which is not installed");
    }
    let made_from =
        parts.sources(GO, &["main.go", "caches.go", "content.go", "go.mod", "go.sum"])?;
    parts.part("go-control-plane", &made_from, |target| peers::go(&dir, target))?;
    Ok(parts.dir()?.join("go-control-plane"))
}

fn rust_control_plane(parts: &PartsDirectory) -> Result<PathBuf> {
    let protoc = protoc(parts)?;
    peers::rust_control_plane(parts, &protoc, Build::Optimised)
}

/// The Python package of the protobuf compiler.
const GRPCIO_TOOLS: &str = "grpcio-tools==1.85.1";

/// `protoc` of this machine, or one in a Python environment.
fn protoc(parts: &PartsDirectory) -> Result<PathBuf> {
    if exists(&mut program(&parts.root, "protoc", &["--version"])) {
        return Ok("protoc".into());
    }
    parts.part("protoc", GRPCIO_TOOLS, |dir| {
        let path = dir.to_string_lossy();
        run(&mut program(&parts.root, "python3", &["-m", "venv", &path]))?;
        let python = dir.join("bin/python");
        let words =
            ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", GRPCIO_TOOLS];
        run(&mut program(&parts.root, &python, &words))?;
        let script = format!("#!/bin/sh\nexec {} -m grpc_tools.protoc \"$@\"\n", python.display());
        fs::write(dir.join("protoc"), script)?;
        run(program(&parts.root, "chmod", &["+x"]).arg(dir.join("protoc")))
    })?;
    Ok(parts.dir()?.join("protoc/protoc"))
}
