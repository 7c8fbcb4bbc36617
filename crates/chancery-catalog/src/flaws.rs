//! The flaws of a view, which are of all its resources together and not of one of them.
//!
//! Views share the lists with each other as long as they say the same, so that who follows them has
//! nothing to compare. Not here: which flaws there are (`chancery_proto::complete`).

use std::fmt;
use std::sync::Arc;

use chancery_proto::complete::{Clash, Complete, Cycle, Dangling};
use chancery_proto::patch::NotPatched;

use crate::entry::{Key, Origin};

/// The flaws of a view. Clones share the lists.
#[derive(Clone)]
pub(crate) struct Flaws {
    /// The references that lead nowhere.
    pub(crate) dangling: Arc<[Dangling]>,
    /// The resources that a client does not take beside another one.
    pub(crate) clashes: Arc<[Clash]>,
    /// The circles of clusters that aggregate each other.
    pub(crate) cycles: Arc<[Cycle]>,
    /// The edits of its layers that are not applied, by key, and those of weaker layers first.
    pub(crate) unapplied: Arc<[Unapplied]>,
}

/// A patch or a removal that is not applied: what the layers below have stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapplied {
    /// The type and name of the resource.
    pub key: Key,
    /// The place of the edit.
    pub origin: Origin,
    /// The reason.
    pub why: WhyUnapplied,
}

impl Unapplied {
    /// Returns true for the removal of what is not there anyway: nobody sees anything else because of it.
    pub fn is_harmless(&self) -> bool {
        self.why == WhyUnapplied::NothingToRemove
    }
}

/// The reason for which an edit is not applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnapplied {
    /// No layer below has a resource of this name to patch.
    NothingToPatch,
    /// No layer below has a resource of this name to remove: what is wanted is so already.
    NothingToRemove,
    /// The patched resource could not be used.
    NotPatched(NotPatched),
    /// The resource has not the fields that would be filled with the values of nodes.
    NotFilled(NotPatched),
}

/// The flaws of a state, with the numbers that it has until they may be others.
pub(crate) struct FlawsAt<'a> {
    flaws: &'a Flaws,
    revisions: [u64; 3],
}

impl Flaws {
    /// The flaws of a state: the lists of `known`, from which the state was made, or of `before`, as far as
    /// they say the same. A cluster that comes with its endpoints lacks them between two edits.
    pub(crate) fn of(
        whole: &mut Complete,
        known: Option<FlawsAt<'_>>,
        before: Option<&Self>,
        unapplied: Vec<Unapplied>,
    ) -> Self {
        let others = || known.iter().map(|known| known.flaws).chain(before);
        let unchanged = |of: usize| {
            let known = known.as_ref()?;
            (known.revisions[of] == revisions(whole)[of]).then_some(known.flaws)
        };
        let same = |it: &&Self| whole.dangling().eq(it.dangling.iter().cloned());
        let dangling = match unchanged(0).or_else(|| others().find(same)) {
            Some(known) => Arc::clone(&known.dangling),
            None => whole.dangling().collect(),
        };
        let same = |it: &&Self| whole.clashes().eq(it.clashes.iter().cloned());
        let clashes = match unchanged(1).or_else(|| others().find(same)) {
            Some(known) => Arc::clone(&known.clashes),
            None => whole.clashes().collect(),
        };
        let cycles = match unchanged(2) {
            Some(known) => Arc::clone(&known.cycles),
            None => {
                let cycles: Vec<_> = whole.cycles().cloned().collect();
                match others().find(|it| *it.cycles == *cycles) {
                    Some(known) => Arc::clone(&known.cycles),
                    None => cycles.into(),
                }
            }
        };
        let unapplied = match others().find(|it| *it.unapplied == *unapplied) {
            Some(known) => Arc::clone(&known.unapplied),
            None => unapplied.into(),
        };
        Self { dangling, clashes, cycles, unapplied }
    }

    /// These flaws as those of a state that was not edited yet.
    pub(crate) fn at(&self, whole: &Complete) -> FlawsAt<'_> {
        FlawsAt { flaws: self, revisions: revisions(whole) }
    }

    /// Returns true if there are none.
    pub(crate) fn are_none(&self) -> bool {
        self.dangling.is_empty()
            && self.clashes.is_empty()
            && self.cycles.is_empty()
            && self.unapplied.is_empty()
    }

    /// Returns true if both are the same lists.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.dangling, &other.dangling)
            && Arc::ptr_eq(&self.clashes, &other.clashes)
            && Arc::ptr_eq(&self.cycles, &other.cycles)
            && Arc::ptr_eq(&self.unapplied, &other.unapplied)
    }
}

/// `no layer below has cds `shop`, which this changes`.
impl fmt::Display for Unapplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (self.key.type_url.short(), &self.key.name);
        match &self.why {
            WhyUnapplied::NothingToPatch => {
                write!(f, "no layer below has {kind} `{name}`, which this patches")
            }
            WhyUnapplied::NothingToRemove => {
                write!(f, "no layer below has {kind} `{name}`, which this removes")
            }
            WhyUnapplied::NotPatched(why) => {
                write!(f, "{kind} `{name}` cannot be patched so: {why}")
            }
            WhyUnapplied::NotFilled(why) => {
                write!(f, "{kind} `{name}` cannot have this value of nodes: {why}")
            }
        }
    }
}

fn revisions(whole: &Complete) -> [u64; 3] {
    [whole.dangling_revision(), whole.clash_revision(), whole.cycle_revision()]
}
