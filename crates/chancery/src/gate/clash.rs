//! Resources that Envoy does not take together, and edits that are not applied, as reasons to hold a change
//! back.
//!
//! Those that were there before hold nothing back. Not here: which these are (`chancery_proto::complete`,
//! `chancery_catalog`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_catalog::Seen;

use super::loss::{Listed, Reason};

/// The reasons of a change that makes resources clash, or leaves edits without effect.
pub(super) fn reasons([before, after]: [&Seen; 2]) -> impl Iterator<Item = Reason> {
    let clashes = news([before.clashes(), after.clashes()]).map(Reason::Clash);
    let unapplied = news([before.unapplied(), after.unapplied()]).map(Reason::Unapplied);
    clashes.into_iter().chain(unapplied)
}

/// Those of a list that were not in it before, by their sentences.
fn news<T: ToString>([before, after]: [&Arc<[T]>; 2]) -> Option<Listed> {
    if after.is_empty() || Arc::ptr_eq(before, after) {
        return None;
    }
    let known: BTreeSet<_> = before.iter().map(ToString::to_string).collect();
    let mut new = Listed::default();
    for sentence in after.iter().map(ToString::to_string).filter(|it| !known.contains(it)) {
        new.add(&sentence);
    }
    (new.count > 0).then_some(new)
}
