//! Changes that an Envoy which runs refuses or follows to its harm, though one that starts takes what they lead to.
//!
//! A resource keeps its name, and something changes that its clients cannot change in place; or it takes something that
//! another one gives up in the same change, which they apply one after the other by name. All of it was seen of Envoy
//! 1.40. Not here: resources that no Envoy takes together (`clash`).

use std::collections::{BTreeMap, BTreeSet};

use chancery_catalog::Seen;
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Change, Resource, ResourceName, ResourceSet, Snapshot, TypeUrl};
use chancery_proto::resource::{accepted_types, extension_type, refused_in_place, refused_in_turn};
use chancery_proto::schema::Schema;

use super::allowing::Allowing;
use super::loss::{Listed, Reason};
use super::place::Places;
use super::steps::Steps;
use crate::serve::FILTER_TYPE;

/// The reason, if clients that run do not get from one state to the other.
pub(super) fn reason(
    schema: &Schema,
    (known, allowing): (&Steps<Option<String>>, &Allowing),
    before: &Seen,
    after: &Seen,
) -> Option<Reason> {
    let step = Step { schema, allowing, before, after, places: Places::new(before, after) };
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
    allowing: &'a Allowing,
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
        self.in_turn(type_url, &changes, found);
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

    /// Lists the listeners that come at an address of one that goes, and cannot have its socket.
    fn in_turn(&self, type_url: &TypeUrl, changes: &[Change], found: &mut Listed) {
        if type_url.api() != Api::Lds {
            return;
        }
        let mut gone = BTreeMap::new();
        for change in changes.iter().filter(|it| it.new.is_none()) {
            let old = change
                .old
                .iter()
                .flat_map(|it| it.facts().addresses.iter().map(move |of| (of, it)));
            gone.extend(old);
        }
        for change in changes {
            let Some(new) = &change.new else { continue };
            let old = new.facts().addresses.iter().find_map(|address| gone.get(address));
            let why = old
                .and_then(|old| refused_in_turn(self.schema, type_url, [old.body(), new.body()]));
            let Some((old, why)) = old.zip(why) else { continue };
            found.add_words(|| {
                format!(
                    "{} takes an address of `{}`, which goes, and {why}: an Envoy that has that cannot open it again; \
                     give it another address",
                    self.named(type_url, &change.name),
                    old.name()
                )
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
            let [before, after] = self.sets(asks);
            for change in before.diff(after).take(MOST_LOOKED_AT) {
                let Some(resource) = change.new.filter(|it| asks_for_filters(it)) else { continue };
                let types = self.types_asked_for((type_url, self.after), &resource);
                let refused_before =
                    change.old.map(|old| self.refused_before((asks, &old), type_url));
                let is_new = |name: &ResourceName, of: &String| {
                    refused_before.as_ref().is_none_or(|was| was.get(name) != Some(of))
                };
                let types = types.into_iter().filter(|(name, of)| is_new(name, of)).collect();
                self.refuses((type_url, &types), (asks, &resource), &mut told, found);
            }
        }
    }

    /// The filters that a resource asks for, with the types that they have in a state.
    fn types_asked_for(
        &self,
        (type_url, seen): (&TypeUrl, &Seen),
        resource: &Resource,
    ) -> BTreeMap<ResourceName, String> {
        let set = seen.snapshot().set(type_url);
        let links = resource.facts().links.iter().filter(|it| it.type_url == *type_url);
        let types = links.filter_map(|link| {
            let one = set.get(link.name.as_str())?;
            Some((link.name.clone(), extension_type(self.schema, type_url, one.body())?))
        });
        types.collect()
    }

    /// The filters that a resource of the state before asked for and did not take, with their types.
    fn refused_before(
        &self,
        (asks, resource): (&TypeUrl, &Resource),
        type_url: &TypeUrl,
    ) -> BTreeMap<ResourceName, String> {
        let mut types = self.types_asked_for((type_url, self.before), resource);
        if !types.is_empty() {
            let takes = accepted_types(self.schema, asks, resource.body());
            types.retain(|name, of| is_refused(&takes, name, of));
        }
        types
    }

    /// Lists those of these filters, with their types, that a resource asks for and does not take.
    fn refuses(
        &self,
        (type_url, types): (&TypeUrl, &BTreeMap<ResourceName, String>),
        (asks, resource): (&TypeUrl, &Resource),
        told: &mut BTreeSet<ResourceName>,
        found: &mut Listed,
    ) {
        let links = resource.facts().links.iter().filter(|it| it.type_url == *type_url);
        let wanted: BTreeMap<_, _> = links.filter_map(|it| types.get_key_value(&it.name)).collect();
        if wanted.is_empty()
            || self.allowing.allows_inside(FILTER_TYPE, self.after, asks, resource.name())
        {
            return;
        }
        let takes = accepted_types(self.schema, asks, resource.body());
        for (name, of) in wanted {
            if !is_refused(&takes, name, of) || !told.insert(name.clone()) {
                continue;
            }
            found.add_words(|| {
                let (at, kind) = (self.named(type_url, name), asks.short());
                let of = Printable(cut(of, LONGEST));
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

/// Returns true if a filter of this type is refused at a place where it is asked for.
fn is_refused(
    takes: &BTreeMap<String, Vec<BTreeSet<String>>>,
    name: &ResourceName,
    of: &str,
) -> bool {
    let mut places = takes.get(name.as_str()).into_iter().flatten();
    places.any(|takes| !takes.contains(of))
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

/// The bytes of a type that are shown.
const LONGEST: usize = 256;

/// The changed resources of a type that are looked at.
const MOST_LOOKED_AT: usize = 1000;

/// The resources of a state among which those are looked for that ask for a filter.
const MOST_WALKED: usize = 10_000;
