//! Changes that an Envoy which runs refuses or follows to its harm, though one that starts takes what they lead to.
//!
//! A resource keeps its name, and something changes that its clients cannot change in place; or it takes something that
//! another one gives up in the same change, which they apply one after the other by name. All of it was seen of Envoy
//! 1.40. Not here: resources that no Envoy takes together (`clash`).

use std::collections::{BTreeMap, BTreeSet};

use chancery_catalog::Seen;
use chancery_core::{Api, Resource, ResourceName, ResourceSet, Snapshot, TypeUrl};
use chancery_proto::resource::{accepted_types, extension_type, refused_in_place};
use chancery_proto::schema::Schema;

use super::loss::{Listed, Reason};
use super::place::Places;
use super::steps::Steps;

/// The reason, if clients that run do not get from one state to the other.
pub(super) fn reason(
    schema: &Schema,
    known: &Steps<Option<String>>,
    before: &Seen,
    after: &Seen,
) -> Option<Reason> {
    let step = Step { schema, before, after, places: Places::new(before, after) };
    let mut found = Listed::default();
    for type_url in before.snapshot().types() {
        match type_url.api() {
            Api::Sds => step.forms(known, type_url, &mut found),
            Api::Lds => {
                step.forms(known, type_url, &mut found);
                step.taken(type_url, &mut found);
            }
            Api::Srds => step.taken(type_url, &mut found),
            _ => {}
        }
    }
    for type_url in after.snapshot().types().filter(|it| it.api() == Api::Ecds) {
        step.filters(type_url, &mut found);
    }
    (found.count > 0).then_some(Reason::InPlace(found))
}

struct Step<'a> {
    schema: &'a Schema,
    before: &'a Seen,
    after: &'a Seen,
    places: Places<'a>,
}

impl Step<'_> {
    /// Lists the resources whose new form does not follow on the old one.
    fn forms(&self, known: &Steps<Option<String>>, type_url: &TypeUrl, found: &mut Listed) {
        let [before, after] = self.sets(type_url);
        for change in before.diff(after).take(MOST_LOOKED_AT) {
            let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
            let find = || refused_in_place(self.schema, type_url, [old.body(), new.body()]);
            let Some(refused) = known.of((Some(old), Some(new)), find) else { break };
            if let Some(why) = &*refused {
                found.add_words(|| format!("{}: {why}", self.named(type_url, &change.name)));
            }
        }
    }

    /// Lists the resources that take the address or key which one after them has and gives up.
    fn taken(&self, type_url: &TypeUrl, found: &mut Listed) {
        let [before, after] = self.sets(type_url);
        let changes: Vec<_> = before.diff(after).take(MOST_LOOKED_AT).collect();
        let mut given_up = BTreeMap::new();
        for change in changes.iter().filter(|it| it.new.is_some()) {
            let addresses = change.old.iter().flat_map(|it| it.facts().addresses.iter());
            given_up.extend(addresses.map(|address| (address, &change.name)));
        }
        for change in &changes {
            let Some(new) = &change.new else { continue };
            let had = change.old.as_ref().map_or(&[][..], |it| &it.facts().addresses);
            let mut taken = new.facts().addresses.iter().filter(|it| !had.contains(it));
            // Two that have it still are a clash.
            let is_given = |of: &ResourceName, address| {
                let now = after.get(of.as_str());
                now.is_some_and(|it| !it.facts().addresses.contains(address))
            };
            let of = taken.find_map(|address| {
                let of = given_up.get(address).filter(|of| ***of > change.name);
                of.filter(|of| is_given(of, address))
            });
            let Some(of) = of else { continue };
            let kind = type_url.api();
            found.add_words(|| {
                let (one, other) = (self.named(type_url, &change.name), self.named(type_url, of));
                sentence(kind, &one, &other)
            });
        }
    }

    /// Lists the filters that come by ECDS and are of another type than those who ask for them take.
    fn filters(&self, type_url: &TypeUrl, found: &mut Listed) {
        let [before, after] = self.sets(type_url);
        let mut looked_at = BTreeMap::new();
        for change in before.diff(after).take(MOST_LOOKED_AT) {
            let Some(new) = &change.new else { continue };
            let of = |it: &Resource| extension_type(self.schema, type_url, it.body());
            let Some(of_new) = of(new) else { continue };
            if change.old.as_ref().is_none_or(|old| of(old).as_ref() != Some(&of_new)) {
                looked_at.insert(change.name, of_new);
            }
        }
        let states = [self.before, self.after].map(|seen| &**seen.snapshot());
        let is_walked = |it: &&Snapshot| !looked_at.is_empty() && it.len() <= MOST_WALKED;
        let walked = states.into_iter().filter(is_walked);
        let mut told = BTreeSet::new();
        for (asks, resource) in walked.flat_map(asking) {
            self.refuses((type_url, &looked_at), (asks, resource), &mut told, found);
        }
        // One that asks for what is there already, and takes it no more.
        for asks in self.after.snapshot().types().filter(|it| may_ask(it)) {
            let [before, after_asks] = self.sets(asks);
            for change in before.diff(after_asks).take(MOST_LOOKED_AT) {
                let Some(resource) = change.new.filter(|it| asks_for_filters(it)) else { continue };
                let targets = resource.facts().links.iter().filter(|it| it.type_url == *type_url);
                let types = targets.filter_map(|link| {
                    let one = after.get(link.name.as_str())?;
                    Some((link.name.clone(), extension_type(self.schema, type_url, one.body())?))
                });
                let types = types.collect();
                self.refuses((type_url, &types), (asks, &resource), &mut told, found);
            }
        }
    }

    /// Lists those of these filters, with their types, that a resource asks for and does not take.
    fn refuses(
        &self,
        (type_url, types): (&TypeUrl, &BTreeMap<ResourceName, String>),
        (asks, resource): (&TypeUrl, &Resource),
        told: &mut BTreeSet<ResourceName>,
        found: &mut Listed,
    ) {
        for link in resource.facts().links.iter().filter(|it| it.type_url == *type_url) {
            let Some(of) = types.get(&link.name) else { continue };
            let takes = accepted_types(self.schema, asks, resource.body(), link.name.as_str());
            if takes.iter().all(|takes| takes.contains(of)) || !told.insert(link.name.clone()) {
                continue;
            }
            found.add_words(|| {
                let (at, kind) = (self.named(type_url, &link.name), asks.short());
                format!(
                    "{at} is a `{of}`, which {kind} `{}` does not have in `type_urls`: an Envoy that has it refuses \
                     the filter; add the type there in a change before",
                    resource.name()
                )
            });
        }
    }

    /// The place and the name of a resource.
    fn named(&self, type_url: &TypeUrl, name: &ResourceName) -> String {
        format!("{}{} `{name}`", self.places.leading(type_url, name), type_url.short())
    }

    fn sets(&self, type_url: &TypeUrl) -> [&ResourceSet; 2] {
        [self.before, self.after].map(|seen| &**seen.snapshot().set(type_url))
    }
}

/// The sentence about a listener or scope that takes the address or key of another one.
fn sentence(kind: Api, one: &str, other: &str) -> String {
    match kind {
        Api::Srds => format!(
            "{one} takes the key that {other} gives up: an Envoy that has both then finds neither by it; make two \
             changes of it"
        ),
        _ => format!(
            "{one} takes an address that {other} gives up: an Envoy that has both refuses that, because the one that \
             takes it comes first; make two changes of it"
        ),
    }
}

/// The resources that ask for filters of ECDS.
fn asking(snapshot: &Snapshot) -> impl Iterator<Item = (&TypeUrl, &Resource)> {
    let types = snapshot.types().filter(|it| may_ask(it));
    let all = types.flat_map(|of| snapshot.set(of).iter().map(move |it| (of, &**it)));
    all.filter(|(_, it)| asks_for_filters(it))
}

fn may_ask(type_url: &TypeUrl) -> bool {
    matches!(type_url.api(), Api::Lds | Api::Cds)
}

fn asks_for_filters(resource: &Resource) -> bool {
    resource.facts().links.iter().any(|it| it.type_url.api() == Api::Ecds)
}

/// The changed resources of a type that are looked at.
const MOST_LOOKED_AT: usize = 1000;

/// The resources of a state among which those are looked for that ask for a filter.
const MOST_WALKED: usize = 10_000;
