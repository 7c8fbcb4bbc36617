//! The states that somebody still depends on.
//!
//! An audience sees the newest state in which nothing held it back. An older state is kept only for
//! audiences that no newer one serves.

use std::sync::Arc;

use crate::audience::Audience;
use crate::changes::Hold;
use crate::content::LayerContent;
use crate::layer::Layer;
use crate::revision::Reassigned;
use crate::state::{CatalogState, LayerState, OverlayNames, Overlays};
use crate::view::View;

/// The states that somebody still depends on, newest first.
#[derive(Clone, Default)]
pub(crate) struct History(Vec<Arc<CatalogState>>);

impl History {
    /// Adds a state, and forgets those that no audience can need any more: where the new state is
    /// held back, an older one was held back too. Returns the nodes that may belong elsewhere now.
    pub(crate) fn push(&mut self, state: Arc<CatalogState>) -> Reassigned {
        let before = self.clone();
        let is_needed = |older: &Arc<CatalogState>| {
            let held_too = state.holds.iter().all(|hold| older.holds.contains(hold));
            // A group may stand on a layer that is held, and did not then.
            let stood_elsewhere = !state.holds.is_empty() && older.lineage != state.lineage;
            !held_too
                || stood_elsewhere
                || state.held.iter().any(|audience| !older.held.contains(audience))
        };
        self.0.retain(is_needed);
        self.0.insert(0, state);
        self.0.truncate(MAX_STATES);
        self.reassigned_since(&before)
    }

    /// The states, the newest first.
    pub(crate) fn states(&self) -> &[Arc<CatalogState>] {
        &self.0
    }

    /// The newest state, if there is one.
    pub(crate) fn newest(&self) -> Option<&Arc<CatalogState>> {
        self.0.first()
    }

    /// The newest view of base alone.
    pub(crate) fn root(&self) -> Option<Arc<View>> {
        self.0.iter().find_map(|state| state.root.clone())
    }

    /// The newest state in which nothing held the audience back.
    pub(crate) fn serving(&self, audience: &Audience) -> Option<&Arc<CatalogState>> {
        self.0.iter().find(|state| state.serves(audience))
    }

    /// The newest content of a layer that was not held back.
    pub(crate) fn last_good(&self, layer: &Layer) -> Option<&Arc<LayerContent>> {
        self.0.iter().find_map(|state| match state.layer(layer) {
            LayerState::Good(content) => Some(content),
            LayerState::Absent | LayerState::Held => None,
        })
    }

    /// The audience of a node: groups and nodes count that have an overlay in a state that somebody
    /// depends on, or may have one for all that is known. The nodes of a group without one belong to the
    /// next group that it extends.
    pub(crate) fn audience(&self, group: Option<&str>, node: Option<&str>) -> Audience {
        let unlisted = |hold| self.newest().is_some_and(|state| state.holds.contains(hold));
        let group = group.and_then(|name| {
            let listed = |name: &str| {
                let listed = self.key(name, |state| &state.groups);
                listed.or_else(|| unlisted(&Hold::UnlistedGroups).then(|| name.into()))
            };
            let below = || self.newest()?.lineage.ancestors(name).find_map(|name| listed(name));
            listed(name).or_else(below)
        });
        let node = node.and_then(|id| {
            let listed = self.key(id, |state| &state.nodes);
            listed.or_else(|| unlisted(&Hold::UnlistedNodes).then(|| id.into()))
        });
        Audience::of(group, node)
    }

    /// The groups with an overlay in the newest state, and those that the gate holds in another one.
    pub(crate) fn groups(&self) -> OverlayNames {
        let Some(newest) = self.newest() else { return OverlayNames::default() };
        let mut groups = newest.groups.clone();
        for name in newest.held.iter().filter_map(|audience| audience.group.as_ref()) {
            let found = || self.0.iter().find_map(|state| state.groups.get(name).cloned());
            if !groups.contains_key(name)
                && let Some(overlay) = found()
            {
                groups.insert(Arc::clone(name), overlay);
            }
        }
        OverlayNames(groups)
    }

    /// Returns true if a node can belong to the audience.
    pub(crate) fn has(&self, audience: &Audience) -> bool {
        let now = self.audience(audience.group.as_deref(), audience.node.as_deref());
        now == audience.without_values()
    }

    fn key(&self, name: &str, overlays: impl Fn(&CatalogState) -> &Overlays) -> Option<Arc<str>> {
        let found = self.0.iter().find_map(|state| overlays(state).get_key_value(name));
        found.map(|(name, _)| Arc::clone(name))
    }

    /// The overlays that came or went, in the newest state or in all that somebody depends on.
    fn reassigned_since(&self, before: &Self) -> Reassigned {
        let (Some(newest), Some(newest_before)) = (self.newest(), before.newest()) else {
            return Reassigned::Everybody;
        };
        if newest.lineage != newest_before.lineage {
            return Reassigned::Everybody;
        }
        let unlisted = [Hold::UnlistedGroups, Hold::UnlistedNodes];
        if unlisted.iter().any(|it| newest.holds.contains(it) != newest_before.holds.contains(it)) {
            return Reassigned::Everybody;
        }
        let came = newest_before.lacks(newest);
        let mut layers: Vec<Layer> = came.chain(newest.lacks(newest_before)).collect();
        // Of a state that is forgotten, the last overlays may go that were only there.
        let forgotten = before.0.iter().filter(|old| !self.0.iter().any(|it| Arc::ptr_eq(it, old)));
        layers.extend(forgotten.flat_map(|old| newest.lacks(old)));
        layers.sort();
        layers.dedup();
        Reassigned::Overlays(layers)
    }
}

/// The number of states kept at most for audiences that newer ones do not serve. An audience whose
/// state is dropped keeps the view that was made last, if there is one; without one it has none
/// until its layers are released.
const MAX_STATES: usize = 16;
