//! Routes that ask for a subset of endpoints which is empty after a change, as reasons to hold it back.
//!
//! A request counts that found endpoints before, or that takes the place of one that did: a new one may come before its
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
use super::steps::Steps;

/// The findings about single resources, while one commit is judged.
#[derive(Default)]
pub(super) struct Known {
    requests: Steps<Vec<SubsetRequest>>,
    /// The subsets of clusters.
    clusters: Steps<Option<Subsets>>,
    /// The metadata of endpoint sets.
    endpoints: Steps<Option<Vec<LbMetadata>>>,
}

impl Known {
    /// Forgets all, when a commit was judged.
    pub(super) fn clear(&self) {
        self.requests.clear();
        self.clusters.clear();
        self.endpoints.clear();
    }
}

/// Adds the routes whose requests find no endpoint any more.
pub(super) fn add(
    (schema, known): (&Schema, &Known),
    [before, after]: [&Seen; 2],
    listed: &mut Listed,
) {
    let places = Places::new(before, after);
    let [old, new] = [before, after].map(|seen| State::new((schema, known), seen.snapshot()));
    let clusters = changed_clusters(&old, &new);
    for type_url in new.snapshot.types().filter(|it| has_routes(it)) {
        for (then, now) in looked_at(type_url, [&old, &new], &clusters).values() {
            for (request, why) in lost_in(type_url, [&old, &new], [then, now]) {
                listed.add_words(|| sentence(places, (type_url, now.name()), &request, why));
            }
        }
    }
}

/// The resources of a type that may lose endpoints, in both forms: those that are edited, and those that refer to
/// one of these clusters.
fn looked_at(
    type_url: &TypeUrl,
    [old, new]: [&State<'_>; 2],
    clusters: &BTreeSet<ResourceName>,
) -> BTreeMap<ResourceName, (Arc<Resource>, Arc<Resource>)> {
    let (set, next) = (old.snapshot.set(type_url), new.snapshot.set(type_url));
    let edited = set.diff(next).take(MOST_LOOKED_AT);
    let edited = edited.filter_map(|it| Some((it.name, (it.old?, it.new?))));
    let mut found: BTreeMap<_, _> = edited.filter(|(_, (_, now))| has_lb(now)).collect();
    if clusters.is_empty() || next.len() > MOST_WALKED {
        return found;
    }
    let refers = |it: &&Arc<Resource>| {
        let mut links = it.facts().links.iter();
        links.any(|link| link.type_url.api() == Api::Cds && clusters.contains(&link.name))
    };
    for now in next.iter().filter(|it| refers(it) && has_lb(it)).take(MOST_LOOKED_AT) {
        if let Some(then) = set.get(now.name().as_str()) {
            found.insert(now.name().clone(), (Arc::clone(then), Arc::clone(now)));
        }
    }
    found
}

/// The requests of a resource that find no endpoint, where they did before, or stand in the place of others that did
/// and are there no more.
fn lost_in(
    type_url: &TypeUrl,
    [old, new]: [&State<'_>; 2],
    [then, now]: [&Arc<Resource>; 2],
) -> Vec<(SubsetRequest, NoSubset)> {
    let Some(now) = new.requests(type_url, now) else { return Vec::new() };
    let lacking = now.iter().filter_map(|it| Some((it, new.lacks(it)?)));
    let mut lacking = lacking.peekable();
    if lacking.peek().is_none() {
        return Vec::new();
    }
    let Some(then) = old.requests(type_url, then) else { return Vec::new() };
    let [counts_then, counts_now] = [&then, &now].map(|it| counts(it));
    let is_fewer = |was: &SubsetRequest| counts_now.get(&key(was)) < counts_then.get(&key(was));
    let is_lost = |request: &SubsetRequest| {
        if counts_then.contains_key(&key(request)) {
            return old.finds(request);
        }
        let was = then.iter().find(|it| it.path == request.path);
        was.is_some_and(|was| is_fewer(was) && old.finds(was))
    };
    let lost = lacking.filter(|(request, _)| is_lost(request));
    lost.map(|(request, why)| (request.clone(), why)).collect()
}

type RequestKey<'a> = (&'a ResourceName, &'a LbMetadata);

fn key(request: &SubsetRequest) -> RequestKey<'_> {
    (&request.cluster, &request.wanted)
}

fn counts(requests: &[SubsetRequest]) -> BTreeMap<RequestKey<'_>, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(key(request)).or_default() += 1;
    }
    counts
}

fn sentence(
    places: Places<'_>,
    (type_url, name): (&TypeUrl, &ResourceName),
    request: &SubsetRequest,
    why: NoSubset,
) -> String {
    let (at, kind) = (places.leading(type_url, name), type_url.short());
    let path = Printable(cut(&request.path, LONGEST));
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
    known: &'a Known,
    snapshot: &'a Snapshot,
    /// The subsets of clusters with their endpoints; `None` where a request may find one.
    found: RefCell<BTreeMap<ResourceName, Option<Arc<Found>>>>,
}

type Found = (Subsets, Vec<LbMetadata>);

impl<'a> State<'a> {
    fn new((schema, known): (&'a Schema, &'a Known), snapshot: &'a Snapshot) -> Self {
        Self { schema, known, snapshot, found: RefCell::default() }
    }

    /// The requests of a resource; `None` if too many were looked at.
    fn requests(
        &self,
        type_url: &TypeUrl,
        resource: &Arc<Resource>,
    ) -> Option<Arc<Vec<SubsetRequest>>> {
        let find = || subset_requests(self.schema, type_url, resource.body(), MOST_REQUESTS);
        self.known.requests.of_one(resource, find)
    }

    /// The subsets of a cluster; `None` if it has none, or too many were looked at.
    fn subsets(&self, type_url: &TypeUrl, cluster: &Arc<Resource>) -> Option<Subsets> {
        let find = || subsets(self.schema, type_url, cluster.body());
        (*self.known.clusters.of_one(cluster, find)?).clone()
    }

    /// The metadata of the endpoints in a set.
    fn endpoints(&self, type_url: &TypeUrl, set: &Arc<Resource>) -> Option<Vec<LbMetadata>> {
        let find = || lb_metadata(self.schema, type_url, set.body());
        (*self.known.endpoints.of_one(set, find)?).clone()
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
        if let Some(known) = self.found.borrow().get(name) {
            return known.clone();
        }
        let found = self.look(name).map(Arc::new);
        self.found.borrow_mut().insert(name.clone(), found.clone());
        found
    }

    fn look(&self, name: &ResourceName) -> Option<Found> {
        let mut types = self.snapshot.types().filter(|it| it.api() == Api::Cds);
        let (type_url, cluster) =
            types.find_map(|it| Some((it, self.snapshot.set(it).get(name.as_str())?)))?;
        let found = self.subsets(type_url, cluster)?;
        let set = cluster.facts().links.iter().find(|link| link.type_url.api() == Api::Eds);
        let endpoints = match set {
            Some(link) => {
                let set = self.snapshot.set(&link.type_url).get_aliased(link.name.as_str())?;
                self.endpoints(&link.type_url, set)?
            }
            None => found.endpoints.clone(),
        };
        // A set without any endpoints is another reason.
        (!endpoints.is_empty()).then_some((found, endpoints))
    }
}

/// The clusters with subsets that a change may leave with others, or with other endpoints.
fn changed_clusters(old: &State<'_>, new: &State<'_>) -> BTreeSet<ResourceName> {
    let mut changed = BTreeSet::new();
    let types: Vec<_> = new.snapshot.types().collect();
    for type_url in types.iter().filter(|it| it.api() == Api::Cds) {
        let edited = old.snapshot.set(type_url).diff(new.snapshot.set(type_url));
        let edited = edited.take(MOST_LOOKED_AT).filter(|it| match (&it.old, &it.new) {
            (Some(_), Some(now)) => new.subsets(type_url, now).is_some(),
            _ => false,
        });
        changed.extend(edited.map(|it| it.name));
    }
    let mut sets = BTreeSet::new();
    for type_url in types.iter().filter(|it| it.api() == Api::Eds) {
        let edited = old.snapshot.set(type_url).diff(new.snapshot.set(type_url));
        for edit in edited.take(MOST_LOOKED_AT) {
            if let (Some(then), Some(now)) = (&edit.old, &edit.new)
                && loses_metadata(type_url, (old, then), (new, now))
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
            let referring = clusters.iter().filter(refers);
            let with_subsets = referring.filter(|it| new.subsets(type_url, it).is_some());
            changed.extend(with_subsets.map(|it| it.name().clone()));
        }
    }
    changed
}

/// Returns true if no endpoint of a set has some metadata any more.
fn loses_metadata(
    type_url: &TypeUrl,
    (old, then): (&State<'_>, &Arc<Resource>),
    (new, now): (&State<'_>, &Arc<Resource>),
) -> bool {
    if !has_lb(then) {
        return false;
    }
    let of = |state: &State<'_>, it| state.endpoints(type_url, it);
    let (Some(then), Some(now)) = (of(old, then), of(new, now)) else { return false };
    let now: BTreeSet<_> = now.into_iter().collect();
    then.iter().any(|metadata| !now.contains(metadata))
}

/// Returns true if metadata by which endpoints are chosen may be in a resource: most have none.
fn has_lb(resource: &Resource) -> bool {
    resource.body().windows(LB.len()).any(|window| window == LB)
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
