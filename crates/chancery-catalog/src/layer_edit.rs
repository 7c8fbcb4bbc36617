//! The difference that a commit makes to one layer, for people: numbers of resources, and the first of them.
//!
//! Not here: the difference for clients, which is found from what they see (`view`).

use std::fmt;

use chancery_core::printable::{Printable, cut};

use crate::content::LayerContent;
use crate::entry::{Entry, Form, Key};
use crate::layer::Layer;

/// The resources of a layer that a commit added, changed and removed. One that only moved in its file, or to
/// another one, is not changed.
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
            match (written(before, key), written(after, key)) {
                (None, Some(_)) => edit.added.add(key),
                (Some(_), None) => edit.removed.add(key),
                (Some(old), Some(new)) if !is_same(&old, &new) => edit.changed.add(key),
                _ => {}
            }
        }
        edit
    }

    /// Returns true if no resource differs.
    pub fn is_empty(&self) -> bool {
        [&self.added, &self.changed, &self.removed].iter().all(|keys| keys.count == 0)
    }
}

fn is_same(old: &Entry, new: &Entry) -> bool {
    old.content == new.content
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
