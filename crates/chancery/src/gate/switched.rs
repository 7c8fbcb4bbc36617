//! Requests that went to endpoints before a change, and go to a cluster without any after it.
//!
//! A new cluster may come before its endpoints; a cluster that had some loses them by a slip in the name of its set.
//! The same is true of a route that leads to a new cluster, where one with endpoints stood at its place. Not here:
//! which sets are missing (`chancery_catalog`).

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::{Api, Link, Resource, ResourceName, Snapshot, TypeUrl};
use chancery_proto::resource::link_places;
use chancery_proto::schema::Schema;

use super::steps::Steps;

/// The places at which resources refer to clusters, by resource.
pub(super) type ClusterPlaces = Steps<PlacesOf>;

/// The places at which one resource refers to clusters.
#[derive(Default)]
pub(super) struct PlacesOf {
    clusters: BTreeMap<String, Vec<Link>>,
    counts: BTreeMap<ResourceName, usize>,
}

impl PlacesOf {
    fn new(all: Vec<(String, Link)>) -> Self {
        let mut found = Self::default();
        for (place, link) in all {
            *found.counts.entry(link.name.clone()).or_default() += 1;
            found.clusters.entry(place).or_default().push(link);
        }
        found
    }

    fn count(&self, cluster: &ResourceName) -> usize {
        self.counts.get(cluster).copied().unwrap_or_default()
    }
}

/// The snapshots before and after a change.
pub(super) struct Switched<'a> {
    schema: &'a Schema,
    known: &'a ClusterPlaces,
    before: &'a Snapshot,
    after: &'a Snapshot,
    /// The clusters that stand where resources referred to others with endpoints, once they were looked for.
    taking_over: OnceCell<BTreeSet<ResourceName>>,
}

impl<'a> Switched<'a> {
    pub(super) fn new(
        (schema, known): (&'a Schema, &'a ClusterPlaces),
        [before, after]: [&'a Snapshot; 2],
    ) -> Self {
        Self { schema, known, before, after, taking_over: OnceCell::new() }
    }

    /// Returns true if requests to a cluster that has no endpoints now went to some before.
    pub(super) fn had_endpoints(&self, type_url: &TypeUrl, cluster: &ResourceName) -> bool {
        if type_url.api() != Api::Cds {
            return false;
        }
        match self.before.set(type_url).get(cluster.as_str()) {
            Some(old) => self.has_endpoints(old),
            None => self.taking_over.get_or_init(|| self.taking_over()).contains(cluster),
        }
    }

    /// Returns true if a cluster had endpoints, in it or in a set.
    fn has_endpoints(&self, cluster: &Resource) -> bool {
        let is_full = |link: &Link| {
            let set = self.before.set(&link.type_url).get_aliased(link.name.as_str());
            link.type_url.api() == Api::Eds && set.is_some_and(|set| set.facts().parts > 0)
        };
        cluster.facts().parts > 0 || cluster.facts().links.iter().any(is_full)
    }

    /// The new clusters that stand where a resource referred to one with endpoints.
    fn taking_over(&self) -> BTreeSet<ResourceName> {
        let mut found = BTreeSet::new();
        let may_refer = |it: &&TypeUrl| matches!(it.api(), Api::Lds | Api::Rds | Api::Vhds);
        for referring in self.before.types().filter(may_refer) {
            let changes = self.before.set(referring).diff(self.after.set(referring));
            for change in changes.take(MOST_LOOKED_AT) {
                let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
                if !new.facts().links.iter().any(|link| self.is_new(link)) {
                    continue;
                }
                let of = |it: &Arc<Resource>| {
                    let (schema, body) = (self.schema, it.body());
                    let all = || link_places(schema, referring, body, Api::Cds, MOST_PLACES);
                    self.known.of_one(it, || PlacesOf::new(all()))
                };
                let (Some(then), Some(now)) = (of(old), of(new)) else { return found };
                self.add_switched([&then, &now], &mut found);
            }
        }
        found
    }

    fn is_new(&self, link: &Link) -> bool {
        link.type_url.api() == Api::Cds
            && self.before.set(&link.type_url).get(link.name.as_str()).is_none()
    }

    /// Adds the new clusters to which a resource refers at a place at which it referred to a cluster with endpoints,
    /// and to that at fewer places now.
    fn add_switched(&self, [then, now]: [&PlacesOf; 2], found: &mut BTreeSet<ResourceName>) {
        let is_left = |link: &Link| {
            let cluster = self.before.set(&link.type_url).get(link.name.as_str());
            now.count(&link.name) < then.count(&link.name)
                && cluster.is_some_and(|cluster| self.has_endpoints(cluster))
        };
        for (place, links) in &now.clusters {
            let new = links.iter().filter(|link| self.is_new(link));
            let new: Vec<_> = new.map(|link| link.name.clone()).collect();
            let mut old = then.clusters.get(place).into_iter().flatten();
            if !new.is_empty() && old.any(is_left) {
                found.extend(new);
            }
        }
    }
}

/// The changed resources of a type that are looked at.
const MOST_LOOKED_AT: usize = 50;
/// The places in one resource that are compared.
const MOST_PLACES: usize = 10_000;
