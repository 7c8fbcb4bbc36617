//! References that lead nowhere for somebody (S-103), and resources that nothing refers to.
//!
//! A reference leads nowhere for an *audience*: another group may well have the target. That nothing
//! refers to a resource is true of *all layers* together, because a node that nobody has seen yet may
//! have a layer of its own that does.
//!
//! ```text
//!   views of the audiences --> missing targets, each with all that refer to it --+--> near misses
//!   layers ------------------> resources that nothing refers to -----------------+
//! ```
//!
//! Nothing is worked out again while every audience lacks what it lacked. Not here: which references
//! dangle in one snapshot (`chancery_proto::complete`), and what an operator is told to write.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use chancery_core::{ResourceName, ResourceSet, Snapshot, TypeUrl};
use chancery_proto::complete::{Clash, Cycle, Dangling};

pub use self::near::NearMiss;
use self::near::NearNames;
pub use self::unapplied::UnappliedEdit;
use self::usage::Usage;
use crate::audience::Audience;
use crate::external::External;
use crate::flaws::Flaws;
use crate::state::CatalogState;

pub(crate) mod lost;
mod near;
mod unapplied;
mod usage;

/// The references of a catalog that lead nowhere, and the resources that nothing refers to.
#[derive(Debug, Default, PartialEq)]
pub struct References {
    /// The targets that do not exist, by type and name.
    pub missing: Vec<MissingTarget>,
    /// The load assignments, route configurations and secrets that nothing refers to, but for those
    /// that are a near miss of a missing target, or known from elsewhere. The first few hundred.
    pub unused: Vec<(TypeUrl, ResourceName)>,
    /// The number of the others, among which there may be such too.
    pub more_unused: usize,
    /// The resources that a client does not take beside another one, the first few hundred, each with the
    /// audiences that see both.
    pub clashes: Vec<(Clash, Vec<Audience>)>,
    /// The circles of clusters that aggregate each other, the first few hundred, each with the audiences that see
    /// it.
    pub cycles: Vec<(Cycle, Vec<Audience>)>,
    /// The edits that are not applied, the first few hundred.
    pub unapplied: Vec<UnappliedEdit>,
}

/// A target that does not exist for somebody who sees a reference to it.
#[derive(Clone, Debug, PartialEq)]
pub struct MissingTarget {
    /// The type of the target.
    pub type_url: TypeUrl,
    /// Its name.
    pub name: ResourceName,
    /// One of the references to it.
    pub reference: Dangling,
    /// The number of resources that refer to it.
    pub count: usize,
    /// The audiences that lack it, sorted.
    pub audiences: Vec<Audience>,
    /// The name that may be meant.
    pub near: Option<NearMiss>,
}

/// The flaws of what one audience sees.
pub(crate) struct Lacking {
    pub(crate) audience: Audience,
    pub(crate) flaws: Flaws,
    /// The flaws as they are told: without values of nodes.
    pub(crate) told: Flaws,
    pub(crate) snapshot: Arc<Snapshot>,
}

/// The result of the last look, and what it was made of.
#[derive(Default)]
pub(crate) struct ReferenceState {
    /// The lists of the audiences that lack something.
    lists: Vec<(Audience, Flaws)>,
    external: External,
    usage: Usage,
    /// The sets that the names which may be meant are from.
    near: Vec<Arc<ResourceSet>>,
    references: Arc<References>,
}

impl ReferenceState {
    /// The references as they are now. The same `Arc` comes back while nothing of it can have changed.
    pub(crate) fn follow(
        &mut self,
        found: &[Lacking],
        state: Option<&CatalogState>,
        external: &External,
    ) -> Arc<References> {
        let is_same = |((audience, list), now): (&(Audience, Flaws), &Lacking)| {
            *audience == now.audience && list.is_same(&now.flaws)
        };
        let same_lists =
            self.lists.len() == found.len() && self.lists.iter().zip(found).all(is_same);
        let same_usage = state.is_none_or(|state| !self.usage.follow(state));
        let near = sets_of_near(found);
        let same_near = self.near.len() == near.len()
            && self.near.iter().zip(&near).all(|(before, now)| Arc::ptr_eq(before, now));
        if !(same_lists && same_usage && same_near && self.external.is_same(external)) {
            self.near = near;
            let list = |it: &Lacking| (it.audience.clone(), it.flaws.clone());
            self.lists = found.iter().map(list).collect();
            self.external = external.clone();
            self.references = Arc::new(self.look(found, state));
        }
        Arc::clone(&self.references)
    }

    fn look(&self, found: &[Lacking], state: Option<&CatalogState>) -> References {
        let targets = targets(found, &self.external);
        let missing: BTreeSet<_> = targets.keys().copied().collect();
        let mut near = NearNames::new(&missing, &self.usage);
        let missing: Vec<_> =
            targets.into_values().filter_map(|target| target.described(&mut near)).collect();
        let is_meant: BTreeSet<_> = missing.iter().filter_map(MissingTarget::unused_near).collect();
        let of_group = |group: &Arc<str>| Audience::of(Some(Arc::clone(group)), None);
        let groups = state.into_iter().flat_map(|state| state.groups.keys().map(of_group));
        let audiences: Vec<_> = std::iter::once(Audience::default()).chain(groups).collect();
        let is_told = |(type_url, name): &(&TypeUrl, &ResourceName)| {
            !is_meant.contains(&(type_url.short(), *name))
                && !audiences.iter().any(|it| self.external.knows(it, name.as_str()))
        };
        let mut all = self.usage.unused();
        let first = all.by_ref().take(MOST_UNUSED).filter(is_told);
        let unused = first.map(|(type_url, name)| (type_url.clone(), name.clone())).collect();
        References {
            missing,
            unused,
            more_unused: all.count(),
            clashes: of_several(found, |flaws| &flaws.clashes),
            cycles: of_several(found, |flaws| &flaws.cycles),
            unapplied: unapplied::unapplied(found, MOST_CLASHES),
        }
    }
}

/// The sets of the types that have missing names, by audience. If very many are missing, there are none:
/// their near misses stay as they were when the last of them went missing.
fn sets_of_near(found: &[Lacking]) -> Vec<Arc<ResourceSet>> {
    let count = |it: &Lacking| it.told.dangling.len() + it.told.unapplied.len();
    if found.iter().map(count).sum::<usize>() > FEW_MISSING {
        return Vec::new();
    }
    let types = |it: &Lacking| -> BTreeSet<TypeUrl> {
        let missing = it.told.dangling.iter().map(|reference| &reference.target.type_url);
        missing.chain(it.told.unapplied.iter().map(|edit| &edit.key.type_url)).cloned().collect()
    };
    let sets = found.iter().flat_map(|it| types(it).into_iter().map(|of| it.snapshot.set(&of)));
    sets.cloned().collect()
}

/// The flaws of a kind, each with those who see it.
fn of_several<T: Ord + Clone>(
    found: &[Lacking],
    of_kind: impl Fn(&Flaws) -> &[T],
) -> Vec<(T, Vec<Audience>)> {
    let mut all: BTreeMap<&T, Vec<Audience>> = BTreeMap::new();
    for Lacking { audience, told, .. } in found {
        for flaw in of_kind(told) {
            if all.len() < MOST_CLASHES || all.contains_key(flaw) {
                all.entry(flaw).or_default().push(audience.clone());
            }
        }
    }
    all.into_iter().map(|(flaw, audiences)| (flaw.clone(), audiences)).collect()
}

/// A missing target, by the short name of its type: the v2 form of a resource lacks what the resource
/// lacks.
type TargetKey<'a> = (&'a str, &'a ResourceName);

/// All that is known of a missing target.
struct Target<'a> {
    type_url: &'a TypeUrl,
    from: BTreeMap<(&'a str, &'a ResourceName), &'a Dangling>,
    audiences: BTreeSet<&'a Audience>,
    /// The snapshot of one of the audiences.
    snapshot: &'a Snapshot,
}

/// The missing targets, but for those that are known elsewhere.
fn targets<'a>(found: &'a [Lacking], external: &External) -> BTreeMap<TargetKey<'a>, Target<'a>> {
    let mut targets: BTreeMap<TargetKey<'a>, Target<'a>> = BTreeMap::new();
    for Lacking { audience, told, snapshot, .. } in found {
        // References to one target stand together, and very many may refer to it.
        let mut last: Option<(TargetKey<'a>, bool)> = None;
        for reference in told.dangling.iter() {
            let (type_url, name) = (&reference.target.type_url, &reference.target.name);
            let key = (type_url.short(), name);
            let is_known = match last {
                Some((before, is_known)) if before == key => is_known,
                _ => external.knows(audience, name.as_str()),
            };
            last = Some((key, is_known));
            if is_known {
                continue;
            }
            let target = targets.entry(key).or_insert_with(|| Target {
                type_url,
                from: BTreeMap::new(),
                audiences: BTreeSet::new(),
                snapshot,
            });
            target.type_url = target.type_url.max(type_url);
            target.from.insert((reference.type_url.short(), &reference.name), reference);
            target.audiences.insert(audience);
        }
    }
    targets
}

impl Target<'_> {
    fn described(self, near: &mut NearNames<'_>) -> Option<MissingTarget> {
        let (count, (_, reference)) = (self.from.len(), self.from.into_iter().next()?);
        let name = &reference.target.name;
        Some(MissingTarget {
            type_url: self.type_url.clone(),
            name: name.clone(),
            reference: reference.clone(),
            count,
            audiences: self.audiences.into_iter().cloned().collect(),
            near: near.of(self.snapshot, self.type_url, name),
        })
    }
}

impl MissingTarget {
    /// The near miss, if nothing refers to that: one of the two names is wrong.
    fn unused_near(&self) -> Option<TargetKey<'_>> {
        let near = self.near.as_ref().filter(|near| near.is_unused)?;
        Some((self.type_url.short(), &near.name))
    }

    /// The name that may be meant, as a question. Empty if none is near.
    pub fn question(&self) -> String {
        NearMiss::question(self.near.as_ref(), &self.type_url, &self.name)
    }
}

/// `rds `r` and 2 others refer to cds `b`, which does not exist`.
impl fmt::Display for MissingTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Dangling { type_url, name, .. } = &self.reference;
        write!(f, "{} `{name}` ", type_url.short())?;
        match self.count {
            0 | 1 => f.write_str("refers")?,
            2 => f.write_str("and another one refer")?,
            many => write!(f, "and {} others refer", many - 1)?,
        }
        write!(f, " to {} `{}`, which does not exist", self.type_url.short(), self.name)?;
        match self.reference.is_filled() {
            true => f.write_str(": clients get an empty one, so that the cluster has no endpoints"),
            false => Ok(()),
        }
    }
}

/// The number of references that lead nowhere up to which a change of names has all looked at again.
const FEW_MISSING: usize = 100;

/// The number of clashes, of circles, and of edits that are not applied, that are listed.
const MOST_CLASHES: usize = 200;

/// The number of resources that nothing refers to that are listed.
const MOST_UNUSED: usize = 200;
