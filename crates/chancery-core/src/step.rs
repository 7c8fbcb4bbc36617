//! The step from one set to another, and the whole of a set, each worked out once for all streams in
//! the same state.
//!
//! Most streams of a fleet have a wildcard and are in the same state as others. For these a response
//! costs a few pointers. A stream with names, removals, rejections or TTLs of its own works out its
//! own response (`server/subscription/respond.rs`).
//!
//! A set that was [written over](crate::Snapshot::written_over) another shares with that one, too.
//! Its whole is that of the set below with the changed resources put in place, and a step that is the
//! same above and below is one step.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::entries::{Entries, Segment};
use crate::name_bits::NameBits;
use crate::{Change, Resource, ResourceName, ResourceSet};

/// The step from one set to another, for streams with a wildcard.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The first step, from the empty set: all resources of the set.
    Whole(Arc<ResourceSet>),
    /// The names that differ.
    Between(Arc<Difference>),
}

/// The difference between two sets.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The names that differ, in order.
    changes: Box<[Change]>,
    /// The filter of their names.
    names: NameBits,
    /// True if a resource was removed.
    removes: bool,
    /// The approximate size on the wire of the resources that were not removed.
    bytes: usize,
    entries: OnceLock<Entries>,
    /// The load assignments that new clusters wait for.
    warming: OnceLock<Arc<[ResourceName]>>,
}

/// One name of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepChange<'a> {
    pub(crate) name: &'a ResourceName,
    pub(crate) old: Option<&'a Arc<Resource>>,
    pub(crate) new: Option<&'a Arc<Resource>>,
}

/// The values worked out about one set. A clone has none, because it is about to be edited.
#[derive(Debug, Default)]
pub(crate) struct Memo {
    version: OnceLock<Arc<str>>,
    /// The others, which most sets of single nodes never need.
    derived: OnceLock<Box<Derived>>,
}

/// The values worked out about a set that is seen by several clients, or by one that connects.
#[derive(Debug, Default)]
struct Derived {
    whole: OnceLock<Entries>,
    bytes: OnceLock<usize>,
    warming: OnceLock<Arc<[ResourceName]>>,
    steps: Mutex<Vec<Remembered>>,
}

/// A step from a set that may be gone. As long as the step is remembered, no other set has that
/// address.
#[derive(Debug)]
struct Remembered {
    from: Weak<ResourceSet>,
    step: Arc<OnceLock<Arc<Difference>>>,
}

impl ResourceSet {
    /// The version of the type as it stands on the wire.
    pub(crate) fn version_text(&self) -> Arc<str> {
        Arc::clone(self.memo.version.get_or_init(|| self.version().to_text()))
    }

    /// All resources, as the entries of a response.
    pub(crate) fn whole(&self) -> &Entries {
        self.memo.derived().whole.get_or_init(|| {
            let over = self.below().map(|below| self.whole_over(below));
            over.unwrap_or_else(|| Entries::of_list(self.iter().map(Arc::clone).collect()))
        })
    }

    /// The approximate size of all resources on the wire.
    fn bytes(&self) -> usize {
        *self.memo.derived().bytes.get_or_init(|| match self.below() {
            Some(below) => self.changes_over_below().fold(below.bytes(), |sum, change| {
                let size =
                    |resource: Option<Arc<Resource>>| resource.map_or(0, |it| it.entry_size());
                (sum + size(change.new)).saturating_sub(size(change.old))
            }),
            None => self.iter().map(|resource| resource.entry_size()).sum(),
        })
    }

    /// The load assignments that the clusters of the set wait for. A set that is written over
    /// another is seen by few nodes and does not remember them.
    fn warming(&self) -> Arc<[ResourceName]> {
        let names = || self.iter().filter_map(|it| it.endpoints()).cloned().collect();
        match self.below() {
            Some(_) => names(),
            None => Arc::clone(self.memo.derived().warming.get_or_init(names)),
        }
    }

    /// The whole of this set, as that of the set below with the changed resources put in place.
    fn whole_over(&self, below: &Self) -> Entries {
        let mut changes = self.changes_over_below().peekable();
        let mut segments = Vec::with_capacity(below.whole().segments().len() + 2);
        for segment in below.whole().segments() {
            match segment {
                Segment::Run(run) => {
                    let mut from = 0;
                    while let Some(change) = changes.next_if(|it| run.reaches(&it.name)) {
                        let at = run.place_of(&change.name);
                        segments.extend(run.part(from..at).map(Segment::Run));
                        segments.extend(change.new.map(Segment::Resource));
                        from = at + usize::from(change.old.is_some());
                    }
                    segments.extend(run.part(from..run.resources().len()).map(Segment::Run));
                }
                Segment::Resource(resource) => {
                    while let Some(change) = changes.next_if(|it| it.name < *resource.name()) {
                        segments.extend(change.new.map(Segment::Resource));
                    }
                    match changes.next_if(|it| it.name == *resource.name()) {
                        Some(change) => segments.extend(change.new.map(Segment::Resource)),
                        None => segments.push(segment.clone()),
                    }
                }
                Segment::Own(_) => segments.push(segment.clone()),
            }
        }
        segments.extend(changes.filter_map(|change| change.new.map(Segment::Resource)));
        Entries::from(segments)
    }

    /// The difference to an earlier set.
    fn difference_from(&self, before: &Arc<Self>) -> Arc<Difference> {
        self.difference_below(before).unwrap_or_else(|| {
            let known = self.memo.derived().place_for_step(before);
            Arc::clone(known.get_or_init(|| Arc::new(Difference::new(before.diff(self)))))
        })
    }

    /// The difference of the sets below, if it is that of these two as well.
    fn difference_below(&self, before: &Arc<Self>) -> Option<Arc<Difference>> {
        let (from, to) = (before.below()?, self.below()?);
        if Arc::ptr_eq(from, to) {
            return None;
        }
        let difference = to.difference_from(from);
        let step = Step::Between(Arc::clone(&difference));
        self.is_changed_like(before, &step).then_some(difference)
    }
}

impl Step {
    /// The step from one set to another.
    pub(crate) fn between(before: &Arc<ResourceSet>, after: &Arc<ResourceSet>) -> Self {
        if before.is_empty() {
            return Self::Whole(Arc::clone(after));
        }
        Self::Between(after.difference_from(before))
    }

    /// The number of names that differ.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(set) => set.len(),
            Self::Between(difference) => difference.changes.len(),
        }
    }

    /// Returns true if a resource was removed.
    pub(crate) fn removes(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Between(difference) => difference.removes,
        }
    }

    /// The approximate size on the wire of the resources that were not removed.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Whole(set) => set.bytes(),
            Self::Between(difference) => difference.bytes,
        }
    }

    /// The names that differ, in order.
    pub(crate) fn changes(&self) -> impl Iterator<Item = StepChange<'_>> {
        let (whole, changes) = match self {
            Self::Whole(set) => (Some(set), &[][..]),
            Self::Between(difference) => (None, &*difference.changes),
        };
        let whole = whole.into_iter().flat_map(|set| set.iter()).map(StepChange::addition);
        whole.chain(changes.iter().map(StepChange::of))
    }

    /// Calls a function for every name that differs, in order.
    pub(crate) fn for_each_change<'a>(&'a self, mut call: impl FnMut(StepChange<'a>)) {
        match self {
            Self::Whole(set) => set.iter().for_each(|new| call(StepChange::addition(new))),
            Self::Between(difference) => {
                difference.changes.iter().for_each(|change| call(StepChange::of(change)));
            }
        }
    }

    /// The resources that were not removed, as entries of a response.
    pub(crate) fn entries(&self) -> &Entries {
        match self {
            Self::Whole(set) => set.whole(),
            Self::Between(difference) => difference.entries(),
        }
    }

    /// The filter of the names that differ.
    pub(crate) fn names(&self) -> NameBits {
        match self {
            Self::Whole(_) => NameBits::ALL,
            Self::Between(difference) => difference.names,
        }
    }

    /// The number of names that were not there before.
    pub(crate) fn count_new(&self) -> usize {
        match self {
            Self::Whole(set) => set.len(),
            Self::Between(it) => it.changes.iter().filter(|change| change.old.is_none()).count(),
        }
    }

    /// The load assignments that clusters wait for which were not there before.
    pub(crate) fn warming(&self) -> Arc<[ResourceName]> {
        match self {
            Self::Whole(set) => set.warming(),
            Self::Between(difference) => difference.warming(),
        }
    }

    /// The change of that name.
    pub(crate) fn change_of(&self, name: &str) -> Option<StepChange<'_>> {
        match self {
            Self::Whole(set) => set.get(name).map(StepChange::addition),
            Self::Between(difference) => difference.change_of(name).map(StepChange::of),
        }
    }
}

impl Difference {
    fn new(changes: impl Iterator<Item = Change>) -> Self {
        let changes: Box<[Change]> = changes.collect();
        let removes = changes.iter().any(|change| change.new.is_none());
        let given = changes.iter().filter_map(|change| change.new.as_deref());
        let bytes = given.map(Resource::entry_size).sum();
        let names = changes.iter().map(|change| &change.name).collect();
        let (entries, warming) = (OnceLock::new(), OnceLock::new());
        Self { changes, names, removes, bytes, entries, warming }
    }

    fn entries(&self) -> &Entries {
        let given = || self.changes.iter().filter_map(|change| change.new.clone());
        self.entries.get_or_init(|| Entries::of_list(given().collect()))
    }

    fn warming(&self) -> Arc<[ResourceName]> {
        let new = || self.changes.iter().filter(|change| change.old.is_none());
        let clusters = || new().filter_map(|change| change.new.as_deref());
        let names = || clusters().filter_map(Resource::endpoints).cloned().collect();
        Arc::clone(self.warming.get_or_init(names))
    }

    fn change_of(&self, name: &str) -> Option<&Change> {
        let at = self.changes.binary_search_by(|change| change.name.as_str().cmp(name)).ok()?;
        self.changes.get(at)
    }
}

impl<'a> StepChange<'a> {
    fn addition(new: &'a Arc<Resource>) -> Self {
        Self { name: new.name(), old: None, new: Some(new) }
    }

    fn of(change: &'a Change) -> Self {
        Self { name: &change.name, old: change.old.as_ref(), new: change.new.as_ref() }
    }
}

impl Memo {
    fn derived(&self) -> &Derived {
        self.derived.get_or_init(Box::default)
    }
}

impl Derived {
    /// The place of the step, which may be empty. The lock is not held while the step is worked
    /// out.
    fn place_for_step(&self, before: &Arc<ResourceSet>) -> Arc<OnceLock<Arc<Difference>>> {
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

/// The number of steps that a set remembers. Streams are rarely in more states than these at a
/// time, and a step that was dropped is worked out again.
const REMEMBERED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Snapshot, TypeUrl};

    fn cds() -> TypeUrl {
        TypeUrl::new("envoy.config.cluster.v3.Cluster")
    }

    fn resource(name: &str, body: &str) -> Resource {
        Resource::new(name.parse().unwrap(), bytes::Bytes::copy_from_slice(body.as_bytes()))
    }

    fn snapshot(names: &[&str]) -> Snapshot {
        let mut snapshot = Snapshot::new();
        names.iter().for_each(|name| snapshot.insert(&cds(), resource(name, name)));
        snapshot
    }

    fn difference(step: &Step) -> &Arc<Difference> {
        let Step::Between(difference) = step else { panic!("{step:?} is from nothing") };
        difference
    }

    fn is_same(one: &Step, other: &Step) -> bool {
        Arc::ptr_eq(difference(one), difference(other))
    }

    fn names(entries: &Entries) -> Vec<String> {
        entries.iter().map(|entry| entry.name.to_string()).collect()
    }

    #[test]
    fn a_step_is_worked_out_once() {
        let [before, after] = [snapshot(&["a", "b"]), snapshot(&["b", "c", "d"])];
        let [before, after] = [before.set(&cds()), after.set(&cds())];
        let step = Step::between(before, after);
        assert!(is_same(&step, &Step::between(before, after)));
        let names: Vec<_> = step.changes().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "d"]);
        assert_eq!(step.entries().len(), 2);
        assert!(step.removes());
        assert!(step.change_of("c").is_some_and(|change| change.old.is_none()));
        assert!(step.change_of("b").is_none());
        assert!(!is_same(&step, &Step::between(after, before)));
    }

    #[test]
    fn an_edit_forgets_what_was_worked_out() {
        let mut snapshot = snapshot(&["a"]);
        assert_eq!(names(snapshot.set(&cds()).whole()), ["a"]);
        let version = snapshot.set(&cds()).version_text();
        snapshot.insert(&cds(), resource("b", "b"));
        assert_eq!(names(snapshot.set(&cds()).whole()), ["a", "b"]);
        assert_ne!(snapshot.set(&cds()).version_text(), version);
    }

    #[test]
    fn the_first_step_is_the_whole() {
        let [nothing, all] = [Snapshot::new(), snapshot(&["a", "b"])];
        let step = Step::between(nothing.set(&cds()), all.set(&cds()));
        assert_eq!((step.len(), step.count_new(), step.removes()), (2, 2, false));
        assert_eq!(names(step.entries()), ["a", "b"]);
        assert!(step.change_of("b").is_some_and(|change| change.new.is_some()));
        assert!(step.change_of("c").is_none());
    }

    #[test]
    fn the_oldest_steps_are_forgotten() {
        let after = snapshot(&["z"]);
        let after = after.set(&cds());
        let befores: Vec<_> = (0..=REMEMBERED).map(|at| snapshot(&[&at.to_string()])).collect();
        let step = |at: usize| Step::between(befores[at].set(&cds()), after);
        let first = step(0);
        (1..REMEMBERED).for_each(|at| drop(step(at)));
        assert!(is_same(&first, &step(0)), "at the limit");
        step(REMEMBERED);
        assert!(!is_same(&first, &step(0)), "one past it");
    }

    #[test]
    fn a_copy_that_is_edited_remembers_nothing_of_its_original() {
        let before = snapshot(&["a"]);
        assert_eq!(before.set(&cds()).whole().len(), 1);
        let version = before.set(&cds()).version_text();
        let mut after = before.clone();
        after.insert(&cds(), resource("b", ""));
        assert_eq!(after.set(&cds()).whole().len(), 2);
        assert_ne!(after.set(&cds()).version_text(), version);
        assert_eq!(*version, before.set(&cds()).version().to_string());
    }

    #[test]
    fn a_set_shares_the_whole_of_the_one_below() {
        let base: Vec<String> = (10..60).map(|at| at.to_string()).collect();
        let base = snapshot(&base.iter().map(String::as_str).collect::<Vec<_>>());
        let mut above = base.clone();
        above.insert(&cds(), resource("1", "before all"));
        above.insert(&cds(), resource("20", "another"));
        above.remove(&cds(), &"30".parse().unwrap());
        above.insert(&cds(), resource("300", "between"));
        above.insert(&cds(), resource("7", "behind all"));
        let plain = above.clone();
        above.written_over(&base);
        let (above, plain) = (above.set(&cds()), plain.set(&cds()));
        assert_eq!(above.whole(), plain.whole());
        assert_eq!(above.bytes(), plain.bytes());
        let runs = above.whole().segments().iter().filter(|it| matches!(it, Segment::Run(_)));
        assert_eq!(runs.count(), 3, "{:?}", above.whole().segments());
        // A third one, over the second.
        let mut third = Snapshot::new();
        third.replace(above.iter().map(|it| (cds(), Arc::clone(it))));
        let second = third.clone();
        third.insert(&cds(), resource("20", "once more"));
        third.insert(&cds(), resource("40", "another"));
        third.remove(&cds(), &"300".parse().unwrap());
        let expected = third.clone();
        third.written_over(&second);
        assert_eq!(third.set(&cds()).whole(), expected.set(&cds()).whole());
    }

    #[test]
    fn sets_of_which_much_differs_share_nothing() {
        let base = snapshot(&["a", "b", "c", "d", "e", "f", "g", "h"]);
        let mut above = base.clone();
        above.insert(&cds(), resource("a", "2"));
        above.insert(&cds(), resource("b", "2"));
        above.written_over(&base);
        assert_eq!(above.set(&cds()).whole().segments().len(), 1);
    }

    #[test]
    fn a_step_that_is_the_same_below_is_one_step() {
        let base: Vec<String> = (10..60).map(|at| at.to_string()).collect();
        let base = snapshot(&base.iter().map(String::as_str).collect::<Vec<_>>());
        let mut next = base.clone();
        next.insert(&cds(), resource("20", "2"));
        let over = |below: &Snapshot, own: &str| {
            let mut above = below.clone();
            above.insert(&cds(), resource(own, "own"));
            above.written_over(below);
            above
        };
        let step = |before: &Snapshot, after: &Snapshot| {
            Step::between(before.set(&cds()), after.set(&cds()))
        };
        let below = step(&base, &next);
        assert!(is_same(&below, &step(&over(&base, "a"), &over(&next, "a"))));
        assert!(is_same(&below, &step(&over(&base, "30"), &over(&next, "30"))));
        let hidden = step(&over(&base, "20"), &over(&next, "20"));
        assert_eq!(hidden.len(), 0, "its own resource hides the change");
        let other = step(&over(&base, "a"), &over(&next, "b"));
        assert!(!is_same(&below, &other));
        assert_eq!(other.len(), 3);
    }
}
