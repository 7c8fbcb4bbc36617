//! Near misses: the name that may be meant by one that does not exist.
//!
//! Names are compared by the number of their edits, with a bound. In a large set those are compared
//! that begin alike, and the number of all comparisons has a bound too, so that a thousand missing
//! names cost no more than a few.

use std::collections::BTreeSet;

use chancery_core::{ResourceName, Snapshot, TypeUrl};
use chancery_proto::syntax::{closest, did_you_mean, did_you_mean_this};

use super::TargetKey;
use super::usage::Usage;

/// The name that may be meant by one that does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// The name of a resource of the same type.
    pub name: ResourceName,
    /// True if nothing refers to that resource.
    pub is_unused: bool,
}

impl NearMiss {
    /// The near miss of a name as a question, if there is one.
    pub(crate) fn question(near: Option<&Self>, type_url: &TypeUrl, of: &ResourceName) -> String {
        let of = of.as_str();
        match near {
            Some(Self { name, is_unused: true }) => did_you_mean_this(of, name.as_str(), |name| {
                format!("{} `{name}`, to which nothing refers", type_url.short())
            }),
            Some(Self { name, .. }) => did_you_mean(of, name.as_str()),
            None => String::new(),
        }
    }
}

/// The search for near misses. Names that are missing themselves are none: what a snapshot has of
/// them was generated.
pub(crate) struct NearNames<'a> {
    missing: &'a BTreeSet<TargetKey<'a>>,
    usage: &'a Usage,
    /// The number of names that may still be compared.
    left: usize,
}

impl<'a> NearNames<'a> {
    pub(crate) fn new(missing: &'a BTreeSet<TargetKey<'a>>, usage: &'a Usage) -> Self {
        Self { missing, usage, left: MOST_OF_ALL }
    }

    /// The near miss of a missing name. One that nothing refers to comes before others.
    pub(crate) fn of(
        &mut self,
        snapshot: &Snapshot,
        type_url: &TypeUrl,
        name: &ResourceName,
    ) -> Option<NearMiss> {
        let set = snapshot.set(type_url);
        let unused = self.usage.unused_of(type_url).take(MOST_OF_ONE.min(self.left));
        let unused = unused.map(ResourceName::as_str).filter(|name| set.get(name).is_some());
        let unused: Vec<&str> = self.counted(unused.collect());
        if let Some(near) = closest(name.as_str(), unused) {
            return Some(NearMiss { name: ResourceName::parse(near).ok()?, is_unused: true });
        }
        let others = candidates(snapshot, type_url, name.as_str(), MOST_OF_ONE.min(self.left));
        let others: Vec<&str> = self.counted(others);
        let is_there = |other: &&str| {
            ResourceName::parse(other)
                .is_ok_and(|other| !self.missing.contains(&(type_url.short(), &other)))
        };
        let near = closest(name.as_str(), others.into_iter().filter(is_there))?;
        Some(NearMiss { name: ResourceName::parse(near).ok()?, is_unused: false })
    }

    /// Counts names that are about to be compared.
    fn counted<'n>(&mut self, names: Vec<&'n str>) -> Vec<&'n str> {
        self.left = self.left.saturating_sub(names.len());
        names
    }
}

/// The names of a type to compare with one: all of them, or of many those that begin alike.
fn candidates<'s>(
    snapshot: &'s Snapshot,
    type_url: &TypeUrl,
    name: &'s str,
    most: usize,
) -> Vec<&'s str> {
    let set = snapshot.set(type_url);
    if set.len() <= most {
        return set.iter().map(|resource| resource.name().as_str()).collect();
    }
    let mut names = Vec::new();
    for (part, of) in [(3, 4), (1, 2), (1, 4)] {
        let prefix = &name[..name.floor_char_boundary(name.len() * part / of)];
        let alike = set.with_prefix(prefix).map(|resource| resource.name().as_str());
        names.extend(alike.take(most / 3));
    }
    names
}

/// The number of names that are compared with one.
const MOST_OF_ONE: usize = 1000;
/// The number of names that are compared in all.
const MOST_OF_ALL: usize = 20_000;
