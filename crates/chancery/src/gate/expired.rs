//! Certificates that cannot be used in place of ones that can, or are for other names, as reasons to hold a change back.
//!
//! A certificate that has expired by itself holds nothing back, and neither does a new one. Not here: what
//! is wrong with a certificate (`certificates`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use chancery_catalog::Seen;
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, ResourceName, TypeUrl};
use chancery_proto::Schema;
use chancery_proto::resource::shown_secrets;

use super::Finding;
use super::allowing::Allowing;
use super::loss::{Listed, Reason};
use super::place::Places;
use super::steps::Steps;
use crate::certificates;

/// The reason of a change that replaces certificates by worse ones.
pub(super) fn reason(
    schema: &Schema,
    (known, allowing): (&Steps<Worse>, &Allowing),
    before: &Seen,
    after: &Seen,
) -> Option<Reason> {
    let places = Places::new(before, after);
    let mut worse = Listed::default();
    for type_url in before.snapshot().types().filter(|it| may_have_certificates(it)) {
        let (set, next) = (before.snapshot().set(type_url), after.snapshot().set(type_url));
        for change in set.diff(next).take(MOST_LOOKED_AT) {
            let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
            let find = || Worse::of(schema, type_url, old, new);
            let Some(found) = known.of((Some(old), Some(new)), find) else { break };
            if let Some(names) = &found.names {
                other_hosts(schema, (type_url, &change.name, names), after, places, &mut worse);
            }
            let is_told = |code: &str| !allowing.allows_in(code, after, type_url, &change.name);
            for (_, fault) in found.faults.iter().filter(|(code, _)| is_told(code)) {
                let (at, kind) = (places.leading(type_url, &change.name), type_url.short());
                worse.add_words(|| format!("{at}{kind} `{}`: {fault}", change.name));
            }
        }
    }
    (worse.count > 0).then_some(Reason::Expired(worse))
}

/// The names that a secret had and has.
type Names = [BTreeSet<String>; 2];

/// The ways in which a resource is worse than before.
pub(super) struct Worse {
    faults: Vec<Finding>,
    /// The names of a secret, if some are gone.
    names: Option<Names>,
}

impl Worse {
    fn of(schema: &Schema, type_url: &TypeUrl, old: &Resource, new: &Resource) -> Self {
        let is_secret = type_url.api() == Api::Sds;
        let names = is_secret.then(|| [old, new].map(|it| names(schema, type_url, it)));
        let is_lost = |[old, new]: &Names| {
            !new.is_empty() && !old.iter().all(|name| certificates::covers(new, name))
        };
        Self { faults: made_worse(schema, type_url, old, new), names: names.filter(is_lost) }
    }
}

/// The names of a certificate in lower case, in which they are compared.
fn names(schema: &Schema, type_url: &TypeUrl, resource: &Resource) -> BTreeSet<String> {
    let names = certificates::dns_names(schema, type_url, resource, MOST_NAMES);
    names.into_iter().map(|name| name.to_ascii_lowercase()).collect()
}

/// Adds the names for which a certificate is no more, though listeners show it to whoever asks for them, and no other
/// one of the same chain.
fn other_hosts(
    schema: &Schema,
    (type_url, secret, [old, new]): (&TypeUrl, &ResourceName, &Names),
    after: &Seen,
    places: Places<'_>,
    worse: &mut Listed,
) {
    let secrets = after.snapshot().set(type_url);
    for listeners in after.snapshot().types().filter(|it| it.api() == Api::Lds) {
        let set = after.snapshot().set(listeners);
        let shows = |it: &&Arc<Resource>| {
            let mut links = it.facts().links.iter();
            links.any(|link| link.type_url == *type_url && link.name == *secret)
        };
        for listener in set.iter().take(MOST_WALKED).filter(shows) {
            let body = listener.body();
            let chains = shown_secrets(schema, listeners, body, secret.as_str(), MOST_NAMES);
            let is_lost =
                |name: &String| certificates::covers(old, name) && !certificates::covers(new, name);
            let mut lost = BTreeSet::new();
            for chain in chains {
                let asked = chain.server_names.iter().map(|name| name.to_ascii_lowercase());
                let mut asked: BTreeSet<_> = asked.filter(is_lost).collect();
                let others = chain.secrets.iter().filter(|it| *it != secret.as_str());
                for other in others.take(MOST_SECRETS) {
                    let Some(other) = secrets.get(other).filter(|_| !asked.is_empty()) else {
                        continue;
                    };
                    let has = names(schema, type_url, other);
                    asked.retain(|name| !certificates::covers(&has, name));
                }
                lost.extend(asked);
            }
            for name in &lost {
                worse.add_words(|| {
                    let (at, name) = (places.leading(type_url, secret), Printable(cut(name, LONGEST)));
                    let of = places.named(listeners, listener.name());
                    format!(
                        "{at}sds `{secret}`: the certificate is not for `{name}`, and lds {of} shows it to whoever \
                         asks for that"
                    )
                });
            }
        }
    }
}

fn may_have_certificates(type_url: &TypeUrl) -> bool {
    matches!(type_url.api(), Api::Sds | Api::Lds | Api::Cds)
}

/// The faults for which nobody can use what a resource has now, if what it had could be used.
fn made_worse(schema: &Schema, type_url: &TypeUrl, old: &Resource, new: &Resource) -> Vec<Finding> {
    let now = SystemTime::now();
    let fatal = |resource| {
        let states = certificates::states(schema, type_url, resource);
        let faults = states.iter().filter_map(|state| state.fault(now));
        let fatal =
            faults.filter(certificates::Fault::is_fatal).map(|it| (it.code, it.to_string()));
        (fatal.collect::<Vec<_>>(), states.is_empty())
    };
    let (faults, _) = fatal(new);
    if faults.is_empty() {
        return faults;
    }
    let (had, had_none) = fatal(old);
    if had.is_empty() && !had_none { faults } else { Vec::new() }
}

/// The names of a certificate, and of a listener, that are compared.
const MOST_NAMES: usize = 1_000;
/// The other secrets of a chain that are looked at.
const MOST_SECRETS: usize = 10;
/// The listeners among which those are looked for that show a certificate.
const MOST_WALKED: usize = 10_000;
/// The bytes of a name that are shown.
const LONGEST: usize = 256;
/// The changed resources of a type that are looked at: their certificates have to be read.
const MOST_LOOKED_AT: usize = 1_000;
