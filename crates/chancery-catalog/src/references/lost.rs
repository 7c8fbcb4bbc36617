//! The references that a change makes lead nowhere: for whoever judges a change before it is seen.

use std::collections::BTreeSet;

use chancery_core::Snapshot;
use chancery_proto::complete::Dangling;
use chancery_proto::resource::places_of_link;
use chancery_proto::schema::Schema;

use super::near::{NearMiss, NearNames};
use super::usage::Usage;
use crate::audience::Audience;
use crate::external::External;

/// A reference that leads nowhere after a change, and did not before.
#[derive(Clone, Debug, PartialEq)]
pub struct LostReference {
    /// The reference.
    pub reference: Dangling,
    /// The paths of the fields with it, the first few.
    pub fields: Vec<String>,
    /// True if the reference was there before, and its target too: the change takes the target away.
    pub target_goes: bool,
    /// The name that may be meant.
    pub near: Option<NearMiss>,
}

/// Something that an audience sees, or would see.
#[derive(Clone, Copy, Debug)]
pub struct SeenReferences<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// The references in it that lead nowhere.
    pub dangling: &'a [Dangling],
}

/// The references that lead nowhere for an audience after a change and did not before, as
/// [`LostReference`]s so many at most, and the number of all. Names that it knows from elsewhere are
/// left out, references that led nowhere before, and those that somebody lets pass. Those that matter to whoever
/// asks come first, as do those whose target goes; of the others only those count that are described. It costs
/// nothing where both are the same list, as after most changes.
pub fn lost_references(
    schema: &Schema,
    audience: &Audience,
    external: &External,
    before: Option<SeenReferences<'_>>,
    after: SeenReferences<'_>,
    (is_let_pass, matters): (impl Fn(&Dangling) -> bool, impl Fn(&Dangling) -> bool),
    most: usize,
) -> (Vec<LostReference>, usize) {
    if before.is_some_and(|before| std::ptr::eq(before.dangling, after.dangling)) {
        return (Vec::new(), 0);
    }
    let key = |one: &'_ Dangling| {
        let target = (one.target.type_url.clone(), one.target.name.clone());
        (target, one.type_url.clone(), one.name.clone())
    };
    let dangling_before: BTreeSet<_> =
        before.iter().flat_map(|before| before.dangling).map(key).collect();
    let is_new = |one: &&Dangling| {
        !dangling_before.contains(&key(one))
            && !external.knows(audience, one.target.name.as_str())
            && !is_let_pass(one)
    };
    let goes = |one: &Dangling| before.is_some_and(|before| was_whole(before.snapshot, one));
    let lost = after.dangling.iter().filter(is_new);
    let (mut lost, others): (Vec<&Dangling>, Vec<&Dangling>) =
        lost.partition(|one| matters(one) || goes(one));
    let count = lost.len().max((lost.len() + others.len()).min(most));
    lost.extend(others);
    let missing = after.dangling.iter().map(|one| (one.target.type_url.short(), &one.target.name));
    let (missing, usage) = (missing.collect(), Usage::default());
    let mut near = NearNames::new(&missing, &usage);
    let described = lost.iter().take(most).map(|one| {
        let resource = after.snapshot.set(&one.type_url).get(one.name.as_str());
        let fields = resource.map(|resource| {
            places_of_link(schema, &one.type_url, resource.body(), &one.target, MOST_FIELDS)
        });
        LostReference {
            reference: (*one).clone(),
            fields: fields.unwrap_or_default(),
            target_goes: before.is_some_and(|before| was_whole(before.snapshot, one)),
            near: near.of(after.snapshot, &one.target.type_url, &one.target.name),
        }
    });
    (described.collect(), count)
}

/// Returns true if a reference was there, and led to something.
fn was_whole(before: &Snapshot, reference: &Dangling) -> bool {
    let Dangling { type_url, name, target } = reference;
    let resource = before.set(type_url).get(name.as_str());
    resource.is_some_and(|resource| resource.facts().links.contains(target))
        && before.set(&target.type_url).get_aliased(target.name.as_str()).is_some()
}

impl LostReference {
    /// The name that may be meant, as a question. Empty if none is near.
    pub fn question(&self) -> String {
        let target = &self.reference.target;
        NearMiss::question(self.near.as_ref(), &target.type_url, &target.name)
    }
}

/// The number of fields that are named of one resource.
const MOST_FIELDS: usize = 3;
