//! Nodes that other rules in `chancery.yaml` would move: their groups before and after, and what they would lose.
//!
//! A node that moves keeps nothing of its old group, so that any smaller number of clusters, listeners or routes
//! is a loss. Not here: which nodes there are (`serve::rules`).

use std::sync::Arc;
use std::time::SystemTime;

use chancery_catalog::Audience;
use chancery_core::Snapshot;
use chancery_core::printable::{Printable, cut};

use super::held::{Held, Token};
use super::loss::{Counts, Listed, Measure, Reason, reasons};
use super::{LoadGate, Outcome, change};
use crate::config::GateMode;

/// Nodes that would move together.
pub(crate) struct Move {
    /// The audience that they belong to.
    pub(crate) from: Audience,
    /// The audience that they would belong to, and what it sees; `None` if they would be refused.
    pub(crate) to: Option<(Audience, Arc<Snapshot>)>,
    /// The state that they see.
    pub(crate) before: Arc<Snapshot>,
    /// The ids of the nodes.
    pub(crate) nodes: Listed,
}

impl Move {
    /// The reason for which it is a loss, if it is one.
    fn reason(&self, percent: u64, may_be_empty: impl Fn(&str) -> bool) -> Option<Reason> {
        let nothing = Arc::default();
        let after = self.to.as_ref().map_or(&nothing, |(_, after)| after);
        let change = change::between(&self.before, after, may_be_empty);
        let mut lost: Vec<String> = reasons(&change, &change.before, percent)
            .iter()
            .filter(|reason| !matches!(reason, Reason::Loss { .. }))
            .map(ToString::to_string)
            .collect();
        let left = |measure: Measure| {
            let (before, after) = (change.before.get(measure), change.after.get(measure));
            let share = if measure == Measure::Endpoints { percent } else { 0 };
            let lost = before.saturating_sub(after).saturating_sub(match measure {
                Measure::Endpoints => change.forgiven,
                _ => 0,
            });
            let is_loss = u128::from(lost) * 100 > u128::from(before) * u128::from(share);
            is_loss.then(|| format!("{after} of {before} {measure} left"))
        };
        lost.extend(Measure::ALL.into_iter().filter_map(left));
        let to = self.to.as_ref().map(|(to, _)| to.to_string());
        let is_loss = to.is_none() || !lost.is_empty();
        is_loss.then(|| Reason::Moved {
            nodes: self.nodes.clone(),
            from: self.from.to_string(),
            to,
            lost: lost.join(", "),
        })
    }
}

impl LoadGate {
    /// Returns true if nodes may move in this way; otherwise that is held back.
    pub(crate) fn lets_move(&self, moves: &[Move]) -> bool {
        let now = (self.0.clock)();
        let mut state = self.lock();
        let state = &mut *state;
        let (mode, percent) = (state.config.loss, state.config.loss_percent.0);
        let may_be_empty = |name: &str| state.config.may_be_empty.matches(name);
        let reasons: Vec<Reason> = match mode {
            GateMode::Off => Vec::new(),
            GateMode::Enforce | GateMode::Warn => {
                moves.iter().filter_map(|it| it.reason(percent, may_be_empty)).collect()
            }
        };
        let known = state.moves.take();
        if reasons.is_empty() {
            known.into_iter().for_each(|held| state.news.add(Outcome::Mended, held));
            return true;
        }
        let first = moves.first().map(|it| it.from.clone()).unwrap_or_default();
        let is_one = moves.iter().all(|it| it.from == first);
        let audience = if is_one { first } else { Audience::default() };
        let token = Token::of_moves(moves.iter().map(|it| (&it.from, it.to.as_ref())));
        let largest = Counts::default();
        let mut held =
            Held { audience, reasons, token, largest, since: now, at: SystemTime::now() };
        let is_same = known.as_ref().filter(|known| known.token == token);
        if let Some(known) = is_same {
            (held.since, held.at) = (known.since, known.at);
        }
        let outcome = if mode == GateMode::Warn {
            Outcome::Warned
        } else if state.confirmed.contains(&(held.audience.clone(), token)) {
            Outcome::Confirmed
        } else if is_same.is_some() && state.is_over(&held, now) {
            Outcome::TimeIsOver
        } else {
            Outcome::HeldBack
        };
        let passes = outcome != Outcome::HeldBack;
        let was_told = is_same.is_some();
        if passes || !was_told {
            state.news.add(outcome, held.clone());
        }
        state.moves = (!passes).then_some(held);
        passes
    }
}

/// The words for nodes that move: `3 nodes (`a`, `b` and another one)`.
pub(super) fn name_nodes(nodes: &Listed) -> String {
    let named = nodes.first.iter().map(|id| format!("`{}`", Printable(cut(id, LONGEST_ID))));
    let named = named.collect::<Vec<_>>().join(", ");
    let plural = if nodes.count == 1 { "" } else { "s" };
    let more = match nodes.count.saturating_sub(nodes.first.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} node{plural} ({named}{more})", nodes.count)
}

/// The bytes of an id that are shown.
const LONGEST_ID: usize = 128;
