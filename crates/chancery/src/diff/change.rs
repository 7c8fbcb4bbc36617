//! A change of a resource, and those who see it.
//!
//! Each change is told once, below all those who see it. Most changes are seen by the same few sets of
//! audiences, so a set is kept once and has a number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chancery_catalog::{Audience, Key};
use chancery_core::{Resource, ResourceName, Version};

/// A change of a resource. One of both sides is there.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) key: Key,
    pub(super) before: Option<Arc<Resource>>,
    pub(super) after: Option<Arc<Resource>>,
}

/// All that a client is given of a resource, with a hash for its content.
type Given = (Version, Option<Duration>, Vec<ResourceName>);

/// Equal for changes in which clients see the same.
type Identity = (Key, [Option<Given>; 2]);

impl Change {
    fn identity(&self) -> Identity {
        (self.key.clone(), [&self.before, &self.after].map(|it| it.as_deref().map(given)))
    }
}

fn given(resource: &Resource) -> Given {
    (resource.version().clone(), resource.ttl(), resource.aliases().to_vec())
}

/// Returns true if clients are given the same.
pub(super) fn is_same(one: Option<&Resource>, other: Option<&Resource>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => {
            one.version() == other.version()
                && one.ttl() == other.ttl()
                && one.aliases() == other.aliases()
        }
        (one, other) => one.is_none() && other.is_none(),
    }
}

/// The number of a set of audiences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SetNumber(usize);

/// Changes with those who see them, as they are found.
#[derive(Default)]
pub(super) struct SeenChanges {
    sets: Vec<Vec<Audience>>,
    numbers: BTreeMap<Vec<Audience>, SetNumber>,
    changes: BTreeMap<Identity, (Change, Vec<SetNumber>)>,
}

impl SeenChanges {
    /// The number of a set.
    pub(super) fn set(&mut self, mut audiences: Vec<Audience>) -> SetNumber {
        audiences.sort();
        audiences.dedup();
        if let Some(number) = self.numbers.get(&audiences) {
            return *number;
        }
        let number = SetNumber(self.sets.len());
        self.sets.push(audiences.clone());
        self.numbers.insert(audiences, number);
        number
    }

    /// Adds a change that all of a set see, and perhaps others too.
    pub(super) fn add(&mut self, change: Change, by: SetNumber) {
        let found = self.changes.entry(change.identity());
        found.or_insert_with(|| (change, Vec::new())).1.push(by);
    }

    /// The changes, by those who see them, and then in the order in which types are sent.
    pub(super) fn by_viewers(mut self) -> Vec<(Vec<Audience>, Vec<Change>)> {
        let mut by_set: BTreeMap<SetNumber, Vec<Change>> = BTreeMap::new();
        for (change, mut of) in std::mem::take(&mut self.changes).into_values() {
            of.sort();
            of.dedup();
            let number = match of.as_slice() {
                [one] => *one,
                many => {
                    let all = many.iter().flat_map(|number| self.sets[number.0].iter().cloned());
                    let all = all.collect();
                    self.set(all)
                }
            };
            by_set.entry(number).or_default().push(change);
        }
        let mut sets = self.sets;
        let mut all = Vec::new();
        for (number, changes) in by_set {
            all.push((std::mem::take(&mut sets[number.0]), changes));
        }
        all.retain(|(viewers, _)| !viewers.is_empty());
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        all
    }
}
