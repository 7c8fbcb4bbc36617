//! The demand of an audience: what its streams want together.
//!
//! A source that has everything need not know it. One that asks others, or makes resources when they
//! are wanted, does: it commits or publishes what the demand names. The store keeps exact names for
//! it, which cost memory for each stream; so it does that only for a program that
//! [follows the demand](crate::Store::follow_demand).
//!
//! Not here: which changes wake a stream. For that a filter of a few bits for each name is enough.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::TypeUrl;
use chancery_core::server::{DemandEdit, NamesEdit};

/// The resources that the streams of an audience want, by type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand(BTreeMap<TypeUrl, TypeDemand>);

/// The resources that the streams of an audience want of one type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeDemand {
    /// True if a stream wants all resources of the type.
    pub wildcard: bool,
    /// The names that streams want, in the spelling of the clients.
    pub names: BTreeSet<Arc<str>>,
}

/// The demands of all streams of an audience, counted.
#[derive(Debug, Default)]
pub(super) struct DemandCounts(BTreeMap<TypeUrl, TypeCounts>);

/// The number of streams that want something of one type.
#[derive(Debug, Default)]
struct TypeCounts {
    wildcards: usize,
    names: BTreeMap<Arc<str>, usize>,
}

impl Demand {
    /// The demand for one type, if there is any.
    pub fn get(&self, type_url: &TypeUrl) -> Option<&TypeDemand> {
        self.0.get(type_url)
    }

    /// The types that are wanted, in sending order, with what is wanted of each.
    pub fn iter(&self) -> impl Iterator<Item = (&TypeUrl, &TypeDemand)> {
        self.0.iter()
    }

    /// Returns true if nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes over an edit of one stream. Returns what came and what went.
    pub(super) fn apply(&mut self, edit: &DemandEdit) -> (Self, Self) {
        let known = self.0.entry(edit.type_url.clone()).or_default();
        let before = known.wildcard;
        known.wildcard = edit.wildcard;
        let (added, removed) = match &edit.names {
            NamesEdit::All(names) => {
                let names: BTreeSet<Arc<str>> = names.iter().cloned().collect();
                let added = names.difference(&known.names).cloned().collect();
                let removed = known.names.difference(&names).cloned().collect();
                known.names = names;
                (added, removed)
            }
            NamesEdit::Change { added, removed } => {
                let gone = removed.iter().filter(|name| known.names.remove(*name));
                let gone = gone.cloned().collect();
                let come = added.iter().filter(|name| known.names.insert(Arc::clone(name)));
                (come.cloned().collect(), gone)
            }
        };
        if known.is_empty() {
            self.0.remove(&edit.type_url);
        }
        let come = TypeDemand { wildcard: edit.wildcard && !before, names: added };
        let gone = TypeDemand { wildcard: before && !edit.wildcard, names: removed };
        (Self::of(&edit.type_url, come), Self::of(&edit.type_url, gone))
    }

    /// The demand for one type.
    fn of(type_url: &TypeUrl, demand: TypeDemand) -> Self {
        let some = (!demand.is_empty()).then(|| (type_url.clone(), demand));
        Self(some.into_iter().collect())
    }
}

impl TypeDemand {
    fn is_empty(&self) -> bool {
        !self.wildcard && self.names.is_empty()
    }
}

impl DemandCounts {
    /// The demand of all streams together.
    pub(super) fn demand(&self) -> Demand {
        let types = self.0.iter().map(|(type_url, counts)| {
            let names = counts.names.keys().cloned().collect();
            (type_url.clone(), TypeDemand { wildcard: counts.wildcards > 0, names })
        });
        Demand(types.collect())
    }

    /// Counts what one stream wants from now on. Returns true if nobody else did.
    pub(super) fn add(&mut self, come: &Demand) -> bool {
        let mut is_new = false;
        for (type_url, demand) in come.iter() {
            let counts = self.0.entry(type_url.clone()).or_default();
            if demand.wildcard {
                is_new |= counts.wildcards == 0;
                counts.wildcards += 1;
            }
            for name in &demand.names {
                let count = counts.names.entry(Arc::clone(name)).or_default();
                is_new |= *count == 0;
                *count += 1;
            }
        }
        is_new
    }

    /// Counts what one stream does not want any more. Returns true if nobody else does.
    pub(super) fn remove(&mut self, gone: &Demand) -> bool {
        let mut is_gone = false;
        for (type_url, demand) in gone.iter() {
            let Some(counts) = self.0.get_mut(type_url) else { continue };
            if demand.wildcard {
                counts.wildcards = counts.wildcards.saturating_sub(1);
                is_gone |= counts.wildcards == 0;
            }
            for name in &demand.names {
                let Some(count) = counts.names.get_mut(name) else { continue };
                *count = count.saturating_sub(1);
                if *count == 0 {
                    counts.names.remove(name);
                    is_gone = true;
                }
            }
            if counts.wildcards == 0 && counts.names.is_empty() {
                self.0.remove(type_url);
            }
        }
        is_gone
    }
}
