//! `cargo xtask tidy`: checks of promises of the project that no compiler checks.
//!
//! ```text
//!   dependencies   every crate uses what data/dependencies.txt says, no less and no more
//!   sources        module docs, sizes of files and functions, words that must not stay
//!   comments       no comment begins with half of a sentence
//!   contents       no binaries, no keys, no registry hosts
//!   waits          no wait for a program or a peer without a bound, in tests
//!   programs       every file of tests is in a test program
//!   places         ARCHITECTURE.md names files that are there
//!   conformance    every rule that is cited exists, every rule that is built has a test
//!   api            docs/api is what the sources say, and docs/stability.md names its crates
//! ```
//!
//! A check is a pure function from text to findings; `repository.rs` reads the files. All faults are
//! listed at once. Notes are worth a look and fail nothing.

mod comments;
mod conformance;
mod contents;
mod dependencies;
mod places;
mod programs;
mod sources;
mod waits;

use std::path::Path;

use anyhow::Result;

use crate::api;
use crate::findings::report;
use crate::repository::{RepositoryTree, metadata};

/// Runs every check, and lists all findings.
pub(crate) fn tidy(root: &Path) -> Result<()> {
    let (tree, metadata) = (RepositoryTree::read(root)?, metadata(root)?);
    let mut findings = dependencies::check(&metadata);
    findings.extend(sources::check(&tree));
    findings.extend(comments::check(&tree));
    findings.extend(contents::check(&tree));
    findings.extend(waits::check(&tree));
    findings.extend(programs::check(&tree));
    findings.extend(places::check(&tree));
    findings.extend(conformance::check(&tree));
    findings.extend(api::check(&tree, &metadata));
    report("tidy", &findings)?;
    println!("tidy: {} files are in order", tree.files.len());
    Ok(())
}
