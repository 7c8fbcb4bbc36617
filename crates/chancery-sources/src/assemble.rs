//! From files to layers: what a listing and its documents amount to.
//!
//! Pure: nothing here reads a file. A fault breaks its layer. Where it is not known which overlays
//! there are, those that were there before count as broken, and not as removed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use chancery_proto::complete::Complete;

use crate::catalog::content::Content;
use crate::catalog::generation::{Generation, Overlays, Slot, State};
use crate::catalog::layer::Layer;
use crate::fault::{Fault, Scope};
use crate::read::document::Document;
use crate::read::{FileEdit, Reading};
use crate::scan::listing::Listing;

/// Each layer's content, or what is wrong with it.
pub(crate) type Layers = BTreeMap<Layer, Result<Arc<Content>, Vec<Fault>>>;

/// Sorts the documents into their layers.
pub(crate) fn assemble(Reading { listing, documents }: &Reading) -> Layers {
    let mut files: BTreeMap<&Layer, Vec<(&Arc<Path>, &Document)>> = BTreeMap::new();
    for (found, document) in listing.files.iter().zip(documents) {
        files.entry(&found.layer).or_default().push((&found.path, document));
    }
    let whole = |(layer, files): (&Layer, Vec<(&Arc<Path>, &Document)>)| {
        let content = Content::assemble(layer, files.iter().copied());
        (layer.clone(), content.map(Arc::new))
    };
    files.into_iter().map(whole).collect()
}

/// A layer after some of its files changed, as if it were assembled anew. `before` is what a
/// generation says of it.
pub(crate) fn reassemble(
    layer: &Layer,
    edits: &[FileEdit],
    before: &State<'_>,
    reading: &Reading,
) -> Result<Arc<Content>, Vec<Fault>> {
    let edited = match before {
        State::Good(old) => old.edited(edits).ok(),
        State::Absent | State::Broken => None,
    };
    let content = match edited {
        Some(content) => content,
        None => Content::assemble(layer, reading.of_layer(layer))?,
    };
    Ok(match before {
        State::Good(old) if ***old == content => Arc::clone(old),
        _ => Arc::new(content),
    })
}

/// The load before, with other content in some layers.
pub(crate) fn regrown(before: &Generation, layers: Layers) -> Generation {
    let mut load = before.clone();
    for (layer, content) in layers {
        let slot = content.ok();
        match layer {
            Layer::Base => {
                load.base = slot;
                load.trunk = Complete::new();
            }
            Layer::Group(name) => drop(load.groups.insert(name, slot)),
            Layer::Node(id) => drop(load.nodes.insert(id, slot)),
        }
    }
    load
}

/// Puts the layers together; a layer with a fault is broken. `before` is the load before.
pub(crate) fn generation(
    listing: &Listing,
    mut layers: Layers,
    faults: &[Fault],
    before: Option<&Generation>,
) -> Generation {
    let broken: BTreeSet<&Layer> = faults
        .iter()
        .filter_map(|fault| match &fault.scope {
            Scope::Layer(layer) => Some(layer),
            Scope::Groups | Scope::Nodes | Scope::Directory => None,
        })
        .collect();
    let mut slot = |layer: Layer| {
        let content = layers.remove(&layer).unwrap_or_else(|| Ok(Arc::default()));
        content.ok().filter(|_| !broken.contains(&layer))
    };
    let groups = listing.groups.iter();
    let nodes = listing.nodes.iter();
    let mut load = Generation {
        base: slot(Layer::Base),
        groups: groups.map(|name| (name.clone(), slot(Layer::Group(name.clone())))).collect(),
        nodes: nodes.map(|id| (id.clone(), slot(Layer::Node(id.clone())))).collect(),
        groups_unlisted: listing.groups_unlisted,
        nodes_unlisted: listing.nodes_unlisted,
        trunk: Complete::new(),
    };
    if let Some(before) = before {
        hold_vanished(&mut load, before, faults);
        keep_same(&mut load, before);
    }
    load
}

/// Where it is not known which overlays there are, those that were there are held back.
fn hold_vanished(load: &mut Generation, before: &Generation, faults: &[Fault]) {
    let told = |scope: &Scope| faults.iter().any(|fault| fault.scope == *scope);
    if told(&Scope::Groups) {
        for name in before.groups.keys() {
            load.groups.entry(Arc::clone(name)).or_insert(None);
        }
        // All that existed at the last look are held now; of others there is no cookie.
        load.groups_unlisted &= before.groups_unlisted;
    }
    if told(&Scope::Nodes) {
        for id in before.nodes.keys() {
            load.nodes.entry(Arc::clone(id)).or_insert(None);
        }
        load.nodes_unlisted &= before.nodes_unlisted;
    }
}

/// Takes over the very content of layers that did not change, which is how their audiences know.
fn keep_same(load: &mut Generation, before: &Generation) {
    let keep = |layer: Layer, slot: &mut Slot| {
        if let State::Good(old) = before.state(&layer)
            && slot.as_ref().is_some_and(|new| **new == **old)
        {
            *slot = Some(Arc::clone(old));
        }
    };
    keep(Layer::Base, &mut load.base);
    let kept = |overlays: &Overlays, layer: fn(Arc<str>) -> Layer| {
        let kept = overlays.iter().map(|(name, slot)| {
            let mut slot = slot.clone();
            keep(layer(Arc::clone(name)), &mut slot);
            (Arc::clone(name), slot)
        });
        kept.collect()
    };
    load.groups = kept(&load.groups, Layer::Group);
    load.nodes = kept(&load.nodes, Layer::Node);
}

/// Those of the layers that were added, removed, changed or repaired.
pub(crate) fn changed_layers(
    before: Option<&Generation>,
    load: &Generation,
    layers: BTreeSet<Layer>,
) -> Vec<Layer> {
    let changed = |layer: &Layer| {
        let old = before.map_or(State::Absent, |before| before.state(layer));
        match (old, load.state(layer)) {
            (State::Good(old), State::Good(new)) => !Arc::ptr_eq(old, new),
            (State::Absent, State::Absent) | (_, State::Broken) => false,
            _ => true,
        }
    };
    layers.into_iter().filter(changed).collect()
}
