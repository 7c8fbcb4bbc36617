//! The comparison of two sides: each change of a resource, and the audiences that see it.
//!
//! Not here: what two directories have in common (`inherited`), and what a server gives (`served`).

use std::collections::BTreeSet;

use anyhow::anyhow;
use chancery_catalog::Audience;

use super::change::Change;
use super::inherited::Inheritance;
use super::side::DirectorySide;
use crate::check::LoadedDirectory;
use crate::exit::Failure;

/// All that differs.
pub(super) struct Comparison {
    /// The changes, by those who see them, and then in the order in which types are sent.
    pub(super) changes: Vec<(Vec<Audience>, Vec<Change>)>,
    /// True if the rules that decide on the group of a node differ.
    pub(super) rules_differ: bool,
}

impl Comparison {
    /// Compares two directories, for one group or for all.
    pub(super) fn new(
        before: &LoadedDirectory,
        after: &LoadedDirectory,
        group: Option<&str>,
    ) -> Result<Self, Failure> {
        let sides = [before, after].map(DirectorySide::new);
        let audiences = audiences(&sides, group);
        let is_ruled = |name| sides.iter().any(|side| side.has_rule(name));
        if let Some(name) = group.filter(|name| audiences.is_empty() && !is_ruled(name)) {
            let error = anyhow!("there is no group `{name}`, before or after");
            return Err(Failure::broken(error));
        }
        let changes = Inheritance::of(&sides, &audiences).seen().by_viewers();
        let rules_differ = sides[0].rules() != sides[1].rules();
        Ok(Self { changes, rules_differ })
    }

    /// Returns true if nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && !self.rules_differ
    }
}

/// The audiences that one of both sides has, base first.
fn audiences(sides: &[DirectorySide<'_>; 2], group: Option<&str>) -> BTreeSet<Audience> {
    let mut all: BTreeSet<_> = sides.iter().flat_map(DirectorySide::audiences).collect();
    if let Some(wanted) = group {
        let is_in = |found: Audience| found.group.as_deref() == Some(wanted);
        all.retain(|shown| match shown.node {
            Some(_) => sides.iter().any(|side| is_in(side.audience(shown))),
            None => is_in(shown.clone()),
        });
    }
    all
}
