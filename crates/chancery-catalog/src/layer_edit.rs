//! The difference that a commit makes to one layer, for people: numbers of resources, and the first of them.
//!
//! Not here: the difference for clients, which is found from what they see (`view`).

use std::fmt;

use chancery_core::printable::{Printable, cut};

use crate::content::LayerContent;
use crate::entry::{Entry, EntryContent, Form, Key};
use crate::layer::Layer;

/// The resources that a layer adds, changes and removes since a commit and did not before. One that only moved in
/// its file, or to another one, is not changed; one that the layer patches is, and one that it removes from the
/// layers below is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerEdit {
    /// The layer.
    pub layer: Layer,
    /// The resources that are new.
    pub added: SomeKeys,
    /// Those with another content.
    pub changed: SomeKeys,
    /// Those that are gone.
    pub removed: SomeKeys,
}

/// Resources of which the first are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SomeKeys {
    /// Their number.
    pub count: usize,
    /// The first few, by type and name.
    pub first: Vec<Key>,
}

impl SomeKeys {
    fn add(&mut self, key: &Key) {
        self.count += 1;
        if self.first.len() < MOST_NAMED {
            self.first.push(key.clone());
        }
    }
}

impl LayerEdit {
    /// The difference between two contents of a layer, in the time that it takes to find it.
    pub(crate) fn between(layer: &Layer, before: &LayerContent, after: &LayerContent) -> Self {
        let none = SomeKeys::default();
        let (added, changed, removed) = (none.clone(), none.clone(), none);
        let mut edit = Self { layer: layer.clone(), added, changed, removed };
        let written = |content: &LayerContent, key: &Key| {
            content.get(key).filter(|entry| entry.form == Form::Written).cloned()
        };
        for key in before.differing(after) {
            let (old, new) = (written(before, key), written(after, key));
            if is_same(old.as_ref(), new.as_ref()) {
                continue;
            }
            match (Word::of(old.as_ref()), Word::of(new.as_ref())) {
                (Word::Nothing | Word::Not, Word::This) | (Word::Not, Word::Nothing) => {
                    edit.added.add(key);
                }
                (Word::This, Word::Nothing | Word::Not) | (Word::Nothing, Word::Not) => {
                    edit.removed.add(key);
                }
                _ => edit.changed.add(key),
            }
        }
        edit
    }

    /// Returns true if no resource differs.
    pub fn is_empty(&self) -> bool {
        [&self.added, &self.changed, &self.removed].iter().all(|keys| keys.count == 0)
    }
}

/// The word of a layer about a resource, as far as it adds, changes or removes one.
enum Word {
    Nothing,
    /// The resource is there.
    This,
    /// Some of its fields are others.
    Other,
    /// The resource is not there.
    Not,
}

impl Word {
    fn of(entry: Option<&Entry>) -> Self {
        match entry.map(|entry| &entry.content) {
            None => Self::Nothing,
            Some(EntryContent::Whole(_)) => Self::This,
            Some(EntryContent::Patch(_)) => Self::Other,
            Some(EntryContent::Removal(_)) => Self::Not,
        }
    }
}

fn is_same(old: Option<&Entry>, new: Option<&Entry>) -> bool {
    match (old, new) {
        (Some(old), Some(new)) => old.says_same(new),
        (old, new) => old.is_none() && new.is_none(),
    }
}

/// Displays as `edge: +cds shop, ~rds web, -eds old and 2 more`.
impl fmt::Display for LayerEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [('+', &self.added), ('~', &self.changed), ('-', &self.removed)];
        let named =
            all.iter().flat_map(|(sign, keys)| keys.first.iter().map(move |key| (sign, key)));
        write!(f, "{}:", self.layer)?;
        let mut shown = 0;
        for (sign, key) in named.take(MOST_NAMED) {
            let comma = if shown == 0 { "" } else { "," };
            let name = cut(key.name.as_str(), LONGEST_NAME);
            write!(f, "{comma} {sign}{} {}", key.type_url.short(), Printable(name))?;
            shown += 1;
        }
        let count: usize = all.iter().map(|(_, keys)| keys.count).sum();
        match count - shown {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The number of resources that are named of each kind.
const MOST_NAMED: usize = 5;

/// The bytes of a name that are shown.
const LONGEST_NAME: usize = 256;

#[cfg(test)]
mod tests {
    use chancery_core::{Resource, TypeUrl};

    use super::*;
    use crate::{Catalog, ChangeSet, Origin};

    #[test]
    fn a_commit_names_what_it_did_to_each_layer() {
        let catalog = Catalog::new();
        let clusters = TypeUrl::new("envoy.config.cluster.v3.Cluster");
        let entry = |name: &str, body: &str, place: &str| {
            let resource = Resource::new(name.parse().unwrap(), body.as_bytes().to_vec().into());
            Entry::new(resource, Origin::program(place))
        };
        let commit = |edit: &dyn Fn(&mut ChangeSet)| {
            let mut changes = ChangeSet::new("test");
            edit(&mut changes);
            let revision = catalog.commit(changes).unwrap();
            revision.edits.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let edge = Layer::Group("edge".into());
        let first = commit(&|changes| {
            (0..7).for_each(|at| changes.put(&edge, &clusters, entry(&format!("c-{at}"), "", "a")));
        });
        assert_eq!(
            first,
            ["group `edge`: +cds c-0, +cds c-1, +cds c-2, +cds c-3, +cds c-4 and 2 more"]
        );
        let second = commit(&|changes| {
            changes.put(&edge, &clusters, entry("new", "", "a"));
            changes.put(&edge, &clusters, entry("c-1", "other", "a"));
            changes.put(&edge, &clusters, entry("c-2", "", "moved"));
            let name = "c-0".parse().unwrap();
            changes.remove(&edge, Key { type_url: clusters.clone(), name });
            changes.put(&Layer::Base, &clusters, entry("b", "", "a"));
        });
        assert_eq!(second, ["base: +cds b", "group `edge`: +cds new, ~cds c-1, -cds c-0"]);
        let moved = commit(&|changes| changes.put(&edge, &clusters, entry("c-2", "", "again")));
        assert_eq!(moved, [""; 0]);
    }
}
