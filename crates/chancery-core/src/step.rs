//! What streams in the same state share: the way from one set to another, and the whole of a set,
//! each worked out once however many streams take it.
//!
//! Most streams of a fleet want everything of a type and are where the others are. For these a
//! response costs a few pointers. A stream with names, removals, rejections or TTLs of its own
//! works out its own response (`subscription/respond.rs`).

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::server::{Encodings, ResponseEntry, Share};
use crate::{Change, Resource, ResourceName, ResourceSet};

/// The way from one set to another, for whoever wants everything.
#[derive(Debug)]
pub(crate) struct Step {
    /// Every name that differs, in order.
    pub(crate) changes: Box<[Change]>,
    /// Whether something is no longer there.
    pub(crate) removes: bool,
    /// Roughly what the rest takes on the wire.
    pub(crate) bytes: usize,
    entries: OnceLock<Entries>,
    /// The load assignments that new clusters wait for.
    warming: OnceLock<Arc<[ResourceName]>>,
}

/// Entries in the order of their names, without TTLs, and a place for their encoding.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    pub(crate) list: Arc<[ResponseEntry]>,
    encodings: Arc<Encodings>,
}

/// What was worked out about one set. A copy begins anew, as it is about to be edited.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    version: OnceLock<Arc<str>>,
    whole: OnceLock<Entries>,
    steps: Mutex<Vec<Remembered>>,
}

/// A step from a set that may be gone: as long as it is remembered, no other has its address.
#[derive(Debug)]
struct Remembered {
    from: Weak<ResourceSet>,
    step: Arc<OnceLock<Arc<Step>>>,
}

impl ResourceSet {
    /// The version of the type as it stands on the wire.
    pub(crate) fn version_text(&self) -> Arc<str> {
        Arc::clone(self.memo.version.get_or_init(|| self.version().to_string().into()))
    }

    /// All resources.
    pub(crate) fn whole(&self) -> &Entries {
        self.memo.whole.get_or_init(|| Entries::of(self.iter()))
    }

    /// The way from `before` to this set.
    pub(crate) fn step_from(&self, before: &Arc<Self>) -> Arc<Step> {
        let step = self.memo.step_from(before);
        Arc::clone(step.get_or_init(|| Arc::new(Step::new(before, self))))
    }
}

impl Memo {
    /// Where the step is or will be. The lock is not held while it is worked out.
    fn step_from(&self, before: &Arc<ResourceSet>) -> Arc<OnceLock<Arc<Step>>> {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = steps.iter().find(|one| one.is_from(before)) {
            return Arc::clone(&known.step);
        }
        if steps.len() == REMEMBERED {
            steps.remove(0);
        }
        let step = Arc::<OnceLock<_>>::default();
        steps.push(Remembered { from: Arc::downgrade(before), step: Arc::clone(&step) });
        step
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Remembered {
    fn is_from(&self, set: &Arc<ResourceSet>) -> bool {
        std::ptr::eq(self.from.as_ptr(), Arc::as_ptr(set))
    }
}

impl Step {
    fn new(before: &ResourceSet, after: &ResourceSet) -> Self {
        let changes: Box<[Change]> = before.diff(after).collect();
        let removes = changes.iter().any(|change| change.new.is_none());
        let given = changes.iter().filter_map(|change| change.new.as_deref());
        let bytes = given.map(entry_size).sum();
        Self { changes, removes, bytes, entries: OnceLock::new(), warming: OnceLock::new() }
    }

    /// What exists now of what differs.
    pub(crate) fn entries(&self) -> &Entries {
        let given = || self.changes.iter().filter_map(|change| change.new.as_ref());
        self.entries.get_or_init(|| Entries::of(given()))
    }

    /// How many were not there before.
    pub(crate) fn count_new(&self) -> usize {
        self.changes.iter().filter(|change| change.old.is_none()).count()
    }

    /// The load assignments that clusters wait for which were not there before.
    pub(crate) fn warming(&self) -> &Arc<[ResourceName]> {
        let new = || self.changes.iter().filter(|change| change.old.is_none());
        let clusters = || new().filter_map(|change| change.new.as_deref());
        self.warming.get_or_init(|| clusters().filter_map(Resource::endpoints).cloned().collect())
    }

    /// The change of that name.
    pub(crate) fn change_of(&self, name: &str) -> Option<&Change> {
        let at = self.changes.binary_search_by(|change| change.name.as_str().cmp(name)).ok()?;
        self.changes.get(at)
    }
}

impl Entries {
    fn of<'a>(resources: impl Iterator<Item = &'a Arc<Resource>>) -> Self {
        Self { list: resources.map(ResponseEntry::of).collect(), encodings: Arc::default() }
    }

    pub(crate) fn share(&self) -> Share {
        Share::Place(Arc::clone(&self.encodings))
    }
}

/// Roughly what an entry takes on the wire: the body, the name twice, and the wrapping.
pub(crate) fn entry_size(resource: &Resource) -> usize {
    resource.body().len() + 2 * resource.name().as_str().len() + 128
}

/// Streams are rarely in more states than these at a time, and a step forgotten is worked out
/// again.
const REMEMBERED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Snapshot, TypeUrl};

    fn cds() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    fn snapshot(names: &[&str]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        for name in names {
            let body = bytes::Bytes::copy_from_slice(name.as_bytes());
            snapshot.insert(&cds(), Resource::new(name.parse().unwrap(), body));
        }
        snapshot
    }

    #[test]
    fn a_step_is_worked_out_once() {
        let [before, after] = [snapshot(&["a", "b"]), snapshot(&["b", "c", "d"])];
        let [before, after] = [before.set(&cds()), after.set(&cds())];
        let step = after.step_from(before);
        assert!(Arc::ptr_eq(&step, &after.step_from(before)));
        let names: Vec<_> = step.changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "d"]);
        assert_eq!(step.entries().list.len(), 2);
        assert!(step.removes);
        assert!(step.change_of("c").is_some_and(|change| change.old.is_none()));
        assert!(step.change_of("b").is_none());
        assert!(!Arc::ptr_eq(&step, &before.step_from(after)));
    }

    #[test]
    fn the_oldest_steps_are_forgotten() {
        let after = snapshot(&["z"]);
        let after = after.set(&cds());
        let befores: Vec<_> = (0..=REMEMBERED).map(|_| Arc::new(ResourceSet::default())).collect();
        let first = after.step_from(&befores[0]);
        for before in &befores[1..REMEMBERED] {
            after.step_from(before);
        }
        assert!(Arc::ptr_eq(&first, &after.step_from(&befores[0])), "at the limit");
        after.step_from(&befores[REMEMBERED]);
        assert!(!Arc::ptr_eq(&first, &after.step_from(&befores[0])), "one past it");
    }

    #[test]
    fn a_copy_that_is_edited_remembers_nothing_of_its_original() {
        let before = snapshot(&["a"]);
        assert_eq!(before.set(&cds()).whole().list.len(), 1);
        let version = before.set(&cds()).version_text();
        let mut after = before.clone();
        after.insert(&cds(), Resource::new("b".parse().unwrap(), bytes::Bytes::new()));
        assert_eq!(after.set(&cds()).whole().list.len(), 2);
        assert_ne!(after.set(&cds()).version_text(), version);
        assert_eq!(*version, before.set(&cds()).version().to_string());
    }
}
