//! The edits that are not applied, each with those who see the layer without it, and the name that may be
//! meant.
//!
//! Not here: which edits of a view these are (`crate::resolve`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use chancery_core::Snapshot;

use super::near::{NearMiss, NearNames};
use super::usage::Usage;
use super::{Lacking, TargetKey};
use crate::audience::Audience;
use crate::catalog::Catalog;
use crate::content::LayerContent;
use crate::entry::{EntryContent, Key};
use crate::flaws::{Unapplied, WhyUnapplied};
use crate::gate::Seen;
use crate::layer::Layer;

/// An edit that is not applied for somebody.
#[derive(Clone, Debug, PartialEq)]
pub struct UnappliedEdit {
    /// The edit.
    pub edit: Unapplied,
    /// The audiences that see its layer without it, sorted.
    pub audiences: Vec<Audience>,
    /// The name that may be meant, if no layer below has such a resource.
    pub near: Option<NearMiss>,
}

impl UnappliedEdit {
    /// The name that may be meant, as a question. Empty if none is near.
    pub fn question(&self) -> String {
        NearMiss::question(self.near.as_ref(), &self.edit.key.type_url, &self.edit.key.name)
    }
}

/// The edits that are not applied, so many at most.
pub(super) fn unapplied(found: &[Lacking], most: usize) -> Vec<UnappliedEdit> {
    let mut all: BTreeMap<(String, &Key), (&Unapplied, &Snapshot, Vec<Audience>)> = BTreeMap::new();
    for Lacking { audience, told, snapshot, .. } in found {
        for edit in told.unapplied.iter() {
            let key = (edit.origin.to_string(), &edit.key);
            if all.len() < most || all.contains_key(&key) {
                let one = all.entry(key).or_insert((edit, snapshot, Vec::new()));
                one.2.push(audience.clone());
            }
        }
    }
    let of = |(edit, snapshot, audiences): (&Unapplied, &Snapshot, _)| UnappliedEdit {
        edit: edit.clone(),
        audiences,
        near: near(snapshot, edit),
    };
    all.into_values().map(of).collect()
}

/// The name in a snapshot that an edit of nothing may mean.
fn near(snapshot: &Snapshot, edit: &Unapplied) -> Option<NearMiss> {
    if matches!(edit.why, WhyUnapplied::NotPatched(_) | WhyUnapplied::NotFilled(_)) {
        return None;
    }
    let Key { type_url, name } = &edit.key;
    // A load assignment of this name may be generated.
    let missing: BTreeSet<TargetKey<'_>> = BTreeSet::from([(type_url.short(), name)]);
    NearNames::new(&missing, &Usage::default()).of(snapshot, type_url, name)
}

impl Seen {
    /// The name that may be meant by an edit that is not applied, as a question. Empty if none is near.
    pub fn question(&self, edit: &Unapplied) -> String {
        NearMiss::question(near(self.snapshot(), edit).as_ref(), &edit.key.type_url, &edit.key.name)
    }
}

impl Catalog {
    /// The edits in layers of nodes that cannot be applied whatever group the node is in, because no layer has
    /// the resource. The group of a node is known when it comes; this is for whoever does not wait for that.
    ///
    /// It looks at all layers of nodes, and into those with edits.
    pub fn edits_of_nothing(&self) -> Vec<UnappliedEdit> {
        let nodes = self.nodes();
        let contents = nodes.iter().filter_map(|node| {
            let content = self.content(&Layer::Node(Arc::clone(node)))?;
            content.has_edits().then_some((node, content))
        });
        let edited: Vec<_> = contents.collect();
        if edited.is_empty() {
            return Vec::new();
        }
        let groups = self.groups();
        let layers = groups.iter().map(|group| Layer::Group(Arc::clone(group)));
        let below: Vec<Arc<LayerContent>> =
            std::iter::once(Layer::Base).chain(layers).filter_map(|it| self.content(&it)).collect();
        let is_there = |key: &Key| {
            let mut entries = below.iter().filter_map(|layer| layer.get(key));
            entries.any(|entry| entry.resource().is_some())
        };
        let mut edits = Vec::new();
        for (node, content) in edited {
            for (key, entry) in content.iter() {
                let why = match &entry.content {
                    EntryContent::Whole(_) => continue,
                    EntryContent::Patch(_) => WhyUnapplied::NothingToPatch,
                    EntryContent::Removal(_) => WhyUnapplied::NothingToRemove,
                };
                if !is_there(key) {
                    let origin = entry.origin.clone();
                    let edit = Unapplied { key: key.clone(), origin, why };
                    let audiences = vec![Audience::of(None, Some(Arc::clone(node)))];
                    edits.push(UnappliedEdit { edit, audiences, near: None });
                }
            }
        }
        if !edits.is_empty() {
            self.look_for_near(&mut edits);
        }
        edits
    }

    /// Looks for the names that the first of these edits may mean, in base and in the first groups.
    fn look_for_near(&self, edits: &mut [UnappliedEdit]) {
        let groups = self.groups();
        let some = std::iter::once(None).chain(groups.iter().take(FEW_GROUPS).map(Some));
        let snapshots: Vec<_> =
            some.filter_map(|group| self.snapshot(group.map(|name| &**name), None)).collect();
        for unapplied in edits.iter_mut().take(FEW_EDITS) {
            unapplied.near = snapshots.iter().find_map(|it| near(it, &unapplied.edit));
        }
    }
}

/// The edit, and the name that may be meant.
impl fmt::Display for UnappliedEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.edit)?;
        match self.question() {
            none if none.is_empty() => Ok(()),
            question => write!(f, "; {question}"),
        }
    }
}

/// The number of edits of nodes for whose names the ones that may be meant are looked for.
const FEW_EDITS: usize = 100;

/// The number of groups in which the name is looked for that an edit of a node may mean.
const FEW_GROUPS: usize = 16;
