//! The memory of the gate over a restart: the numbers by which it judges, and since when it holds what.
//!
//! The states themselves are the catalog's. The time is that of the clock on the wall here, because the
//! clock of the gate begins anew with the process. Not here: where it is kept (`crate::state`).

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_catalog::Audience;
use serde::{Deserialize, Serialize};

use super::LoadGate;
use super::held::{Held, Token};
use super::loss::Counts;
use super::window::Window;

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
}

#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
struct WindowMemory {
    audience: KeptAudience,
    /// The ends of states, in seconds since 1970, and the most that they had.
    ended: Vec<(u64, Counts)>,
}

/// A state that was held back before the restart. It is judged again, by these numbers too.
#[derive(Clone, Debug)]
pub(super) struct HeldBefore {
    pub(super) largest: Counts,
    /// The token in digits.
    pub(super) token: String,
    pub(super) since: Duration,
    pub(super) at: SystemTime,
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
        };
        let moves = state.moves.as_ref().map(memory);
        let held = state.held.values().map(memory);
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
        let before = |HeldMemory { largest, token, since, .. }: &HeldMemory| {
            let (since, at) = then(*since);
            HeldBefore { largest: *largest, token: token.clone(), since, at }
        };
        state.moves_before = memory.moves.as_ref().map(before);
        for held in &memory.held {
            state.held_before.insert((&held.audience).into(), before(held));
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
        self.token == token.to_string()
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
