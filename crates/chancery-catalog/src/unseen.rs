//! The edits that audiences do not see because a layer of theirs is held back.
//!
//! An audience sees one state whole, so a layer that is held back keeps from it what the other ones say by now:
//! whoever releases it, as past a fault, makes all of that live. Not here: the edits in the files of the held
//! layer, which nobody has committed.

use std::collections::{BTreeMap, BTreeSet, btree_map};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::audience::Audience;
use crate::catalog::Catalog;
use crate::content::{LayerContent, digest};
use crate::entry::{Entry, Form, Key, Origin};
use crate::history::History;
use crate::layer::Layer;
use crate::state::CatalogState;

/// The edits that wait for a layer that is held back, in it and in the other layers of those who have it.
#[derive(Clone, Debug, PartialEq)]
pub struct Unseen {
    /// The number of the resources by which layers differ from what audiences see of them.
    pub count: usize,
    /// The first of them.
    pub first: Vec<UnseenEdit>,
    /// A digest of all of them.
    pub digest: u128,
}

/// A resource of which an audience sees something else than its layers say by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnseenEdit {
    /// The resource.
    pub key: Key,
    /// The place of the one that is seen, if there is one.
    pub before: Option<Origin>,
    /// The place of the one that waits, unless it would go.
    pub after: Option<Origin>,
}

/// A layer, and the number of states since the one that an audience sees; `None` if it sees none.
type Seen = (Layer, Option<usize>);

impl Catalog {
    /// The edits that wait for each layer that is held back, for any audience that has it.
    ///
    /// An edit that waits for two layers is among those of both. Of nodes in groups those count that somebody
    /// asked for, or from which the gate holds something: no others see anything.
    pub fn unseen(&self) -> BTreeMap<Layer, Unseen> {
        let (history, asked) = self.history_and_audiences();
        let Some(newest) = history.newest().filter(|newest| !newest.holds.is_empty()) else {
            return BTreeMap::new();
        };
        let mut waiting: BTreeMap<Layer, BTreeSet<Seen>> = BTreeMap::new();
        for audience in audiences(newest, asked) {
            let layers = newest.lineage.layers(&audience);
            let held: Vec<_> = layers.iter().filter(|layer| newest.is_held(layer)).collect();
            if held.is_empty() {
                continue;
            }
            let seen = history.states().iter().position(|state| state.serves(&audience));
            for layer in held {
                let of_layers = layers.iter().map(|layer| (layer.clone(), seen));
                waiting.entry(layer.clone()).or_default().extend(of_layers);
            }
        }
        let mut known = BTreeMap::new();
        let unseen = waiting.into_iter().map(|(layer, seen)| {
            let edits = seen.into_iter().map(|seen| match known.entry(seen) {
                btree_map::Entry::Occupied(edits) => {
                    (edits.key().0.clone(), Arc::clone(edits.get()))
                }
                btree_map::Entry::Vacant(place) => {
                    let of_layer = place.key().0.clone();
                    let edits = Arc::new(between(place.key(), &history, newest));
                    (of_layer, Arc::clone(place.insert(edits)))
                }
            });
            (layer, Unseen::all(edits))
        });
        unseen.filter(|(_, unseen)| unseen.count > 0).collect()
    }
}

impl Unseen {
    /// Those of layers, of each beside the states that audiences see. An edit since several states is one.
    fn all(edits: impl Iterator<Item = (Layer, Arc<Self>)>) -> Self {
        let mut hash = Xxh3::new();
        let mut most: BTreeMap<Layer, Arc<Self>> = BTreeMap::new();
        for (layer, edits) in edits.filter(|(_, edits)| edits.count > 0) {
            hash.update(&edits.digest.to_le_bytes());
            let known = most.entry(layer).or_insert_with(|| Arc::clone(&edits));
            if known.count < edits.count {
                *known = edits;
            }
        }
        let count = most.values().map(|edits| edits.count).sum();
        let first = most.values().flat_map(|edits| &edits.first).take(MOST_NAMED).cloned();
        Self { count, first: first.collect(), digest: hash.digest128() }
    }
}

/// The audiences that may see something of a state, without values.
fn audiences(newest: &CatalogState, asked: Vec<Audience>) -> BTreeSet<Audience> {
    let of_layer = |layer| match layer {
        Layer::Base => Audience::default(),
        Layer::Group(name) => Audience::of(Some(name), None),
        Layer::Node(id) => Audience::of(None, Some(id)),
    };
    let asked = asked.into_iter().chain(newest.held.iter().cloned());
    newest.layers().map(of_layer).chain(asked).collect()
}

/// The resources of a layer that have changed since a state.
fn between((layer, seen): &Seen, history: &History, newest: &CatalogState) -> Unseen {
    let nothing = Arc::new(LayerContent::default());
    let seen = seen.and_then(|at| history.states().get(at));
    let before = seen.and_then(|state| state.content(layer)).unwrap_or(&nothing);
    let after = newest.content(layer).unwrap_or(&nothing);
    let (mut count, mut first, mut hash) = (0, Vec::new(), Xxh3::new());
    for key in before.differing(after) {
        let written = |entry: &&Entry| entry.form == Form::Written;
        let [old, new] = [before, after].map(|content| content.get(key).filter(written));
        let is_same = match (old, new) {
            (Some(old), Some(new)) => old.says_same(new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if is_same {
            continue;
        }
        for (word, entry) in [(&b"before"[..], old), (b"after", new)] {
            if let Some(entry) = entry {
                hash.update(word);
                hash.update(&digest(layer, key, entry).to_le_bytes());
            }
        }
        count += 1;
        if first.len() < MOST_NAMED {
            let [before, after] = [old, new].map(|entry| Some(entry?.origin.clone()));
            first.push(UnseenEdit { key: key.clone(), before, after });
        }
    }
    Unseen { count, first, digest: hash.digest128() }
}

/// The number of edits that are named of each layer.
const MOST_NAMED: usize = 5;
