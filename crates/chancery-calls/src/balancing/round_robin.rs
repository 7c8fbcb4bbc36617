//! `round_robin`: endpoints are used in turn (C-113).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::connect_all::Choose;
use super::context::Context;
use super::endpoint_set::Member;
use super::picker::{Observers, Pick, PickArgs, Picked, Picker};
use super::policy::PolicyConfig;

/// Whose turn it is.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    turns: Turns,
    /// The parts of the last picker.
    parts: Vec<Part>,
}

/// The turn of the next call. All pickers of a policy share it, so that a picker that lives for a moment
/// does not begin with the same endpoint again.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Arc<AtomicUsize>);

/// Some endpoints that follow each other. Pickers share it for as long as nothing in it changes, so that an event
/// of one among many endpoints does not cost a copy of all.
#[derive(Clone, Debug)]
struct Part {
    /// The changes of its members.
    changes: Vec<u64>,
    ready: Arc<[Picked]>,
}

/// The endpoints that are ready, used in turn.
#[derive(Debug)]
struct Round {
    /// The parts that have some, with the number of those in it and in the parts before it.
    parts: Box<[(usize, Arc<[Picked]>)]>,
    /// The number of all.
    count: usize,
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

impl Part {
    fn of(members: &[Member]) -> Self {
        let ready = members.iter().filter_map(|member| member.picked(Observers::new()));
        Self { changes: members.iter().map(Member::changed).collect(), ready: ready.collect() }
    }

    fn is_of(&self, members: &[Member]) -> bool {
        self.changes.iter().copied().eq(members.iter().map(Member::changed))
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
    fn new(parts: &[Part], turns: Turns) -> Self {
        let mut count = 0;
        let parts = parts.iter().filter(|part| !part.ready.is_empty()).map(|part| {
            count += part.ready.len();
            (count, Arc::clone(&part.ready))
        });
        Self { parts: parts.collect(), count, turns }
    }

    fn at(&self, turn: usize) -> Pick {
        self.find(turn).map_or(Pick::Queue, |picked| Pick::To(picked.clone()))
    }

    fn find(&self, turn: usize) -> Option<&Picked> {
        let place = turn.checked_rem(self.count)?;
        // No part is before this one, as none has more than so many; it is this one if all are full.
        let least = place / PART;
        let mut part = self.parts.get(least)?;
        if part.0 <= place {
            let after = &self.parts[least..];
            part = after.get(after.partition_point(|(end, _)| *end <= place))?;
        }
        let (end, ready) = part;
        ready.get(place + ready.len() - end)
    }
}

impl Choose for InTurn {
    type Kept = ();

    fn update(&mut self, _: &PolicyConfig, _: &mut [Member], cx: &mut Context<'_>) {
        self.turns.begin(cx);
    }

    fn picker(&mut self, endpoints: &[Member]) -> Arc<dyn Picker> {
        let mut before = std::mem::take(&mut self.parts).into_iter();
        let parts = endpoints.chunks(PART).map(|members| {
            before.next().filter(|part| part.is_of(members)).unwrap_or_else(|| Part::of(members))
        });
        self.parts = parts.collect();
        Arc::new(Round::new(&self.parts, self.turns.clone()))
    }
}

/// The number of endpoints in a part.
const PART: usize = 32;
