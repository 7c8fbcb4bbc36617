//! What one audience sees, and how it follows from what it saw.
//!
//! ```text
//!   before: base, group, node     now: base', group', node'
//!                 \--- names that differ ---/
//!                          |  for each: the node's, else the group's, else base's
//!                          v
//!                 the snapshot it saw --> the snapshot it sees
//! ```
//!
//! Layers share what did not change from load to load, so finding the names that differ costs
//! what differs. A view remembers the layers it was made of and is good for ever.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_core::Snapshot;
use chancery_proto::complete::Complete;
use chancery_proto::references::Dangling;
use imbl::ordmap::DiffItem;

use crate::catalog::audience::Audience;
use crate::catalog::content::Key;
use crate::catalog::generation::{Generation, Slot};

/// What one audience should see.
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    /// The references in it that lead nowhere.
    pub(crate) dangling: Arc<[Dangling]>,
    whole: Complete,
    /// What it was made of: base, group, node.
    parts: [Slot; 3],
}

impl View {
    /// What the audience sees of a generation that [serves](Generation::serves) it, and saw
    /// `before`.
    pub(crate) fn of(
        load: &Generation,
        audience: &Audience,
        before: Option<&Arc<Self>>,
    ) -> Arc<Self> {
        let parts = load.parts(audience);
        match before {
            Some(before) if before.parts.iter().zip(&parts).all(|(a, b)| same(a, b)) => {
                Arc::clone(before)
            }
            Some(before) => Arc::new(before.grown(parts)),
            None => Arc::new(Self::first(load, parts)),
        }
    }

    fn first(load: &Generation, parts: [Slot; 3]) -> Self {
        let mut whole = load.trunk.clone();
        let [base, ..] = &parts;
        follow(&mut whole, &[base.clone(), None, None], &parts);
        let dangling = whole.dangling().collect();
        Self { snapshot: Arc::new(whole.snapshot().clone()), dangling, whole, parts }
    }

    fn grown(&self, parts: [Slot; 3]) -> Self {
        let mut whole = self.whole.clone();
        // Comments and the order of files are no content: who sees the same keeps the same.
        if !follow(&mut whole, &self.parts, &parts) {
            let (snapshot, dangling) = (Arc::clone(&self.snapshot), Arc::clone(&self.dangling));
            return Self { snapshot, dangling, whole, parts };
        }
        let dangling = match whole.dangling_turn() == self.whole.dangling_turn() {
            true => Arc::clone(&self.dangling),
            false => whole.dangling().collect(),
        };
        Self { snapshot: Arc::new(whole.snapshot().clone()), dangling, whole, parts }
    }
}

/// Brings what came of some layers, the weakest first, to what comes of others; whether anything
/// changed.
pub(crate) fn follow(whole: &mut Complete, before: &[Slot], now: &[Slot]) -> bool {
    let mut names = BTreeSet::new();
    for (before, now) in before.iter().zip(now) {
        if !same(before, now) {
            differing(before, now, &mut names);
        }
    }
    let mut changed = false;
    for key in names {
        let strongest = now.iter().rev().flatten().find_map(|layer| layer.entries.get(&key));
        changed |= match strongest {
            Some(entry) => whole.insert(&key.0, Arc::clone(&entry.resource)),
            None => whole.remove(&key.0, &key.1),
        };
    }
    changed
}

/// The names that two states of a layer do not agree about.
fn differing(before: &Slot, now: &Slot, names: &mut BTreeSet<Key>) {
    let entries = |slot: &Slot| slot.as_ref().map(|content| content.entries.clone());
    let (before, now) = (entries(before).unwrap_or_default(), entries(now).unwrap_or_default());
    names.extend(before.diff(&now).map(|item| match item {
        DiffItem::Add(key, _) | DiffItem::Remove(key, _) => key.clone(),
        DiffItem::Update { new: (key, _), .. } => key.clone(),
    }));
}

fn same(old: &Slot, new: &Slot) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => Arc::ptr_eq(old, new),
        (None, None) => true,
        _ => false,
    }
}
