//! Programs that Debian has as packages and no registry of a language has: `promtool`, for the tests of the example
//! alerts.
//!
//! A part of these is left out, and that is said, where there is no `apt-get` or it has no such package: the tests run
//! without it, because another system must not need Debian.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::parts::{PartsDirectory, clear};
use crate::steps::{exists, program, run};

/// The package that has `promtool`.
const PACKAGE: &str = "prometheus";

/// Takes `promtool` out of its package, unless it is there.
pub(crate) fn promtool(root: &Path, parts: &PartsDirectory) {
    let tools = ["apt-get", "dpkg-deb"];
    if !tools.iter().all(|tool| exists(&mut program(root, tool, &["--version"]))) {
        println!("left out: `promtool`, because this is no Debian; the tests use one on the path");
        return;
    }
    let made = parts.part("promtool", PACKAGE, |dir| {
        let made = unpack(dir);
        // A directory without the program must not look as if it had it.
        made.or_else(|fault| clear(dir).and(Err(fault)))
    });
    if let Err(fault) = made {
        println!("left out: `promtool`; the tests use one on the path: {fault:#}");
    }
}

/// Downloads the package, and keeps one program of it.
fn unpack(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir)?;
    run(&mut program(dir, "apt-get", &["-qq", "download", PACKAGE]))?;
    let mut files = fs::read_dir(dir)?.collect::<Result<Vec<_>, _>>()?.into_iter();
    let package = files.next().context("no file was downloaded")?.path();
    let unpacked = dir.join("unpacked");
    run(program(dir, "dpkg-deb", &["-x"]).arg(&package).arg(&unpacked))?;
    let promtool = dir.join("promtool");
    fs::rename(unpacked.join("usr/bin/promtool"), &promtool)?;
    clear(&unpacked)?;
    clear(&package)?;
    run(&mut program(dir, &promtool, &["--version"]))
}
