//! Certificates that cannot be used in place of ones that can, as reasons to hold a change back.
//!
//! A certificate that has expired by itself holds nothing back, and neither does a new one. Not here: what
//! is wrong with a certificate (`certificates`).

use std::time::SystemTime;

use chancery_core::{Api, Snapshot};
use chancery_proto::Schema;

use super::loss::{Listed, Reason};
use crate::certificates;

/// The reason of a change that replaces certificates by worse ones.
pub(super) fn reason(schema: &Schema, before: &Snapshot, after: &Snapshot) -> Option<Reason> {
    let now = SystemTime::now();
    let mut worse = Listed::default();
    for type_url in before.types() {
        if !matches!(type_url.api(), Api::Sds | Api::Lds | Api::Cds) {
            continue;
        }
        for change in before.set(type_url).diff(after.set(type_url)) {
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
                    worse.add(&format!("{} `{}`: {fault}", type_url.short(), change.name));
                }
            }
        }
    }
    (worse.count > 0).then_some(Reason::Expired(worse))
}
