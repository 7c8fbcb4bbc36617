//! Servers of other projects that are built from source: `cargo xtask bench` compares Chancery with
//! them, and the tests of our client use them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::parts::{PartsDirectory, clear};
use crate::steps::{cargo, program, run};

/// The way in which a program is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// With optimisation; the build directory is kept for the next build.
    Optimised,
    /// In little time and with little disk space.
    Quick,
}

const RUST_CONTROL_PLANE: &str = "bench/rust-control-plane";

/// Builds a program on rust-control-plane. Its dependencies need `protoc` for their build.
pub(crate) fn rust_control_plane(
    parts: &PartsDirectory,
    protoc: &Path,
    how: Build,
) -> Result<PathBuf> {
    let dir = parts.root.join(RUST_CONTROL_PLANE);
    let own = ["src/main.rs", "Cargo.toml", "Cargo.lock"];
    let shared = ["content.rs", "control.rs", "protobuf.rs"];
    let made_from =
        parts.sources(RUST_CONTROL_PLANE, &own)? + &parts.sources("bench/servers/src", &shared)?;
    parts.part("rust-control-plane", &made_from, |target| {
        let build = parts.dir()?.join("rust-control-plane-target");
        let (profile, below) = match how {
            Build::Optimised => ("release", "release"),
            Build::Quick => ("dev", "debug"),
        };
        let words = ["build", "--profile", profile, "--locked", "--quiet", "--target-dir"];
        let mut command = cargo(&dir, &words);
        command.arg(&build).env("PROTOC", protoc).env("CARGO_PROFILE_DEV_DEBUG", "false");
        run(&mut command)?;
        fs::copy(build.join(below).join("bench-rust-control-plane"), target)?;
        if how == Build::Quick { clear(&build) } else { Ok(()) }
    })?;
    Ok(parts.dir()?.join("rust-control-plane"))
}

/// Builds the Go program in a directory.
pub(crate) fn go(dir: &Path, target: &Path) -> Result<()> {
    // Without the state of the repository, which `go` may not be allowed to read.
    let words = ["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"];
    run(program(dir, "go", &words).arg(target).arg("."))
}
