//! The resources that nothing refers to, in any layer.
//!
//! Load assignments, route configurations and secrets are there to be referred to; all others may be
//! what a client asks for first. The counts follow the layers by what differs. Where no resource could
//! refer to a type (load assignments without any cluster), its users are in the bootstraps of the
//! clients, and nothing is unused. A resource with aliases counts as used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use chancery_core::{Api, ResourceName, TypeUrl};
use imbl::ordmap::DiffItem;

use crate::content::LayerContent;
use crate::entry::{Entry, EntryContent, Form, Key};
use crate::reach;
use crate::state::{CatalogState, Overlays};

/// The counts of references and of resources, over all layers. Keys are counted by their hashes.
#[derive(Default)]
pub(crate) struct Usage {
    seen: SeenLayers,
    /// The number of references to each key that can be unused.
    references: HashMap<u64, usize>,
    /// The number of layers that have each key that can be unused.
    published: HashMap<u64, usize>,
    unused: BTreeMap<TypeUrl, BTreeSet<ResourceName>>,
    /// The number of resources of the APIs that use others.
    users: BTreeMap<Api, usize>,
}

/// The layers that were counted.
#[derive(Default)]
struct SeenLayers {
    base: Arc<LayerContent>,
    groups: Overlays,
    nodes: Overlays,
}

/// Something that comes or goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Comes,
    Goes,
}

impl Usage {
    /// Takes over another state of the layers. Returns true if other resources are unused now.
    pub(crate) fn follow(&mut self, state: &CatalogState) -> bool {
        let now = SeenLayers {
            base: Arc::clone(state.base()),
            groups: state.groups.clone(),
            nodes: state.nodes.clone(),
        };
        let before = std::mem::replace(&mut self.seen, now);
        let could_be_used = CAN_BE_UNUSED.map(|api| self.could_be_used(api));
        let mut touched = Vec::new();
        self.content(&before.base, state.base(), &mut touched);
        let nothing = LayerContent::default();
        for (before, now) in [(&before.groups, &state.groups), (&before.nodes, &state.nodes)] {
            for item in before.diff(now) {
                let (before, now) = match &item {
                    DiffItem::Add(_, now) => (&nothing, now.content()),
                    DiffItem::Remove(_, before) => (before.content(), &nothing),
                    DiffItem::Update { old: (_, before), new: (_, now) } => {
                        (before.content(), now.content())
                    }
                };
                self.content(before, now, &mut touched);
            }
        }
        let mut changed = CAN_BE_UNUSED.map(|api| self.could_be_used(api)) != could_be_used;
        for key in touched {
            changed |= self.look_at(key);
        }
        changed
    }

    /// The resources that nothing refers to.
    pub(crate) fn unused(&self) -> impl Iterator<Item = (&TypeUrl, &ResourceName)> {
        let types = self.unused.iter().filter(|(type_url, _)| self.could_be_used(type_url.api()));
        types.flat_map(|(type_url, names)| names.iter().map(move |name| (type_url, name)))
    }

    /// The names of one type that nothing refers to.
    pub(crate) fn unused_of(&self, type_url: &TypeUrl) -> impl Iterator<Item = &ResourceName> {
        self.unused.get(type_url).into_iter().flatten()
    }

    fn content(&mut self, before: &LayerContent, now: &LayerContent, touched: &mut Vec<Key>) {
        for key in before.differing(now) {
            if let Some(entry) = before.get(key) {
                self.count(key, entry, Change::Goes, touched);
            }
            if let Some(entry) = now.get(key) {
                self.count(key, entry, Change::Comes, touched);
            }
        }
    }

    fn count(&mut self, key: &Key, entry: &Entry, change: Change, touched: &mut Vec<Key>) {
        // A patch may bring a reference, and takes none away that is not in the layer below.
        let links = match &entry.content {
            EntryContent::Whole(resource) => resource.facts().links.clone(),
            EntryContent::Patch(patch) => patch.facts().links,
            EntryContent::Removal(_) => return,
        };
        for link in links.into_iter().filter(|link| can_be_unused(link.type_url.api())) {
            let hash = reach::hash(&link.type_url, &link.name);
            adjust(self.references.entry(hash).or_default(), change);
            touched.push(Key { type_url: link.type_url, name: link.name });
        }
        let Some(resource) = entry.resource() else { return };
        let api = key.type_url.api();
        if matches!(api, Api::Cds | Api::Lds | Api::Srds) {
            adjust(self.users.entry(api).or_default(), change);
        }
        let is_named_otherwise = entry.form == Form::Derived || !resource.aliases().is_empty();
        if can_be_unused(api) && !is_named_otherwise {
            let hash = reach::hash(&key.type_url, &key.name);
            adjust(self.published.entry(hash).or_default(), change);
            touched.push(key.clone());
        }
    }

    /// Looks if a key is unused. Returns true if that changed. Counts of nothing are forgotten.
    fn look_at(&mut self, Key { type_url, name }: Key) -> bool {
        let hash = reach::hash(&type_url, &name);
        let is_used = is_counted(&mut self.references, hash);
        let is_there = is_counted(&mut self.published, hash);
        if is_there && !is_used {
            return self.unused.entry(type_url).or_default().insert(name);
        }
        self.unused.get_mut(&type_url).is_some_and(|names| names.remove(&name))
    }

    /// Returns true if there are resources that could refer to those of an API.
    fn could_be_used(&self, api: Api) -> bool {
        let users: &[Api] = match api {
            Api::Eds => &[Api::Cds],
            Api::Rds => &[Api::Lds, Api::Srds],
            Api::Sds => &[Api::Cds, Api::Lds],
            _ => &[],
        };
        users.iter().any(|user| self.users.get(user).is_some_and(|count| *count > 0))
    }
}

/// The APIs whose resources are there to be referred to.
const CAN_BE_UNUSED: [Api; 3] = [Api::Eds, Api::Rds, Api::Sds];

fn can_be_unused(api: Api) -> bool {
    CAN_BE_UNUSED.contains(&api)
}

/// Returns true if something is counted under a hash. A count of nothing is forgotten.
fn is_counted(counts: &mut HashMap<u64, usize>, hash: u64) -> bool {
    let is_counted = counts.get(&hash).is_some_and(|count| *count > 0);
    if !is_counted {
        counts.remove(&hash);
    }
    is_counted
}

fn adjust(count: &mut usize, change: Change) {
    match change {
        Change::Comes => *count += 1,
        Change::Goes => *count = count.saturating_sub(1),
    }
}
