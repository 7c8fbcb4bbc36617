//! Changes that go live and that somebody may miss: domains, routes and addresses that are served no more.
//!
//! Each of them may be meant, so nothing is held back; but a slip in a domain looks like this too. Not here: the
//! removal of so much that it is a loss (`loss`).

use std::collections::{BTreeMap, BTreeSet};

use chancery_catalog::Seen;
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, TypeUrl};
use chancery_proto::resource::{HostRoutes, domains, host_routes};
use chancery_proto::schema::Schema;
use chancery_proto::syntax::closest;

use super::loss::{Listed, Reason};
use super::place::Places;
use super::steps::Steps;

/// Domains that go, and others that come; and routes that go from hosts that stay.
#[derive(Default)]
pub(super) struct Lost {
    lost: BTreeSet<String>,
    new: BTreeSet<String>,
    routes: Vec<LostRoute>,
}

/// A route that goes.
struct LostRoute {
    /// One of the domains of its host.
    domain: String,
    /// Its match in words.
    words: String,
    /// A route that comes to this host.
    new: Option<String>,
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
        if matches!(type_url.api(), Api::Lds | Api::Cds) {
            of_links(type_url, [before, after], places, &mut listed);
        }
    }
    (listed.count > 0).then_some(Reason::Narrowed(listed))
}

/// Lists the domains and routes that route configurations have no more.
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
        for LostRoute { domain, words, new } in &found.routes {
            listed.add_words(|| {
                let new = new.as_ref().map(|it| format!("; {} is new", shown(it)));
                let (at, new) = (places.leading(type_url, &change.name), new.unwrap_or_default());
                let (name, domain, words) = (&change.name, shown(domain), shown(words));
                format!("{at}rds `{name}` has the route {words} of `{domain}` no more{new}")
            });
        }
    }
}

fn lost(schema: &Schema, type_url: &TypeUrl, old: &Resource, new: &Resource) -> Lost {
    let of = |resource: &Resource| domains(schema, type_url, resource.body(), MOST_DOMAINS);
    let (old_routes, new_routes) = (old, new);
    let (old, new) = (of(old), of(new));
    if old.len() >= MOST_DOMAINS || new.len() >= MOST_DOMAINS {
        return Lost::default();
    }
    let routes = |it: &Resource| host_routes(schema, type_url, it.body(), MOST_DOMAINS);
    let routes = lost_routes(&routes(old_routes), &routes(new_routes));
    Lost { lost: &old - &new, new: &new - &old, routes }
}

/// The routes that go from hosts of which a domain stays.
fn lost_routes(old: &[HostRoutes], new: &[HostRoutes]) -> Vec<LostRoute> {
    let mut by_domain = BTreeMap::new();
    for host in new {
        by_domain.extend(host.domains.iter().map(|domain| (domain, host)));
    }
    let mut lost = Vec::new();
    for host in old {
        let mut domains = host.domains.iter();
        let next = domains.find_map(|it| Some((it, *by_domain.get(it)?)));
        let Some((domain, next)) = next else { continue };
        let gone = without(&host.matches, &next.matches);
        let mut come = without(&next.matches, &host.matches).into_iter();
        lost.extend(gone.into_iter().map(|words| LostRoute {
            domain: domain.clone(),
            words: words.clone(),
            new: come.next().cloned(),
        }));
    }
    lost
}

/// Those of a sorted list that another one has not, each as often as it is there.
fn without<'a>(all: &'a [String], others: &[String]) -> Vec<&'a String> {
    let mut others = others.iter().peekable();
    let is_left = |it: &&String| {
        while others.next_if(|other| other < it).is_some() {}
        others.next_if(|other| other == it).is_none()
    };
    all.iter().filter(is_left).collect()
}

/// Lists the resources that have no secret, and no endpoint set, any more: who reads that nothing refers to these is
/// led to their files, and the slip is in another one.
fn of_links(
    type_url: &TypeUrl,
    [before, after]: [&Seen; 2],
    places: Places<'_>,
    listed: &mut Listed,
) {
    let sets = [before, after].map(|seen| seen.snapshot().set(type_url));
    for change in sets[0].diff(sets[1]).take(MOST_LOOKED_AT) {
        let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
        for api in [Api::Sds, Api::Eds] {
            let of = |it: &Resource| {
                let link = it.facts().links.iter().find(|link| link.type_url.api() == api);
                link.map(|link| (link.type_url.clone(), link.name.clone()))
            };
            let (Some((target, name)), None) = (of(old), of(new)) else { continue };
            // A target that goes too is meant.
            if after.snapshot().set(&target).get_aliased(name.as_str()).is_some() {
                listed.add_words(|| {
                    let (at, kind) = (places.leading(type_url, &change.name), type_url.short());
                    let (of, target) = (&change.name, target.short());
                    format!("{at}{kind} `{of}` does not refer to {target} `{name}` any more, nor to another one")
                });
            }
        }
    }
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
