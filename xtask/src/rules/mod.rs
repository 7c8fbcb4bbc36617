//! The rules of docs/rules, the tests that cite them, and docs/conformance.md, made of both.
//!
//! ```text
//!   docs/rules/*.md --catalogue--> Catalogue ---+
//!                                               +--table--> docs/conformance.md
//!   crates/**/*.rs --proofs------> Proofs ------+
//! ```
//!
//! Each part is a pure function of text. `cargo xtask tidy` compares the page with what would be
//! written, and checks what is cited (`tidy/conformance.rs`).

pub(crate) mod catalogue;
pub(crate) mod citations;
pub(crate) mod proofs;
pub(crate) mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::findings::report;
use crate::repository::RepositoryTree;
use catalogue::Catalogue;

/// Writes docs/conformance.md.
pub(crate) fn conformance(root: &Path) -> Result<()> {
    let tree = RepositoryTree::read(root)?;
    let (catalogue, faults) = Catalogue::read(&tree);
    report("conformance", &faults)?;
    let page = table::page(&catalogue, &proofs::in_repository(&tree));
    fs::write(root.join(table::PAGE), page).context(table::PAGE)?;
    println!("conformance: {} is written", table::PAGE);
    Ok(())
}
