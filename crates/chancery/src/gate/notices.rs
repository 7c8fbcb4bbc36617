//! Changes that go live and that somebody may miss: domains and addresses that are served no more.
//!
//! Each of them may be meant, so nothing is held back; but a slip in a domain looks like this too. Not here: the
//! removal of so much that it is a loss (`loss`).

use std::collections::BTreeSet;

use chancery_catalog::Seen;
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, TypeUrl};
use chancery_proto::resource::domains;
use chancery_proto::schema::Schema;
use chancery_proto::syntax::closest;

use super::loss::{Listed, Reason};
use super::place::Places;
use super::steps::Steps;

/// Domains that go, and others that come.
#[derive(Default)]
pub(super) struct Lost {
    lost: BTreeSet<String>,
    new: BTreeSet<String>,
}

/// The notice, if domains or addresses go.
pub(super) fn notice(
    schema: &Schema,
    known: &Steps<Lost>,
    before: &Seen,
    after: &Seen,
) -> Option<Reason> {
    let places = Places::new(before, after);
    let mut listed = Listed::default();
    for type_url in before.snapshot().types() {
        match type_url.api() {
            Api::Rds => of_routes((schema, known), type_url, [before, after], places, &mut listed),
            Api::Lds => of_listeners(type_url, [before, after], places, &mut listed),
            _ => {}
        }
    }
    (listed.count > 0).then_some(Reason::Narrowed(listed))
}

/// Lists the domains that route configurations have no more.
fn of_routes(
    (schema, known): (&Schema, &Steps<Lost>),
    type_url: &TypeUrl,
    [before, after]: [&Seen; 2],
    places: Places<'_>,
    listed: &mut Listed,
) {
    let sets = [before, after].map(|seen| seen.snapshot().set(type_url));
    for change in sets[0].diff(sets[1]).take(MOST_LOOKED_AT) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        let find = || lost(schema, type_url, old, new);
        let Some(found) = known.of((Some(old), Some(new)), find) else { return };
        for domain in &found.lost {
            listed.add_words(|| {
                let near = closest(domain, found.new.iter().map(String::as_str));
                let near = near.map(|it| format!("; `{}` is new", shown(it))).unwrap_or_default();
                let at = places.leading(type_url, &change.name);
                let (name, domain) = (&change.name, shown(domain));
                format!("{at}rds `{name}` has the domain `{domain}` no more{near}")
            });
        }
    }
}

fn lost(schema: &Schema, type_url: &TypeUrl, old: &Resource, new: &Resource) -> Lost {
    let of = |resource: &Resource| domains(schema, type_url, resource.body(), MOST_DOMAINS);
    let (old, new) = (of(old), of(new));
    if old.len() >= MOST_DOMAINS || new.len() >= MOST_DOMAINS {
        return Lost::default();
    }
    Lost { lost: &old - &new, new: &new - &old }
}

/// Lists the addresses that no listener has any more.
fn of_listeners(
    type_url: &TypeUrl,
    [before, after]: [&Seen; 2],
    places: Places<'_>,
    listed: &mut Listed,
) {
    let sets = [before, after].map(|seen| seen.snapshot().set(type_url));
    let changes: Vec<_> = sets[0].diff(sets[1]).take(MOST_LOOKED_AT).collect();
    let new = changes.iter().filter_map(|it| it.new.as_ref());
    let new: BTreeSet<_> = new.flat_map(|it| it.facts().addresses.iter()).collect();
    for change in &changes {
        let old = change.old.iter().flat_map(|it| it.facts().addresses.iter());
        for address in old.filter(|address| !new.contains(address)) {
            listed.add_words(|| {
                let (named, address) = (places.in_brackets(type_url, &change.name), shown(address));
                format!(
                    "no listener has the address {address} any more, as `{}`{named} had",
                    change.name
                )
            });
        }
    }
}

fn shown(text: &str) -> String {
    Printable(cut(text, LONGEST)).to_string()
}

/// The resources of one audience that are looked at.
const MOST_LOOKED_AT: usize = 50;
/// The domains of a route configuration that are compared; one with more is not looked into.
const MOST_DOMAINS: usize = 10_000;
/// The bytes of a domain or an address that are shown.
const LONGEST: usize = 256;
