//! Certificates that cannot be used in place of ones that can, as reasons to hold a change back.
//!
//! A certificate that has expired by itself holds nothing back, and neither does a new one. Not here: what
//! is wrong with a certificate (`certificates`).

use std::time::SystemTime;

use chancery_catalog::Seen;
use chancery_core::Api;
use chancery_proto::Schema;

use super::loss::{Listed, Reason};
use super::place::Places;
use crate::certificates;

/// The reason of a change that replaces certificates by worse ones.
pub(super) fn reason(schema: &Schema, before: &Seen, after: &Seen) -> Option<Reason> {
    let places = Places::new(before, after);
    let (before, after) = (before.snapshot(), after.snapshot());
    let now = SystemTime::now();
    let mut worse = Listed::default();
    for type_url in before.types() {
        if !matches!(type_url.api(), Api::Sds | Api::Lds | Api::Cds) {
            continue;
        }
        for change in before.set(type_url).diff(after.set(type_url)).take(MOST_LOOKED_AT) {
            let (Some(old), Some(new)) = (&change.old, &change.new) else { continue };
            let fatal = |resource| {
                let states = certificates::states(schema, type_url, resource);
                let faults = states.iter().filter_map(|state| state.fault(now));
                let fatal = faults.filter(certificates::Fault::is_fatal).map(|it| it.to_string());
                (fatal.collect::<Vec<_>>(), states.is_empty())
            };
            let (faults, _) = fatal(new);
            if faults.is_empty() {
                continue;
            }
            let (had, had_none) = fatal(old);
            if had.is_empty() && !had_none {
                for fault in faults {
                    let (at, kind) = (places.leading(type_url, &change.name), type_url.short());
                    worse.add_words(|| format!("{at}{kind} `{}`: {fault}", change.name));
                }
            }
        }
    }
    (worse.count > 0).then_some(Reason::Expired(worse))
}

/// The changed resources of a type that are looked at: their certificates have to be read.
const MOST_LOOKED_AT: usize = 1_000;
