//! Change sets: all that a source says at one time.
//!
//! A source of resources (a directory, a key-value store, another server, the program itself) says
//! of each layer which resources it has, and which layers it cannot vouch for. It need not know what
//! was there before: what is said again changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use chancery_core::TypeUrl;

use crate::entry::{Entry, Key};
use crate::layer::Layer;

/// All that a source says at one time: entries by layer and key, and layers that it holds back.
///
/// Each layer belongs to one source, which alone edits, holds and removes it. A source has to
/// remember which layers it made: a layer that a change set does not name stays as it is, and only
/// [`remove_layer`](Self::remove_layer) ends it.
///
/// ```
/// use chancery_core::{Resource, TypeUrl};
/// use chancery_catalog::{ChangeSet, Entry, Layer, Origin};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
/// let web = Resource::new("web".parse()?, b"\x0a\x03web"[..].into());
/// let mut changes = ChangeSet::new("deployer");
/// changes.put(&Layer::Base, &clusters, Entry::new(web, Origin::program("deployer")));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ChangeSet {
    pub(crate) author: Author,
    pub(crate) time: Option<SystemTime>,
    pub(crate) layers: BTreeMap<Layer, LayerChange>,
    pub(crate) holds: BTreeMap<Hold, HoldChange>,
}

/// The one who makes a change: the name of a source, or of a person who uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Author(Arc<str>);

/// A part of the configuration that its source cannot vouch for. The audiences that contain it keep
/// what they see until it is released.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hold {
    /// One layer.
    Layer(Layer),
    /// Every group that the catalog does not know: there may be layers that nobody could list.
    UnlistedGroups,
    /// Every node that the catalog does not know: there may be layers that nobody could list.
    UnlistedNodes,
}

/// A change of one layer.
#[derive(Clone, Debug)]
pub(crate) enum LayerChange {
    /// The layer is there, and these entries of it are as given.
    Edit(BTreeMap<Key, Option<Entry>>),
    /// The layer is there, and has these entries alone.
    Replace(BTreeMap<Key, Entry>),
    /// The layer is not there any more.
    Remove,
}

/// A change of what is held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HoldChange {
    Hold,
    Release,
}

impl ChangeSet {
    /// A change set that says nothing so far.
    pub fn new(author: impl Into<Author>) -> Self {
        Self { author: author.into(), time: None, layers: BTreeMap::new(), holds: BTreeMap::new() }
    }

    /// States when the change was made. Otherwise it is when the change is committed.
    #[must_use]
    pub fn at(self, time: SystemTime) -> Self {
        Self { time: Some(time), ..self }
    }

    /// The layer has this resource, or says this of it.
    pub fn put(&mut self, layer: &Layer, type_url: &TypeUrl, entry: Entry) {
        self.set(layer, Key::of_content(type_url, &entry.content), Some(entry));
    }

    /// The layer has no resource under this key.
    pub fn remove(&mut self, layer: &Layer, key: Key) {
        self.set(layer, key, None);
    }

    /// The layer has this entry under this key, or none. Under any other key it stays as it is.
    pub fn set(&mut self, layer: &Layer, key: Key, entry: Option<Entry>) {
        match self.layer(layer) {
            LayerChange::Edit(edits) => drop(edits.insert(key, entry)),
            LayerChange::Replace(entries) => match entry {
                Some(entry) => drop(entries.insert(key, entry)),
                None => drop(entries.remove(&key)),
            },
            removed @ LayerChange::Remove => {
                let entries = entry.map(|entry| (key, entry)).into_iter().collect();
                *removed = LayerChange::Replace(entries);
            }
        }
    }

    /// The layer is there. An overlay without resources is a layer too: its nodes are an audience.
    pub fn add_layer(&mut self, layer: &Layer) {
        if let removed @ LayerChange::Remove = self.layer(layer) {
            *removed = LayerChange::Replace(BTreeMap::new());
        }
    }

    /// The layer has these entries and no others.
    pub fn replace_layer(&mut self, layer: &Layer, entries: BTreeMap<Key, Entry>) {
        *self.layer(layer) = LayerChange::Replace(entries);
    }

    /// The layer is not there any more; base is there always, and loses its resources.
    pub fn remove_layer(&mut self, layer: &Layer) {
        *self.layer(layer) = LayerChange::Remove;
    }

    /// Holds the audiences back that contain this. The hold ends with [`release`](Self::release), or
    /// with [`remove_layer`](Self::remove_layer) for the layer that is held; [`put`](Self::put) and
    /// [`replace_layer`](Self::replace_layer) change what is held back, and do not end it.
    pub fn hold(&mut self, hold: Hold) {
        self.holds.insert(hold, HoldChange::Hold);
    }

    /// Ends a hold, if there is one.
    pub fn release(&mut self, hold: Hold) {
        self.holds.insert(hold, HoldChange::Release);
    }

    fn layer(&mut self, layer: &Layer) -> &mut LayerChange {
        let nothing = || LayerChange::Edit(BTreeMap::new());
        self.layers.entry(layer.clone()).or_insert_with(nothing)
    }
}

impl Author {
    /// An author of this name, cut at [`Author::MAX_BYTES`].
    pub fn new(name: &str) -> Self {
        let cut = |end: &usize| *end <= Self::MAX_BYTES;
        let ends = name.char_indices().map(|(at, character)| at + character.len_utf8());
        let end = ends.take_while(cut).last().unwrap_or_default();
        Self(name[..end].into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A longer name is cut.
    pub const MAX_BYTES: usize = 128;
}

impl From<&str> for Author {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

impl From<&Self> for Author {
    fn from(name: &Self) -> Self {
        name.clone()
    }
}

impl fmt::Display for Author {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_author_has_a_bound() {
        let name = "\u{e9}".repeat(100);
        assert_eq!(Author::new(&name).as_str().len(), Author::MAX_BYTES);
        assert_eq!(Author::new(&format!("x{name}")).as_str().len(), Author::MAX_BYTES - 1);
        assert_eq!(Author::new("operator").as_str(), "operator");
    }
}
