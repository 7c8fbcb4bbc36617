//! Requests that went to endpoints before a change, and go to a cluster without any after it.
//!
//! A new cluster may come before its endpoints; a cluster that had some loses them by a slip in the name of its set.
//! The same is true of a route that leads to a new cluster, where one with endpoints stood at its place. Not here:
//! which sets are missing (`chancery_catalog`).

use chancery_core::{Api, Link, Resource, ResourceName, Snapshot, TypeUrl};
use chancery_proto::resource::places_of_link;
use chancery_proto::schema::Schema;

/// The snapshots before and after a change.
#[derive(Clone, Copy)]
pub(super) struct Switched<'a> {
    pub(super) schema: &'a Schema,
    pub(super) before: &'a Snapshot,
    pub(super) after: &'a Snapshot,
}

impl Switched<'_> {
    /// Returns true if requests to a cluster that has no endpoints now went to some before.
    pub(super) fn had_endpoints(&self, type_url: &TypeUrl, cluster: &ResourceName) -> bool {
        if type_url.api() != Api::Cds {
            return false;
        }
        match self.before.set(type_url).get(cluster.as_str()) {
            Some(old) => self.has_endpoints(old),
            None => self.takes_over(type_url, cluster),
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

    /// Returns true if a new cluster stands where a resource referred to one with endpoints.
    fn takes_over(&self, type_url: &TypeUrl, cluster: &ResourceName) -> bool {
        let may_refer = |it: &&TypeUrl| matches!(it.api(), Api::Lds | Api::Rds | Api::Vhds);
        self.before.types().filter(may_refer).any(|referring| {
            let changes = self.before.set(referring).diff(self.after.set(referring));
            changes.take(MOST_LOOKED_AT).any(|change| {
                let (Some(old), Some(new)) = (&change.old, &change.new) else { return false };
                let is_it = |link: &&Link| link.type_url == *type_url && link.name == *cluster;
                let link = new.facts().links.iter().find(is_it);
                link.is_some_and(|link| self.is_switched(referring, [old, new], link))
            })
        })
    }

    /// Returns true if a resource refers to something at a place at which it referred to a cluster with endpoints,
    /// and to that at fewer places now.
    fn is_switched(&self, referring: &TypeUrl, [old, new]: [&Resource; 2], to: &Link) -> bool {
        let places = |resource: &Resource, link: &Link| {
            places_of_link(self.schema, referring, resource.body(), link, MOST_PLACES)
        };
        let now = places(new, to);
        let mut of_old = old.facts().links.iter().filter(|link| link.type_url == to.type_url);
        of_old.any(|link| {
            let cluster = self.before.set(&link.type_url).get(link.name.as_str());
            if !cluster.is_some_and(|cluster| self.has_endpoints(cluster)) {
                return false;
            }
            let then = places(old, link);
            then.iter().any(|place| now.contains(place)) && places(new, link).len() < then.len()
        })
    }
}

/// The changed resources of a type that are looked at.
const MOST_LOOKED_AT: usize = 50;
/// The places in one resource that are compared.
const MOST_PLACES: usize = 1_000;
