//! The children that subchannels and endpoints belong to, so that an event finds its way down a tree
//! without a search. Not here: the children.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use chancery_core::Time;

use super::context::{Context, Part, Trace};

/// The child of each subchannel and endpoint below a policy.
#[derive(Debug)]
pub(super) struct Owners<K>(HashMap<Part, K>);

/// The deadlines of children, the next one first.
#[derive(Debug)]
pub(super) struct Deadlines<K> {
    queue: BTreeSet<(Time, K)>,
    of: BTreeMap<K, Time>,
}

impl<K: Clone> Owners<K> {
    /// Lets a child handle something, and notes the parts that it made and gave up.
    pub(super) fn within<R>(
        &mut self,
        key: &K,
        cx: &mut Context<'_>,
        handle: impl FnOnce(&mut Context<'_>) -> R,
    ) -> R {
        let before = cx.trail.len();
        let result = handle(cx);
        for trace in &cx.trail[before..] {
            match *trace {
                Trace::Made(part) => drop(self.0.insert(part, key.clone())),
                Trace::Gone(part) => drop(self.0.remove(&part)),
                Trace::Leads(..) => {}
            }
        }
        result
    }

    pub(super) fn of(&self, part: Part) -> Option<&K> {
        self.0.get(&part)
    }

    /// Gives all that belongs to one child to another one.
    pub(super) fn rename(&mut self, from: &K, to: &K)
    where
        K: PartialEq,
    {
        // The order does not matter: each is set by itself.
        #[expect(clippy::iter_over_hash_type, reason = "see above")]
        for owner in self.0.values_mut() {
            if owner == from {
                *owner = to.clone();
            }
        }
    }
}

impl<K> Default for Owners<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Ord + Clone> Deadlines<K> {
    pub(super) fn set(&mut self, key: &K, time: Option<Time>) {
        if self.of.get(key).copied() == time {
            return;
        }
        if let Some(before) = self.of.remove(key) {
            self.queue.remove(&(before, key.clone()));
        }
        if let Some(time) = time {
            self.queue.insert((time, key.clone()));
            self.of.insert(key.clone(), time);
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.queue.first().map(|(time, _)| *time)
    }

    /// Takes out a child whose deadline has come.
    pub(super) fn pop_due(&mut self, now: Time) -> Option<K> {
        let (_, key) = self.queue.first().filter(|(time, _)| *time <= now).cloned()?;
        self.set(&key, None);
        Some(key)
    }
}

impl<K> Default for Deadlines<K> {
    fn default() -> Self {
        Self { queue: BTreeSet::new(), of: BTreeMap::new() }
    }
}
