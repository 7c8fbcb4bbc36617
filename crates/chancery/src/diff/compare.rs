//! The comparison of two sides: each change of a resource, and the audiences that see it.
//!
//! Not here: what two directories have in common (`inherited`), and what a server gives (`served`).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use chancery_catalog::{Audience, Key};
use chancery_core::{Resource, Version};
use chancery_proto::Schema;
use chancery_proto::show::{Notation, Viewer};

use super::change::{Change, SeenChanges};
use super::inherited::Inheritance;
use super::served::{NodeMove, Served, ServedView};
use super::side::{DirectorySide, find, keys_of};
use super::values;
use crate::check::LoadedDirectory;
use crate::exit::Failure;

/// All that differs.
pub(super) struct Comparison {
    /// The changes, by those who see them, and then in the order in which types are sent.
    pub(super) changes: Vec<(Vec<Audience>, Vec<Change>)>,
    /// True if the rules that decide on the group of a node differ.
    pub(super) rules_differ: bool,
    /// The fields that are filled in another way with what nodes state, in sentences.
    pub(super) values: Vec<String>,
    /// The nodes of a server that the rules would move.
    pub(super) moves: Vec<NodeMove>,
    /// The parts of a server that could not be compared, with the reasons.
    pub(super) left_out: Vec<String>,
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
        let values = values::differing(&sides, group);
        Ok(Self { changes, rules_differ, values, moves: Vec::new(), left_out: Vec::new() })
    }

    /// Compares what a server gives to its clients with what a directory has for them.
    pub(super) fn with_server(served: Served, schema: &Schema) -> Self {
        let (mut reader, mut seen) = (Reader::new(schema), SeenChanges::default());
        for view in served.views {
            let set = seen.set(vec![view.shown.clone()]);
            reader.changes_of(&view).into_iter().for_each(|change| seen.add(change, set));
        }
        let Served { moves, left_out, .. } = served;
        let values = Vec::new();
        Self { changes: seen.by_viewers(), rules_differ: false, values, moves, left_out }
    }

    /// Returns true if nothing differs.
    pub(super) fn is_empty(&self) -> bool {
        let is_silent = self.values.is_empty() && self.moves.is_empty();
        self.changes.is_empty() && !self.rules_differ && is_silent
    }
}

/// The comparison of messages that may be written as different bytes.
struct Reader {
    viewer: Viewer,
    /// The pairs that were compared. Most audiences have the same ones.
    known: BTreeMap<(Key, [Version; 2]), bool>,
}

impl Reader {
    fn new(schema: &Schema) -> Self {
        Self { viewer: Viewer::new(schema).with_secrets(), known: BTreeMap::new() }
    }

    /// The changes of the resources that a client is given now, or would be given.
    fn changes_of(&mut self, view: &ServedView) -> Vec<Change> {
        let ServedView { before, after, .. } = view;
        let mut keys: BTreeSet<_> = before.resources.keys().cloned().collect();
        keys.extend(after.as_deref().map(keys_of).unwrap_or_default());
        let change = |key: Key| {
            let (before, after) =
                (before.resources.get(&key).cloned(), find(after.as_deref(), &key));
            let is_same = match (&before, &after) {
                (Some(before), Some(after)) => self.are_same(&key, before, after),
                (before, after) => before.is_none() && after.is_none(),
            };
            (!is_same).then_some(Change { key, before, after })
        };
        keys.into_iter().filter(|key| !view.before.is_withheld(key)).filter_map(change).collect()
    }

    fn are_same(&mut self, key: &Key, one: &Resource, other: &Resource) -> bool {
        if one.body() == other.body() {
            return true;
        }
        let versions = [one, other].map(|it| it.version().clone());
        *self.known.entry((key.clone(), versions)).or_insert_with(|| {
            let shown =
                |it: &Resource| self.viewer.show(Notation::JsonLine, &key.type_url, it.body());
            shown(one) == shown(other)
        })
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
