//! What each audience should see, now and through faults.
//!
//! The catalog remembers the loads that somebody still depends on. An audience sees the newest
//! load in which all of its layers were good, whole: while a group's file is broken, its nodes
//! keep that group's and base's last state together, and all others go on. This does not depend
//! on who asked when, so a node that connects while a file is broken gets what its peers have.

pub(crate) mod audience;
pub(crate) mod content;
pub(crate) mod dangling;
pub(crate) mod generation;
pub(crate) mod layer;
pub(crate) mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_core::{ResourceName, Snapshot, TypeUrl, Version};

use crate::catalog::audience::Audience;
use crate::catalog::content::Content;
use crate::catalog::dangling::DanglingReferences;
use crate::catalog::generation::{Generation, Overlays, State, layers_of};
use crate::catalog::layer::Layer;
use crate::catalog::view::View;
use crate::fault::Warning;

/// The layers of a directory with their last good content. Clones are the same catalog.
#[derive(Clone, Default)]
pub struct Catalog {
    inner: Arc<Mutex<Inner>>,
}

/// A resource that is loaded, and where from.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The layer it belongs to.
    pub layer: Layer,
    /// Its type.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// The version of its content.
    pub version: Version,
    /// The file it is written in.
    pub file: Arc<Path>,
    /// The line it begins at.
    pub line: u32,
}

#[derive(Default)]
struct Inner {
    /// Newest first. An older load is kept only for audiences that no newer one serves.
    history: Vec<Arc<Generation>>,
    /// What was asked for, as it is now.
    views: BTreeMap<Audience, Arc<View>>,
    /// What was last found to lead nowhere.
    nowhere: DanglingReferences,
}

impl Catalog {
    /// What a node of this group should see; `None` if no load so far had it whole.
    ///
    /// The same `Arc` comes back until the content changes.
    pub fn snapshot(&self, group: Option<&str>, node: Option<&str>) -> Option<Arc<Snapshot>> {
        let view = self.view(&self.audience(group, node))?;
        Some(Arc::clone(&view.snapshot))
    }

    /// The audience a node of this group belongs to.
    pub fn audience(&self, group: Option<&str>, node: Option<&str>) -> Audience {
        let inner = self.lock();
        Audience {
            group: group.and_then(|name| inner.group(name)),
            node: node.and_then(|id| inner.node(id)),
        }
    }

    /// The groups with an overlay.
    pub fn known_groups(&self) -> Vec<Arc<str>> {
        self.lock()
            .history
            .first()
            .into_iter()
            .flat_map(|load| load.groups.keys().cloned())
            .collect()
    }

    /// The ids of the nodes with an overlay.
    pub fn known_nodes(&self) -> Vec<Arc<str>> {
        self.lock()
            .history
            .first()
            .into_iter()
            .flat_map(|load| load.nodes.keys().cloned())
            .collect()
    }

    /// The layers that a fault holds back.
    pub fn held_back(&self) -> Vec<Layer> {
        let inner = self.lock();
        let Some(newest) = inner.history.first() else { return Vec::new() };
        let is_broken = |layer: &Layer| matches!(newest.state(layer), State::Broken);
        layers_of(newest).filter(is_broken).collect()
    }

    /// All that is loaded, by layer: of a layer that is held back, what is still served.
    pub fn origins(&self) -> impl Iterator<Item = Origin> + use<> {
        let inner = self.lock();
        let newest = inner.history.first().cloned();
        let contents: Vec<(Layer, Arc<Content>)> = newest
            .iter()
            .flat_map(|newest| layers_of(newest))
            .filter_map(|layer| Some((layer.clone(), inner.last_good(&layer)?)))
            .collect();
        contents.into_iter().flat_map(|(layer, content)| {
            let own = content.entries.iter().filter(|(_, entry)| !entry.derived);
            let origins = own.map(|((type_url, name), entry)| Origin {
                layer: layer.clone(),
                type_url: type_url.clone(),
                name: name.clone(),
                version: entry.resource.version().clone(),
                file: Arc::clone(&entry.file),
                line: entry.position.line,
            });
            origins.collect::<Vec<_>>()
        })
    }

    /// The newest load, if there was one.
    pub(crate) fn newest(&self) -> Option<Arc<Generation>> {
        self.lock().history.first().cloned()
    }

    /// The newest load in which base was good.
    pub(crate) fn newest_base(&self) -> Option<Arc<Generation>> {
        self.lock().history.iter().find(|load| load.base.is_some()).cloned()
    }

    /// What the audience sees.
    pub(crate) fn view(&self, audience: &Audience) -> Option<Arc<View>> {
        let (load, before) = {
            let inner = self.lock();
            (inner.serving(audience), inner.views.get(audience).cloned())
        };
        let Some(load) = load else { return before };
        // Made outside the lock: others need not wait for it.
        let view = View::of(&load, audience, before.as_ref());
        self.lock().views.insert(audience.clone(), Arc::clone(&view));
        Some(view)
    }

    /// Takes a load, and tells which of the audiences that were asked for see something else.
    pub(crate) fn take(&self, load: Generation) -> Vec<Audience> {
        let before = {
            let mut inner = self.lock();
            inner.push(Arc::new(load));
            std::mem::take(&mut inner.views)
        };
        let mut changed = Vec::new();
        for (audience, old) in before {
            let now = {
                let mut inner = self.lock();
                if !inner.knows(&audience) {
                    // Nobody can belong to it any more.
                    continue;
                }
                inner.views.insert(audience.clone(), Arc::clone(&old));
                drop(inner);
                self.view(&audience)
            };
            if now.is_some_and(|now| !Arc::ptr_eq(&now.snapshot, &old.snapshot)) {
                changed.push(audience);
            }
        }
        changed
    }

    /// The references that lead nowhere, each told once, for every audience that was asked for,
    /// and every group; and for base, if there are no groups to complete it (S-103).
    pub(crate) fn dangling(&self) -> Arc<BTreeSet<Warning>> {
        let groups = self.known_groups();
        let mut audiences: BTreeSet<_> = self.lock().views.keys().cloned().collect();
        if groups.is_empty() {
            audiences.insert(Audience::default());
        }
        let of_group = |name| Audience { group: Some(name), node: None };
        audiences.extend(groups.into_iter().map(of_group));
        let found = audiences.into_iter().filter_map(|audience| {
            let dangling = Arc::clone(&self.view(&audience)?.dangling);
            (!dangling.is_empty()).then_some((audience, dangling))
        });
        let found = found.collect();
        let before = self.lock().nowhere.clone();
        let nowhere = before.follow(found);
        self.lock().nowhere = nowhere.clone();
        nowhere.warnings
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing that can panic runs under this lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        f.debug_struct("Catalog").field("audiences", &inner.views.keys()).finish_non_exhaustive()
    }
}

impl Inner {
    /// Puts a load first, and forgets those that no audience can need any more: where a newer
    /// load is broken, an older one was broken too.
    fn push(&mut self, load: Arc<Generation>) {
        let broken = load.broken();
        self.history.retain(|older| !older.broken().is_superset(&broken));
        self.history.insert(0, load);
        self.history.truncate(MAX_HISTORY);
    }

    fn serving(&self, audience: &Audience) -> Option<Arc<Generation>> {
        self.history.iter().find(|load| load.serves(audience)).cloned()
    }

    /// The group, if it has an overlay, or may have one for all that is known.
    fn group(&self, name: &str) -> Option<Arc<str>> {
        let unlisted = self.history.first().is_some_and(|load| load.groups_unlisted);
        self.known(name, |load| &load.groups).or_else(|| unlisted.then(|| name.into()))
    }

    /// The node, if it has an overlay, or may have one for all that is known.
    fn node(&self, id: &str) -> Option<Arc<str>> {
        let unlisted = self.history.first().is_some_and(|load| load.nodes_unlisted);
        self.known(id, |load| &load.nodes).or_else(|| unlisted.then(|| id.into()))
    }

    /// The key of an overlay in some load that is still depended on.
    fn known(&self, name: &str, overlays: impl Fn(&Generation) -> &Overlays) -> Option<Arc<str>> {
        let found = self.history.iter().find_map(|load| overlays(load).get_key_value(name));
        found.map(|(name, _)| Arc::clone(name))
    }

    /// Whether anybody can belong to the audience.
    fn knows(&self, audience: &Audience) -> bool {
        let group = |name: &Arc<str>| self.known(name, |load| &load.groups).is_some();
        let node = |id: &Arc<str>| self.known(id, |load| &load.nodes).is_some();
        audience.group.as_ref().is_none_or(group) && audience.node.as_ref().is_none_or(node)
    }

    fn last_good(&self, layer: &Layer) -> Option<Arc<Content>> {
        self.history.iter().find_map(|load| match load.state(layer) {
            State::Good(content) => Some(Arc::clone(content)),
            State::Absent | State::Broken => None,
        })
    }
}

/// How many loads are kept at most for audiences that newer ones do not serve. An audience beyond
/// that keeps what it sees; only one that was never asked for must wait for its repair.
const MAX_HISTORY: usize = 16;
