//! Routes that ask for a subset of endpoints which is empty after a change, as reasons to hold it back.
//!
//! A route counts that found endpoints before, at the same place in the same resource: a new one may come before its
//! endpoints. Not here: how subsets are chosen (`chancery_proto::resource`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::Seen;
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, ResourceName, Snapshot, TypeUrl};
use chancery_proto::resource::{
    LbMetadata, NoSubset, SubsetRequest, Subsets, lb_metadata, subset_requests, subsets,
};
use chancery_proto::schema::Schema;

use super::loss::Listed;
use super::place::Places;

/// Adds the routes whose requests find no endpoint any more.
pub(super) fn add(schema: &Schema, [before, after]: [&Seen; 2], listed: &mut Listed) {
    let places = Places::new(before, after);
    let [old, new] = [before, after].map(|seen| State::new(schema, seen.snapshot()));
    let clusters = changed_clusters(&old, &new);
    let types = new.snapshot.types().filter(|it| has_routes(it));
    for type_url in types {
        let (set, next) = (old.snapshot.set(type_url), new.snapshot.set(type_url));
        let edited = set.diff(next).take(MOST_LOOKED_AT);
        let edited = edited.filter_map(|it| Some((it.old?, it.new?)));
        let mut looked_at: Vec<_> = edited.collect();
        if !clusters.is_empty() && next.len() <= MOST_WALKED {
            let refers = |it: &&Arc<Resource>| {
                let mut links = it.facts().links.iter();
                links.any(|link| link.type_url.api() == Api::Cds && clusters.contains(&link.name))
            };
            let referring = next.iter().filter(refers).take(MOST_LOOKED_AT);
            looked_at.extend(
                referring.filter_map(|it| {
                    Some((Arc::clone(set.get(it.name().as_str())?), Arc::clone(it)))
                }),
            );
        }
        for (then, now) in &looked_at {
            let [then, wanted] =
                [then, now].map(|it| subset_requests(schema, type_url, it.body(), MOST_REQUESTS));
            for request in &wanted {
                let Some(why) = new.lacks(request) else { continue };
                let was = then.iter().find(|it| it.path == request.path);
                if was.is_some_and(|was| old.finds(was)) {
                    listed.add_words(|| sentence(places, (type_url, now.name()), request, why));
                }
            }
        }
    }
}

fn sentence(
    places: Places<'_>,
    (type_url, name): (&TypeUrl, &ResourceName),
    request: &SubsetRequest,
    why: NoSubset,
) -> String {
    let (at, kind, path) = (places.leading(type_url, name), type_url.short(), &request.path);
    let (cluster, words) = (&request.cluster, Printable(cut(&request.words, LONGEST)));
    match why {
        NoSubset::Endpoint => format!(
            "{at}{kind} `{name}`: {path}: no endpoint of cds `{cluster}` has the metadata {words}, so that \
             requests get 503"
        ),
        NoSubset::Selector => {
            let keys =
                request.wanted.keys().map(|key| format!("`{}`", Printable(cut(key, LONGEST))));
            let keys = keys.collect::<Vec<_>>().join(", ");
            format!(
                "{at}{kind} `{name}`: {path}: no element of `subset_selectors` of cds `{cluster}` has the keys \
                 {keys}, so that requests get 503"
            )
        }
    }
}

/// A snapshot, and what was found in it so far.
struct State<'a> {
    schema: &'a Schema,
    snapshot: &'a Snapshot,
    /// The subsets of clusters with their endpoints; `None` where a request may find one.
    known: RefCell<BTreeMap<ResourceName, Option<Arc<Found>>>>,
}

type Found = (Subsets, Vec<LbMetadata>);

impl<'a> State<'a> {
    fn new(schema: &'a Schema, snapshot: &'a Snapshot) -> Self {
        Self { schema, snapshot, known: RefCell::default() }
    }

    /// The reason for which a request finds no endpoint.
    fn lacks(&self, request: &SubsetRequest) -> Option<NoSubset> {
        let found = self.cluster(&request.cluster)?;
        found.0.lacks(&request.wanted, &found.1)
    }

    /// Returns true for a request that finds endpoints, or may, at a cluster that is there.
    fn finds(&self, request: &SubsetRequest) -> bool {
        let mut types = self.snapshot.types().filter(|it| it.api() == Api::Cds);
        let is_there =
            types.any(|it| self.snapshot.set(it).get(request.cluster.as_str()).is_some());
        is_there && self.lacks(request).is_none()
    }

    fn cluster(&self, name: &ResourceName) -> Option<Arc<Found>> {
        if let Some(known) = self.known.borrow().get(name) {
            return known.clone();
        }
        let found = self.look(name).map(Arc::new);
        self.known.borrow_mut().insert(name.clone(), found.clone());
        found
    }

    fn look(&self, name: &ResourceName) -> Option<Found> {
        let mut types = self.snapshot.types().filter(|it| it.api() == Api::Cds);
        let (type_url, cluster) =
            types.find_map(|it| Some((it, self.snapshot.set(it).get(name.as_str())?)))?;
        let found = subsets(self.schema, type_url, cluster.body())?;
        let set = cluster.facts().links.iter().find(|link| link.type_url.api() == Api::Eds);
        let endpoints = match set {
            Some(link) => {
                let set = self.snapshot.set(&link.type_url).get_aliased(link.name.as_str())?;
                lb_metadata(self.schema, &link.type_url, set.body())?
            }
            None => found.endpoints.clone(),
        };
        // A set without any endpoints is another reason.
        (!endpoints.is_empty()).then_some((found, endpoints))
    }
}

/// The clusters that a change may leave with other subsets.
fn changed_clusters(old: &State<'_>, new: &State<'_>) -> BTreeSet<ResourceName> {
    let mut changed = BTreeSet::new();
    let types: Vec<_> = new.snapshot.types().collect();
    for type_url in types.iter().filter(|it| it.api() == Api::Cds) {
        let edited = old.snapshot.set(type_url).diff(new.snapshot.set(type_url));
        let edited = edited.take(MOST_LOOKED_AT).filter(|it| it.old.is_some() && it.new.is_some());
        changed.extend(edited.map(|it| it.name));
    }
    let mut sets = BTreeSet::new();
    for type_url in types.iter().filter(|it| it.api() == Api::Eds) {
        let edited = old.snapshot.set(type_url).diff(new.snapshot.set(type_url));
        for edit in edited.take(MOST_LOOKED_AT) {
            if let (Some(then), Some(now)) = (&edit.old, &edit.new)
                && loses_metadata(old.schema, type_url, [then, now])
            {
                sets.insert(edit.name);
            }
        }
    }
    if sets.is_empty() {
        return changed;
    }
    for type_url in types.iter().filter(|it| it.api() == Api::Cds) {
        let clusters = new.snapshot.set(type_url);
        let refers = |it: &&Arc<Resource>| {
            let mut links = it.facts().links.iter();
            links.any(|link| link.type_url.api() == Api::Eds && sets.contains(&link.name))
        };
        if clusters.len() <= MOST_WALKED {
            changed.extend(clusters.iter().filter(refers).map(|it| it.name().clone()));
        }
    }
    changed
}

/// Returns true if no endpoint of a set has some metadata any more.
fn loses_metadata(schema: &Schema, type_url: &TypeUrl, [old, new]: [&Resource; 2]) -> bool {
    if !old.body().windows(LB.len()).any(|window| window == LB) {
        return false;
    }
    let of = |it: &Resource| lb_metadata(schema, type_url, it.body());
    let (Some(old), Some(new)) = (of(old), of(new)) else { return false };
    let new: BTreeSet<_> = new.into_iter().collect();
    old.iter().any(|metadata| !new.contains(metadata))
}

fn has_routes(type_url: &TypeUrl) -> bool {
    matches!(type_url.api(), Api::Lds | Api::Rds | Api::Vhds)
}

/// The part of metadata by which endpoints are chosen.
const LB: &[u8] = b"envoy.lb";
/// The resources of a type that are looked at.
const MOST_LOOKED_AT: usize = 50;
/// The resources among which references to a changed one are looked for.
const MOST_WALKED: usize = 10_000;
/// The routes of a resource that are looked at.
const MOST_REQUESTS: usize = 1_000;
/// The bytes of metadata that are shown.
const LONGEST: usize = 256;
