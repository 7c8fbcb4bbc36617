//! `cargo xtask api`: the public interface of each library crate, as a listing for review.
//!
//! ```text
//!   sources --> modules --> scope: what a name means --> public: what a user can name
//!                                                          |
//!     docs/api/CRATE.txt <-- listing <-- items, impls, macros, with names as users write them
//! ```
//!
//! A listing is a record like a lock file: `cargo xtask tidy` fails when the sources say otherwise,
//! so a change of the interface is a change of a file that somebody reviews. The crates whose items
//! are part of an interface are listed in `docs/stability.md`, which is checked too.
//!
//! The sources are read, not compiled. So every feature and every condition is shown at once, and
//! what only the compiler finds out is missing: auto traits, and what macros of other crates make.
//! A macro of a crate's own is shown as it is called. A name that leads nowhere is a fault.

mod aliases;
mod conditions;
mod foreign;
mod impls;
mod items;
mod listing;
mod macros;
mod modules;
mod names;
mod public;
mod reexports;
mod scope;
mod spell;
#[cfg(test)]
mod tests;
mod workspace;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::findings::Finding;
use crate::repository::{RepositoryTree, metadata};
use listing::{ApiLine, Rank, difference, written};
use modules::CrateSource;
use names::{Mentions, NameReplacer};
use scope::CrateScope;
use workspace::{LISTINGS, Library, libraries};

/// The interface of one library.
struct Interface {
    text: String,
    /// The packages whose items are part of it.
    packages: BTreeSet<String>,
    /// Names in signatures that lead nowhere.
    unknown: BTreeSet<String>,
}

/// Writes all listings.
pub(crate) fn write(root: &Path) -> Result<()> {
    let (tree, metadata) = (RepositoryTree::read(root)?, metadata(root)?);
    fs::create_dir_all(root.join(LISTINGS))?;
    for (library, interface) in interfaces(&tree, &metadata) {
        let interface = interface.with_context(|| library.package.clone())?;
        if !interface.unknown.is_empty() {
            bail!("{}: {}", library.package, lost(&interface));
        }
        let path = library.listing();
        fs::write(root.join(&path), &interface.text).with_context(|| path.clone())?;
        println!("{path}: {} lines", interface.text.lines().count());
    }
    Ok(())
}

/// Compares the listings, and the crates that `docs/stability.md` names, with the sources.
pub(crate) fn check(tree: &RepositoryTree, metadata: &Value) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut uses = Vec::new();
    for (library, interface) in interfaces(tree, metadata) {
        match interface {
            Ok(interface) => {
                findings.extend(compare(tree, &library, &interface));
                uses.push((library.package, interface.packages));
            }
            Err(fault) => {
                findings.push(Finding::Fault(format!("{}: {fault:#}", library.package)));
            }
        }
    }
    findings.extend(superfluous(tree, &libraries(metadata)));
    findings.extend(foreign::check(tree, &uses));
    findings
}

/// The interfaces of all libraries, each read by a thread of its own.
fn interfaces(tree: &RepositoryTree, metadata: &Value) -> Vec<(Library, Result<Interface>)> {
    let libraries = libraries(metadata);
    let read = |path: &str| tree.text(path).map(str::to_owned);
    let found: Vec<_> = std::thread::scope(|threads| {
        let start = |library| threads.spawn(move || interface(library, &read));
        let running: Vec<_> = libraries.iter().map(start).collect();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    let found = found.into_iter().map(|joined| {
        joined.unwrap_or_else(|_| bail!("its interface could not be read: the reader panicked"))
    });
    libraries.into_iter().zip(found).collect()
}

/// The interface of one library, from its sources.
fn interface(library: &Library, read: modules::ReadFile<'_>) -> Result<Interface> {
    let source = CrateSource::read(&library.root, read)?;
    let crates: BTreeSet<String> = library.crates.keys().cloned().collect();
    let scope = CrateScope { source: &source, crates: &crates };
    let mut mentions = Mentions::default();
    let mut lines = lines(&scope, &mut mentions);
    let features = library.features.iter().map(|name| format!("feature {name}"));
    lines.extend(features.map(|text| ApiLine::new(&[], Rank::Declaration, text)));
    let mut packages = BTreeSet::new();
    for path in &mentions.foreign {
        let name = path.split("::").next().unwrap_or_default();
        packages.insert(library.crates.get(name).map_or(name, String::as_str).to_owned());
        lines.insert(ApiLine::new(
            std::slice::from_ref(path),
            Rank::Foreign,
            format!("extern {path}"),
        ));
    }
    let text = written(&library.package, lines);
    Ok(Interface { text, packages, unknown: mentions.unknown })
}

fn lines(scope: &CrateScope<'_>, mentions: &mut Mentions) -> BTreeSet<ApiLine> {
    let public = public::public(scope);
    let mut lines: BTreeSet<ApiLine> =
        reexports::lines(&public, scope, mentions).into_iter().collect();
    let mut traits = impls::Traits::default();
    for (id, place) in &public.items {
        let module = scope.source.items[*id].module;
        lines.extend(items::lines(
            *id,
            place,
            &mut NameReplacer::new(scope, &public, module, mentions),
        ));
        traits.derived(*id, place, &mut NameReplacer::new(scope, &public, module, mentions));
    }
    for given in &scope.source.impls {
        let mut own = Mentions::default();
        let mut names = NameReplacer::new(scope, &public, given.module, &mut own);
        let is_shown = match given.item.trait_ {
            Some(_) => traits.implementation(given, &mut names),
            None => {
                lines.extend(impls::inherent(given, &mut names));
                true
            }
        };
        if is_shown {
            mentions.take(own);
        }
    }
    lines.extend(traits.lines());
    lines.extend(scope.source.calls.iter().flat_map(|call| macros::lines(call, scope, mentions)));
    lines
}

fn compare(tree: &RepositoryTree, library: &Library, interface: &Interface) -> Vec<Finding> {
    let path = library.listing();
    let mut findings = Vec::new();
    if !interface.unknown.is_empty() {
        findings.push(Finding::Fault(format!("{}: {}", library.package, lost(interface))));
    }
    if let Some(lines) = difference(tree.text(&path).unwrap_or_default(), &interface.text) {
        findings.push(Finding::Fault(format!(
            "{path}: the interface of {} is another:\n{lines}  run `cargo xtask api` and let the \
             reviewer see the change",
            library.package
        )));
    }
    findings
}

fn lost(interface: &Interface) -> String {
    let names: Vec<_> = interface.unknown.iter().map(|name| format!("`{name}`")).collect();
    format!(
        "names in its interface that cannot be followed; import them by name: {}",
        names.join(", ")
    )
}

/// Listings of crates that are no longer there.
fn superfluous(tree: &RepositoryTree, libraries: &[Library]) -> Vec<Finding> {
    let known: BTreeSet<_> = libraries.iter().map(Library::listing).collect();
    let files = tree.files.iter().map(|file| &file.path);
    let listings = files.filter(|path| path.starts_with(LISTINGS) && !known.contains(*path));
    listings.map(|path| Finding::Fault(format!("{path}: is the listing of no library"))).collect()
}
