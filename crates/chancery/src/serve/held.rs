//! The log lines about what the gate holds back, and lets pass.
//!
//! Audiences with the same fate for the same reasons are told in one line: what a base layer loses, all
//! groups lose. Not here: the judgement (`gate`).

use std::collections::{BTreeMap, BTreeSet};

use chancery_catalog::Audience;
use chancery_core::printable::Printable;
use tracing::{info, warn};

use super::metrics::LoadMetrics;
use crate::counts_by_file::MOST_TOLD;
use crate::gate::{Held, News, Outcome, Token};

/// Logs and counts what came of judgements. `held` is what is held back now.
pub(super) fn tell(news: &News, held: &[Held], metrics: &LoadMetrics) {
    let held_now: BTreeSet<_> = held.iter().map(|held| (&held.audience, held.token)).collect();
    let is_held = |one: &Held| held_now.contains(&(&one.audience, one.token));
    let mut lines: BTreeMap<(Outcome, String), Vec<&Held>> = BTreeMap::new();
    for (outcome, one) in &news.events {
        // Something that passed at once, or was mended, was not held for anybody to see.
        let is_past = match outcome {
            Outcome::HeldBack | Outcome::Waits => !is_held(one),
            _ => false,
        };
        if !is_past {
            metrics.judged(*outcome, &one.reasons);
            lines.entry((*outcome, one.why())).or_default().push(one);
        }
    }
    metrics.held(held.len());
    let rest: usize = lines.values().skip(MOST_TOLD).map(Vec::len).sum();
    for ((outcome, why), of) in lines.iter().take(MOST_TOLD) {
        tell_one(*outcome, why, of);
    }
    if rest + news.more > 0 {
        warn!("and {} more; `chancery confirm --list` shows what is held back", rest + news.more);
    }
}

fn tell_one(outcome: Outcome, why: &str, of: &[&Held]) {
    let audiences: Vec<&Audience> = of.iter().map(|held| &held.audience).collect();
    let (who, flags) = (names(&audiences), flags(&audiences));
    let token = Token::of_all(of.iter().copied());
    match outcome {
        Outcome::HeldBack if of.iter().all(|held| held.is_of_faults()) => warn!(
            %token,
            "edits wait behind a fault in another file, held back from {who}: {}; {why}. Repair that, or let the \
             edits pass without it with `chancery confirm {flags}`",
            of.first().map(|held| held.waiting()).unwrap_or_default()
        ),
        Outcome::HeldBack => warn!(
            %token,
            "held back from {who}: {why}; what they see stays. If it is meant, let it pass with \
             `chancery confirm {flags}`"
        ),
        Outcome::Waits => warn!(
            %token,
            "a later edit waits too, held back from {who}: {why}; repair that, or let all pass with \
             `chancery confirm {flags}`: {}",
            of.first().map(|held| held.waiting()).unwrap_or_default()
        ),
        Outcome::Warned => {
            warn!("goes live for {who}: {why}; with `enforce` in `gate` it would be held back");
        }
        Outcome::Confirmed => info!("confirmed, and live for {who}: {why}"),
        Outcome::TimeIsOver => {
            warn!("live for {who} after `gate.pass-after`, without a confirmation: {why}");
        }
        Outcome::Mended => info!("no longer held back from {who}"),
        Outcome::Noticed => warn!("live for {who}: {why}; if that is not meant, bring it back"),
    }
}

/// The audiences in one line, the first of them by name.
pub(super) fn names(audiences: &[&Audience]) -> String {
    let named = audiences.iter().take(MOST_NAMED).map(|it| Printable(it).to_string());
    let mut text = named.collect::<Vec<_>>().join(", ");
    match audiences.len().saturating_sub(MOST_NAMED) {
        0 => {}
        1 => text += " and another one",
        more => text += &format!(" and {more} others"),
    }
    text
}

/// The flags of the command that confirms these audiences.
fn flags(audiences: &[&Audience]) -> String {
    let group = audiences.first().and_then(|it| it.group.as_deref());
    match group.filter(|group| audiences.iter().all(|it| it.group.as_deref() == Some(*group))) {
        Some(group) => format!("--group {}", Printable(group)),
        None => "--all".to_owned(),
    }
}

/// The number of audiences that are named in one line.
const MOST_NAMED: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn audience(group: Option<&str>) -> Audience {
        Audience::of(group.map(Into::into), None)
    }

    #[test]
    fn audiences_are_named_with_the_command_that_confirms_them() {
        let all: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"].map(|it| audience(Some(it))).into();
        let all: Vec<&Audience> = all.iter().collect();
        assert_eq!((names(&all[..1]), flags(&all[..1])), ("group `a`".into(), "--group a".into()));
        assert_eq!(
            names(&all),
            "group `a`, group `b`, group `c`, group `d`, group `e` and 2 others"
        );
        assert!(names(&all[..6]).ends_with("`e` and another one"));
        assert_eq!(flags(&all), "--all");
        let base = audience(None);
        assert_eq!((names(&[&base]), flags(&[&base])), (base.to_string(), "--all".into()));
    }
}
