//! `round_robin`: endpoints are used in turn (C-113).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::connect_all::Choose;
use super::context::Context;
use super::endpoint_set::Member;
use super::picker::{Observers, Pick, PickArgs, Picked, Picker};
use super::policy::PolicyConfig;
use super::ready_list::{ReadyList, ReadyParts};

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    turns: Turns,
    parts: ReadyParts<Picked>,
}

/// The turn of the next call. All pickers of a policy share it, so that a picker that lives for a moment
/// does not begin with the same endpoint again.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<AtomicUsize>);

/// The endpoints that are ready, used in turn.
#[derive(Debug)]
struct Round {
    ready: ReadyList<Picked>,
    turns: Turns,
}

impl Turns {
    pub(super) fn next(&self) -> usize {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the turn that comes next, and leaves it to a call.
    pub(super) fn coming(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Begins anywhere: clients do not all begin with the same endpoint.
    pub(super) fn begin(&self, cx: &mut Context<'_>) {
        let turn = usize::try_from(cx.dice().below(1 << 31)).unwrap_or_default();
        self.0.store(turn, Ordering::Relaxed);
    }
}

impl Picker for Round {
    fn pick(&self, _: &mut PickArgs<'_>) -> Pick {
        self.at(self.turns.next())
    }

    fn preview(&self, _: &mut PickArgs<'_>) -> Pick {
        self.at(self.turns.coming())
    }
}

impl Round {
    fn at(&self, turn: usize) -> Pick {
        let place = turn.checked_rem(self.ready.len());
        let ready = place.and_then(|place| self.ready.get(place));
        ready.map_or(Pick::Queue, |picked| Pick::To(picked.clone()))
    }
}

impl Choose for InTurn {
    type Kept = ();

    fn update(&mut self, _: &PolicyConfig, _: &mut [Member], cx: &mut Context<'_>) {
        self.turns.begin(cx);
    }

    fn picker(&mut self, endpoints: &[Member]) -> Arc<dyn Picker> {
        let ready = self.parts.list(endpoints, |member| member.picked(Observers::new()));
        Arc::new(Round { ready, turns: self.turns.clone() })
    }
}
