//! References to secrets and filters of another kind than their place takes, for each audience of a directory.
//!
//! Not here: which kinds places take (`chancery_proto::resource`), and changes of them (the gate).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_catalog::{Catalog, Key, Layer, LayerContent, Origin};
use chancery_core::printable::Printable;
use chancery_core::{Api, Link, Resource, Snapshot, TypeUrl};
use chancery_proto::Schema;
use chancery_proto::resource::{
    WantedSecret, accepted_types, extension_type, secret_kind, wanted_secrets,
};
use chancery_sources::Warning;

use crate::gate::{Mismatch, audience_of, has_secrets, may_refer, mismatches, told};
use crate::serve::{FILTER_TYPE, SECRET_KIND, warning};

/// A finding about a resource: its key, the code, and the sentence.
type Found = (Key, &'static str, String);

/// The parts of resources that were read. Many audiences see the same ones, which are kept so that no other one gets their
/// address.
struct Known<'a> {
    schema: &'a Schema,
    wanted: BTreeMap<usize, (Arc<Resource>, Vec<WantedSecret>)>,
    kinds: BTreeMap<usize, (Arc<Resource>, Option<String>)>,
}

impl Known<'_> {
    /// The references of a resource to secrets of another kind.
    fn mismatches(
        &mut self,
        snapshot: &Snapshot,
        type_url: &TypeUrl,
        resource: &Arc<Resource>,
    ) -> Vec<Mismatch> {
        let (schema, kinds) = (self.schema, &mut self.kinds);
        let read = || (resource.clone(), wanted_secrets(schema, type_url, resource.body()));
        let (_, wanted) = self.wanted.entry(address(resource)).or_insert_with(read);
        mismatches(snapshot, wanted, |of, secret| {
            let read = || (secret.clone(), secret_kind(schema, of, secret.body()));
            kinds.entry(address(secret)).or_insert_with(read).1.clone()
        })
    }
}

fn address(resource: &Arc<Resource>) -> usize {
    Arc::as_ptr(resource) as usize
}

/// All references of another kind, each once, with the place of its resource.
pub(super) fn look(schema: &Schema, catalog: &Catalog) -> Vec<Warning> {
    let (groups, nodes) = (catalog.groups(), catalog.nodes());
    let groups = groups.iter().map(|name| Layer::Group(Arc::clone(name)));
    let nodes = nodes.iter().map(|name| Layer::Node(Arc::clone(name)));
    let layers: Vec<_> = std::iter::once(Layer::Base).chain(groups).chain(nodes).collect();
    let contents: Vec<_> = layers.iter().filter_map(|layer| catalog.content(layer)).collect();
    let mut known = Known { schema, wanted: BTreeMap::new(), kinds: BTreeMap::new() };
    let mut all: BTreeMap<Found, Option<Origin>> = BTreeMap::new();
    for layer in &layers {
        let Some(own) = catalog.content(layer) else { continue };
        if !own.iter().any(|(key, _)| matters(&key.type_url)) {
            continue;
        }
        let Some(seen) = catalog.seen_by(&audience_of(layer)) else { continue };
        for found in of_snapshot(&mut known, &seen.snapshot) {
            let origin = origin(&own, &contents, &found.0);
            all.entry(found).or_insert(origin);
        }
    }
    let all = all.into_iter().map(|((key, code, text), origin)| {
        let message = format!("{} `{}`: {text}", key.type_url.short(), key.name);
        warning(code, (key.type_url, key.name), origin, message)
    });
    all.collect()
}

/// Returns true for types that refer, or to which somebody refers.
fn matters(type_url: &TypeUrl) -> bool {
    may_refer(type_url) || matches!(type_url.api(), Api::Sds | Api::Ecds)
}

/// The place of a resource in its layer, or in the first one that has it.
fn origin(own: &Arc<LayerContent>, all: &[Arc<LayerContent>], key: &Key) -> Option<Origin> {
    let mut layers = std::iter::once(own).chain(all);
    layers.find_map(|content| content.get(key)).map(|entry| entry.origin.clone())
}

fn of_snapshot(known: &mut Known<'_>, snapshot: &Snapshot) -> BTreeSet<Found> {
    let mut found = BTreeSet::new();
    for type_url in snapshot.types().filter(|it| may_refer(it)) {
        for resource in snapshot.set(type_url).iter() {
            let key = || Key { type_url: type_url.clone(), name: resource.name().clone() };
            if has_secrets(resource) {
                let wrong = known.mismatches(snapshot, type_url, resource);
                found.extend(wrong.iter().map(|it| (key(), SECRET_KIND, told(it))));
            }
            let wrong = filters((known.schema, snapshot), type_url, resource);
            found.extend(wrong.map(|text| (key(), FILTER_TYPE, text)));
        }
    }
    found
}

/// The filters of ECDS that a resource asks for and does not take.
fn filters<'a>(
    (schema, snapshot): (&'a Schema, &'a Snapshot),
    type_url: &'a TypeUrl,
    resource: &'a Resource,
) -> impl Iterator<Item = String> + 'a {
    let is_filter = |it: &&Link| it.type_url.api() == Api::Ecds;
    let mut links = resource.facts().links.iter().filter(is_filter).peekable();
    let takes = links.peek().map(|_| accepted_types(schema, type_url, resource.body()));
    links.filter_map(move |link| {
        let filter = snapshot.set(&link.type_url).get_aliased(link.name.as_str())?;
        let of = extension_type(schema, &link.type_url, filter.body())?;
        let mut places = takes.as_ref()?.get(link.name.as_str())?.iter();
        let is_refused = places.any(|takes| !takes.contains(&of));
        is_refused.then(|| {
            format!(
                "ecds `{}` is a `{}`, which is not in the `type_urls` of the filter",
                link.name,
                Printable(&of)
            )
        })
    })
}
