//! Resources that Envoy does not take together, circles of clusters, and edits that are not applied, as reasons to
//! hold a change back.
//!
//! Those that were there before hold nothing back. Not here: which these are (`chancery_proto::complete`,
//! `chancery_catalog`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_catalog::{Audience, Seen, Unapplied};
use chancery_proto::complete::{Clash, Cycle};
use chancery_sources::LayerChecks;

use super::allowing::Allowing;
use super::loss::{Listed, Reason};
use super::place::{Places, text};
use crate::serve::{UNAPPLIED, code_of_clash, code_of_cycle, concerns, outcome_of};

/// The reasons of a change that makes resources clash, closes a circle, or leaves edits without effect.
pub(super) fn reasons(
    (allowing, checks): (&Allowing, &LayerChecks),
    audience: &Audience,
    before: &Seen,
    after: &Seen,
) -> impl Iterator<Item = Reason> {
    let places = Places::new(before, after);
    let clash = |clash: &Clash| {
        let Clash { type_url, name, other, .. } = clash;
        let (at, of) = (places.leading(type_url, name), places.in_brackets(type_url, other));
        format!("{at}{clash}{of}")
    };
    let is_told = |clash: &Clash| {
        let (code, _) = code_of_clash(clash);
        !allowing.allows_in(code, after, &clash.type_url, &clash.name)
    };
    let clashes = news([before.clashes(), after.clashes()], is_told, clash);
    let cycle = |cycle: &Cycle| {
        let at = places.leading(&cycle.type_url, &cycle.name);
        format!("{at}{cycle}: {}", outcome_of(cycle))
    };
    let is_cycle_told = |cycle: &Cycle| {
        concerns(checks, cycle, audience)
            && !allowing.allows_in(code_of_cycle(cycle), after, &cycle.type_url, &cycle.name)
    };
    let cycles = news([before.cycles(), after.cycles()], is_cycle_told, cycle);
    let edit = |edit: &Unapplied| {
        let place = text(&edit.origin);
        match after.question(edit) {
            none if none.is_empty() => format!("{place}: {edit}"),
            question => format!("{place}: {edit} ({question})"),
        }
    };
    // A removal that is done below too has done its work.
    let matters =
        |edit: &Unapplied| !edit.is_harmless() && !allowing.allows(UNAPPLIED, Some(&edit.origin));
    let unapplied = news([before.unapplied(), after.unapplied()], matters, edit);
    let of_all = clashes.map(Reason::Clash).into_iter().chain(cycles.map(Reason::Cycle));
    of_all.chain(unapplied.map(Reason::Unapplied))
}

/// Those of a list that matter and were not in it before, by their sentences.
fn news<T: ToString>(
    [before, after]: [&Arc<[T]>; 2],
    matters: impl Fn(&T) -> bool,
    told: impl Fn(&T) -> String,
) -> Option<Listed> {
    if after.is_empty() || Arc::ptr_eq(before, after) {
        return None;
    }
    let known: BTreeSet<_> = before.iter().map(ToString::to_string).collect();
    let mut new = Listed::default();
    for one in after.iter().filter(|one| matters(one) && !known.contains(&one.to_string())) {
        new.add_words(|| told(one));
    }
    (new.count > 0).then_some(new)
}
