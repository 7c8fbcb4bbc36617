//! The memory of the gate over a restart: the numbers by which it judges, and since when it holds what.
//!
//! The states themselves are the catalog's. The time is that of the clock on the wall here, because the
//! clock of the gate begins anew with the process. Not here: where it is kept (`crate::state`).

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_catalog::Audience;
use serde::{Deserialize, Serialize};

use super::held::{Held, Token};
use super::loss::{Counts, Listed, Reason};
use super::window::Window;
use super::{LoadGate, State};

/// All that a gate knows of before, as it is kept.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateMemory {
    held: Vec<HeldMemory>,
    windows: Vec<WindowMemory>,
    /// The moves of nodes that are held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moves: Option<HeldMemory>,
    /// The audiences that nodes with open streams belonged to.
    pub(crate) used: BTreeSet<KeptAudience>,
}

/// An audience, as it is kept.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptAudience {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<String>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct HeldMemory {
    audience: KeptAudience,
    largest: Counts,
    token: String,
    /// The seconds since 1970.
    since: u64,
    /// The reasons and the edits, for whoever asks before it can be judged again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<KeptReason>,
    #[serde(default, skip_serializing_if = "Listed::is_nothing")]
    edits: Listed,
}

/// A reason, as it is kept.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct KeptReason {
    kind: String,
    words: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct WindowMemory {
    audience: KeptAudience,
    /// The ends of states, in seconds since 1970, and the most that they had.
    ended: Vec<(u64, Counts)>,
}

/// A state that was held back before the restart. It is judged again, by its numbers too, as soon as no layer of it
/// is held back by faults.
#[derive(Clone, Debug)]
pub(super) struct HeldBefore(pub(super) Held);

impl From<&Reason> for KeptReason {
    fn from(reason: &Reason) -> Self {
        Self { kind: reason.kind().to_owned(), words: reason.to_string() }
    }
}

impl KeptReason {
    /// The reason; `None` if this program has no such kind.
    fn reason(&self) -> Option<Reason> {
        let kind = Reason::KINDS.into_iter().find(|kind| *kind == self.kind)?;
        Some(Reason::Before { kind, words: self.words.clone() })
    }
}

impl From<&Audience> for KeptAudience {
    fn from(audience: &Audience) -> Self {
        let text = |name: &std::sync::Arc<str>| name.to_string();
        Self { group: audience.group.as_ref().map(text), node: audience.node.as_ref().map(text) }
    }
}

impl From<&KeptAudience> for Audience {
    fn from(kept: &KeptAudience) -> Self {
        let KeptAudience { group, node } = kept;
        Self::of(group.as_deref().map(Into::into), node.as_deref().map(Into::into))
    }
}

impl GateMemory {
    /// The nodes with files of their own that had open streams.
    pub(crate) fn used_nodes(&self) -> impl Iterator<Item = Audience> {
        self.used.iter().filter(|used| used.node.is_some()).map(Audience::from)
    }
}

impl LoadGate {
    /// All that it would have to know after a restart. `used` are the audiences of open streams.
    pub(crate) fn memory(&self, used: BTreeSet<KeptAudience>) -> GateMemory {
        let (now, wall) = ((self.0.clock)(), SystemTime::now());
        let state = self.lock();
        let memory = |held: &Held| HeldMemory {
            audience: (&held.audience).into(),
            largest: held.largest,
            token: held.token.to_string(),
            since: seconds(held.at),
            reasons: held.reasons.iter().map(KeptReason::from).collect(),
            edits: held.edits.clone(),
        };
        let moves = state.moves.as_ref().map(memory);
        let held = state.held.values().chain(state.held_before()).map(memory);
        let windows = state.windows.iter().map(|(audience, window)| {
            let ended = window.ends().map(|(until, counts)| {
                let age = now.saturating_sub(until);
                (seconds(wall.checked_sub(age).unwrap_or(UNIX_EPOCH)), counts)
            });
            WindowMemory { audience: audience.into(), ended: ended.collect() }
        });
        GateMemory { held: held.collect(), windows: windows.collect(), moves, used }
    }

    /// Goes on from what was known before a restart.
    pub(crate) fn remember(&self, memory: &GateMemory) {
        let (now, wall) = ((self.0.clock)(), SystemTime::now());
        // A clock that was put back makes nothing older than it is.
        let then = |since: u64| {
            let at = UNIX_EPOCH.checked_add(Duration::from_secs(since)).unwrap_or(wall).min(wall);
            (now.saturating_sub(wall.duration_since(at).unwrap_or_default()), at)
        };
        let mut state = self.lock();
        let before = |kept: &HeldMemory| {
            let (since, at) = then(kept.since);
            let reasons = kept.reasons.iter().filter_map(KeptReason::reason).collect();
            let (token, audience) = (Token::read(&kept.token)?, (&kept.audience).into());
            let (largest, edits) = (kept.largest, kept.edits.clone());
            Some(HeldBefore(Held { audience, reasons, edits, token, largest, since, at }))
        };
        state.moves_before = memory.moves.as_ref().and_then(before);
        for held in memory.held.iter().filter_map(before) {
            state.held_before.insert(held.0.audience.clone(), held);
        }
        for WindowMemory { audience, ended } in &memory.windows {
            let mut window = Window::default();
            ended.iter().for_each(|(until, counts)| window.ended(then(*until).0, *counts));
            state.windows.insert(audience.into(), window);
        }
        state.used_before = memory.used.iter().map(Audience::from).collect();
    }
}

impl HeldBefore {
    /// Returns true if it is the same state that is held back again.
    pub(super) fn is(&self, token: Token) -> bool {
        self.0.token == token
    }
}

impl State {
    /// Those that were held back before a restart and could not be judged since.
    pub(super) fn held_before(&self) -> impl Iterator<Item = &Held> {
        let before = self.held_before.iter();
        before.filter(|(audience, _)| !self.held.contains_key(*audience)).map(|(_, it)| &it.0)
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
