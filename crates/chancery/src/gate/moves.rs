//! Nodes that other rules in `chancery.yaml` would move: their groups before and after, and what they would lose.
//!
//! A node that moves keeps nothing of its old group, so that any smaller number of clusters, listeners or routes
//! is a loss. Not here: which nodes there are (`serve::rules`).

use std::sync::Arc;
use std::time::SystemTime;

use chancery_catalog::Audience;
use chancery_core::Snapshot;
use chancery_core::printable::{Printable, cut};
use chancery_proto::schema::Schema;

use super::change::Between;
use super::held::{Held, Token};
use super::loss::{Change, Counts, Listed, Measure, Reason, reasons};
use super::place::Places;
use super::{LoadGate, Outcome};
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
    fn reason(
        &self,
        schema: &Schema,
        percent: u64,
        may_be_empty: impl Fn(&str) -> bool,
    ) -> Option<Reason> {
        let nothing = Arc::default();
        let after = self.to.as_ref().map_or(&nothing, |(_, after)| after);
        let (before, places) = (&self.before, Places::unknown());
        let change = Between { schema, before, after, places }.read(may_be_empty);
        let lost = losses(&change, percent);
        let to = self.to.as_ref().map(|(to, _)| to.to_string());
        let is_loss = to.is_none() || !lost.is_empty();
        let (nodes, from, lost) = (self.nodes.clone(), self.from.to_string(), lost.join(", "));
        is_loss.then_some(Reason::Moved { nodes, from, to, lost, more: 0 })
    }
}

/// The losses of nodes that move, in words.
fn losses(change: &Change, percent: u64) -> Vec<String> {
    let whole = reasons(change, &change.before, percent, |_| String::new());
    let whole = whole.iter().filter(|reason| !matches!(reason, Reason::Loss { .. }));
    let mut lost: Vec<String> = whole.map(ToString::to_string).collect();
    let is_type_gone = !change.gone.is_empty();
    lost.extend(Measure::ALL.into_iter().filter_map(|measure| {
        let (before, after) = (change.before.get(measure), change.after.get(measure));
        let (forgiven, share) = match measure {
            Measure::Endpoints => (change.forgiven, percent),
            _ => (0, 0),
        };
        let lost = before.saturating_sub(after).saturating_sub(forgiven);
        let is_loss = u128::from(lost) * 100 > u128::from(before) * u128::from(share);
        // The loss of a type says so of all that it has.
        let is_told = after == 0 && is_type_gone;
        (is_loss && !is_told).then(|| format!("{after} of {before} {measure} left"))
    }));
    lost
}

/// The first of the reasons; the last of them says how many more there are.
fn bounded(mut reasons: Vec<Reason>) -> Vec<Reason> {
    let rest = reasons.len().saturating_sub(MOST_MOVES);
    reasons.truncate(MOST_MOVES);
    if let Some(Reason::Moved { more, .. }) = reasons.last_mut() {
        *more = rest;
    }
    reasons
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
                let schema = &self.0.schema;
                bounded(
                    moves
                        .iter()
                        .filter_map(|it| it.reason(schema, percent, may_be_empty))
                        .collect(),
                )
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
        let token = Token::of_moves(moves, &reasons);
        let largest = Counts::default();
        let mut held = Held {
            audience,
            reasons,
            edits: Listed::default(),
            token,
            largest,
            since: now,
            at: SystemTime::now(),
        };
        if let Some(before) = state.moves_before.take().filter(|before| before.is(token)) {
            (held.since, held.at) = (before.0.since, before.0.at);
        }
        let outcome = match state.outcome(&mut held, known.as_ref(), now) {
            // Another edit does not wait for rules, so only other reasons are news.
            Some(Outcome::Waits) => {
                let is_news = known.is_some_and(|known| known.reasons != held.reasons);
                is_news.then_some(Outcome::HeldBack)
            }
            outcome => outcome,
        };
        if let Some(outcome) = outcome {
            state.news.add(outcome, held.clone());
        }
        let passes = outcome.is_some_and(Outcome::is_live);
        state.moves = (!passes).then_some(held);
        passes
    }
}

/// The words for nodes that move: `3 nodes (`a`, `b` and another one)`.
pub(crate) fn name_nodes(nodes: &Listed) -> String {
    let named = nodes.first.iter().map(|id| format!("`{}`", Printable(cut(id, LONGEST_ID))));
    let named = named.collect::<Vec<_>>().join(", ");
    let plural = if nodes.count == 1 { "" } else { "s" };
    let more = match nodes.count.saturating_sub(nodes.first.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{} node{plural} ({named}{more})", nodes.count)
}

/// The moves that are told one by one.
const MOST_MOVES: usize = 5;
/// The bytes of an id that are shown.
const LONGEST_ID: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::loss::Gone;

    fn change(before: [u64; 5], after: [u64; 5], gone: &[(&str, u64)]) -> Change {
        let counts = |all: [u64; 5]| {
            let mut counts = Counts::default();
            Measure::ALL
                .into_iter()
                .zip(all)
                .for_each(|(measure, number)| counts.add(measure, number));
            counts
        };
        let gone = gone.iter().map(|(name, number)| {
            let (type_name, files) = ((*name).to_owned(), String::new());
            Gone { type_name, count: *number, files }
        });
        let gone = gone.collect();
        Change { before: counts(before), after: counts(after), gone, ..Change::default() }
    }

    #[test]
    fn whoever_moves_may_not_lose_one_cluster_and_may_lose_some_endpoints() {
        let told = |change: &Change| losses(change, 50);
        assert_eq!(told(&change([3, 1, 1, 9, 4], [2, 1, 1, 9, 4], &[])), ["2 of 3 clusters left"]);
        assert_eq!(told(&change([3, 1, 1, 9, 4], [3, 2, 1, 9, 2], &[])), [""; 0]);
        assert_eq!(told(&change([0, 0, 0, 0, 4], [0, 0, 0, 0, 1], &[])), ["1 of 4 endpoints left"]);
        let gone = change([3, 1, 1, 9, 4], [3, 0, 1, 9, 4], &[("lds", 1)]);
        assert_eq!(told(&gone), ["0 of 1 resource of type `lds` left"]);
    }

    #[test]
    fn the_token_of_moves_is_that_of_all_that_is_told() {
        let audience = |group: &str| Audience::of(Some(group.into()), None);
        let moved = |count: usize, first: &str| Move {
            from: audience("a"),
            to: Some((audience("b"), Arc::default())),
            before: Arc::default(),
            nodes: Listed { count, first: vec![first.to_owned()] },
        };
        let token = |count, first, lost: &str| {
            let moved = moved(count, first);
            let (from, to) = (moved.from.to_string(), Some("group `b`".to_owned()));
            let (nodes, lost) = (moved.nodes.clone(), lost.to_owned());
            let reason = Reason::Moved { nodes, from, to, lost, more: 0 };
            Token::of_moves(&[moved], &[reason])
        };
        let read = token(2, "n1", "1 of 2 clusters left");
        assert_eq!(read, token(2, "n1", "1 of 2 clusters left"));
        for other in [
            token(500, "n1", "1 of 2 clusters left"),
            token(2, "n2", "1 of 2 clusters left"),
            token(2, "n1", "1 of 9 clusters left"),
        ] {
            assert_ne!(read, other);
        }
    }

    #[test]
    fn of_many_moves_the_first_are_told() {
        let one = |at: usize| Reason::Moved {
            nodes: Listed { count: 2, first: vec![format!("n{at}")] },
            from: format!("group `g{at}`"),
            to: None,
            lost: String::new(),
            more: 0,
        };
        let told = bounded((0..9).map(one).collect());
        assert_eq!(told.len(), MOST_MOVES);
        let last = told.last().unwrap().to_string();
        assert_eq!(
            last,
            "chancery.yaml refuses 2 nodes (`n4` and 1 more) of group `g4`; and 4 moves more"
        );
        assert!(!told[0].to_string().contains("moves more"));
    }
}
