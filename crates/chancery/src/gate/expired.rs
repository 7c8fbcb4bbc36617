//! Certificates that cannot be used in place of ones that can, as reasons to hold a change back.
//!
//! A certificate that has expired by itself holds nothing back, and neither does a new one. Not here: what
//! is wrong with a certificate (`certificates`).

use std::time::SystemTime;

use chancery_catalog::Seen;
use chancery_core::{Api, Resource, TypeUrl};
use chancery_proto::Schema;

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

/// The changed resources of a type that are looked at: their certificates have to be read.
const MOST_LOOKED_AT: usize = 1_000;
