//! The records of a state in their order: its layers, and the entries of each.
//!
//! A state is one long list of records, so that many small layers share a piece. Not here: how records
//! are cut into pieces (`pieces`), and their bytes (`codec`).

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::ordmap::DiffItem;

use super::codec;
use crate::content::LayerContent;
use crate::entry::{Entry, Key};
use crate::layer::Layer;
use crate::state::{CatalogState, Overlay, Overlays};

/// The place of a record: a layer that is there, before all entries of it, or an entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordPlace {
    pub(super) layer: Layer,
    /// `None` for the layer itself.
    pub(super) key: Option<Key>,
}

/// A record of a state.
pub(super) struct Record<'a> {
    pub(super) layer: &'a Layer,
    /// `None` for the layer itself.
    pub(super) entry: Option<(&'a Key, &'a Entry)>,
}

impl RecordPlace {
    /// The place of the first record of every state.
    pub(super) const FIRST: Self = Self { layer: Layer::Base, key: None };

    fn of_layer(layer: &Layer) -> Self {
        Self { layer: layer.clone(), key: None }
    }

    fn of_key(layer: &Layer, key: &Key) -> Self {
        Self { layer: layer.clone(), key: Some(key.clone()) }
    }
}

/// Calls a function with the records of a state from a place on, and up to another one, until it returns
/// false.
pub(super) fn for_each(
    state: &CatalogState,
    from: &RecordPlace,
    to: Option<&RecordPlace>,
    mut call: impl FnMut(Record<'_>) -> bool,
) {
    let is_over = |layer: &Layer, key: Option<&Key>| {
        to.is_some_and(|to| (layer, key) >= (&to.layer, to.key.as_ref()))
    };
    for layer in state.layers_from(&from.layer) {
        let Some(content) = state.content(&layer) else { continue };
        let after = from.key.as_ref().filter(|_| from.layer == layer);
        if is_over(&layer, None) && after.is_none() {
            return;
        }
        if after.is_none() && !call(Record { layer: &layer, entry: None }) {
            return;
        }
        for (key, entry) in content.from(after) {
            if is_over(&layer, Some(key))
                || !call(Record { layer: &layer, entry: Some((key, entry)) })
            {
                return;
            }
        }
    }
}

/// The places at which two states have different records, in the time that it takes to find them.
pub(super) fn differing(before: &CatalogState, after: &CatalogState) -> BTreeSet<RecordPlace> {
    let mut places = BTreeSet::new();
    add_entries(&Layer::Base, before.base(), after.base(), &mut places);
    add_overlays(&before.groups, &after.groups, Layer::Group, &mut places);
    add_overlays(&before.nodes, &after.nodes, Layer::Node, &mut places);
    places
}

fn add_overlays(
    before: &Overlays,
    after: &Overlays,
    layer: impl Fn(Arc<str>) -> Layer,
    places: &mut BTreeSet<RecordPlace>,
) {
    let mut add_whole = |name: &Arc<str>, overlay: &Overlay| {
        let layer = layer(Arc::clone(name));
        places.insert(RecordPlace::of_layer(&layer));
        let keys = overlay.content().iter().map(|(key, _)| RecordPlace::of_key(&layer, key));
        places.extend(keys);
    };
    let mut both = Vec::new();
    for item in before.diff(after) {
        match item {
            DiffItem::Add(name, overlay) | DiffItem::Remove(name, overlay) => {
                add_whole(name, overlay);
            }
            DiffItem::Update { old: (name, old), new: (_, new) } => both.push((name, old, new)),
        }
    }
    for (name, old, new) in both {
        add_entries(&layer(Arc::clone(name)), old.content(), new.content(), places);
    }
}

fn add_entries(
    layer: &Layer,
    before: &LayerContent,
    after: &LayerContent,
    places: &mut BTreeSet<RecordPlace>,
) {
    let is_same = |key: &&Key| match (before.get(key), after.get(key)) {
        (Some(old), Some(new)) => codec::is_same(old, new),
        _ => false,
    };
    let differing = before.differing(after).filter(|key| !is_same(key));
    places.extend(differing.map(|key| RecordPlace::of_key(layer, key)));
}
