//! `cargo xtask attack`: builds the daemon and the attacks on it with optimisation, and makes them.
//!
//! Not here: the attacks, their options and their table, which are the program's in `attack/`. CI
//! makes a part of them as a test of that program.

use std::path::Path;

use anyhow::{Result, bail};

use crate::steps::{cargo, program};
use crate::supervise::{self, BOUNDS};

/// Builds both programs and runs the attacks with these words.
pub(crate) fn attack(root: &Path, words: &[&str]) -> Result<()> {
    let mut build = cargo(root, &["build", "--release", "--locked", "--quiet"]);
    build.args(["-p", "chancery", "-p", "chancery-attack", "--target-dir"]);
    crate::steps::run(build.arg(root.join("target")))?;
    let mut attack = program(root, root.join("target/release/chancery-attack"), words);
    let mut child = attack.spawn()?;
    match supervise::wait(&mut child, &attack, BOUNDS.whole)?.code() {
        Some(0) => Ok(()),
        Some(1) => bail!("the server does not hold all attacks"),
        _ => bail!("the attacks could not be made"),
    }
}
