//! Certificates that cannot be used in place of ones that can, or are for other names, as reasons to hold a change back.
//!
//! A certificate that has expired by itself holds nothing back, and neither does a new one. Not here: what
//! is wrong with a certificate (`certificates`).

use std::sync::Arc;
use std::time::SystemTime;

use chancery_catalog::Seen;
use chancery_core::printable::{Printable, cut};
use chancery_core::{Api, Resource, ResourceName, TypeUrl};
use chancery_proto::Schema;
use chancery_proto::resource::server_names;

use super::Finding;
use super::allowing::Allowing;
use super::loss::{Listed, Reason};
use super::place::Places;
use super::steps::Steps;
use crate::certificates;

/// The reason of a change that replaces certificates by worse ones.
pub(super) fn reason(
    schema: &Schema,
    (known, allowing): (&Steps<Vec<Finding>>, &Allowing),
    before: &Seen,
    after: &Seen,
) -> Option<Reason> {
    let places = Places::new(before, after);
    let mut worse = Listed::default();
    for type_url in before.snapshot().types().filter(|it| may_have_certificates(it)) {
        let (set, next) = (before.snapshot().set(type_url), after.snapshot().set(type_url));
        for change in set.diff(next).take(MOST_LOOKED_AT) {
            let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
            if type_url.api() == Api::Sds {
                let step = (type_url, &change.name, [&**old, new]);
                other_hosts(schema, step, after, places, &mut worse);
            }
            let find = || made_worse(schema, type_url, old, new);
            let Some(faults) = known.of((Some(old), Some(new)), find) else { break };
            let is_told = |code: &str| !allowing.allows_in(code, after, type_url, &change.name);
            for (_, fault) in faults.iter().filter(|(code, _)| is_told(code)) {
                let (at, kind) = (places.leading(type_url, &change.name), type_url.short());
                worse.add_words(|| format!("{at}{kind} `{}`: {fault}", change.name));
            }
        }
    }
    (worse.count > 0).then_some(Reason::Expired(worse))
}

/// Adds the names for which a certificate is no more, though listeners show it to whoever asks for them.
fn other_hosts(
    schema: &Schema,
    (type_url, secret, [old, new]): (&TypeUrl, &ResourceName, [&Resource; 2]),
    after: &Seen,
    places: Places<'_>,
    worse: &mut Listed,
) {
    let of = |it: &Resource| certificates::dns_names(schema, type_url, it, MOST_NAMES);
    let (old, new) = (of(old), of(new));
    if new.is_empty() || old.iter().all(|name| certificates::covers(&new, name)) {
        return;
    }
    for listeners in after.snapshot().types().filter(|it| it.api() == Api::Lds) {
        let set = after.snapshot().set(listeners);
        let shows = |it: &&Arc<Resource>| {
            let mut links = it.facts().links.iter();
            links.any(|link| link.type_url == *type_url && link.name == *secret)
        };
        for listener in set.iter().take(MOST_WALKED).filter(shows) {
            let body = listener.body();
            let asked = server_names(schema, listeners, body, secret.as_str(), MOST_NAMES);
            let lost =
                |it: &&String| certificates::covers(&old, it) && !certificates::covers(&new, it);
            for name in asked.iter().filter(lost) {
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
/// The listeners among which those are looked for that show a certificate.
const MOST_WALKED: usize = 10_000;
/// The bytes of a name that are shown.
const LONGEST: usize = 256;
/// The changed resources of a type that are looked at: their certificates have to be read.
const MOST_LOOKED_AT: usize = 1_000;
