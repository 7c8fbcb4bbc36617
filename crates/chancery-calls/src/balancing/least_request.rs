//! `least_request`: of a few endpoints chosen at random, the one with the fewest calls under way
//! (C-115, gRFC A48). Weights are ignored, as gRPC does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::smallvec;

use super::connect_all::Choose;
use super::context::Context;
use super::endpoint_set::Member;
use super::picker::{CallEnd, CallObserver, Pick, PickArgs, Picked, Picker};
use super::policy::PolicyConfig;
use super::ready_list::{ReadyList, ReadyParts};

/// The number of endpoints that are compared for each call: from 2 to 10.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChoiceCount(u8);

/// The one with the fewest calls.
#[derive(Debug, Default)]
pub(super) struct Fewest {
    choices: ChoiceCount,
    parts: ReadyParts<Candidate>,
}

/// An endpoint that is ready, with its calls.
type Candidate = (Arc<UnderWay>, Picked);

/// The calls under way to an endpoint, from one policy.
#[derive(Debug, Default)]
pub(super) struct UnderWay(AtomicUsize);

/// The endpoints that are ready, of which some are compared for each call.
#[derive(Debug)]
struct Compared {
    ready: ReadyList<Candidate>,
    choices: ChoiceCount,
}

impl ChoiceCount {
    /// Returns a number of choices; `None` if it is less than 2, which would leave nothing to compare. A
    /// greater one than 10 is 10.
    pub fn new(count: u32) -> Option<Self> {
        let count = u8::try_from(count.min(10)).ok()?;
        (count >= 2).then_some(Self(count))
    }
}

impl Default for ChoiceCount {
    fn default() -> Self {
        Self(2)
    }
}

impl CallObserver for UnderWay {
    fn started(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&self, _: &CallEnd<'_>) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn uses_reports(&self) -> bool {
        false
    }
}

impl Picker for Compared {
    /// An endpoint may be chosen twice, as in Envoy: one that hangs still gets a call now and then.
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        let mut roll = || usize::try_from(call.dice.below(self.ready.len() as u64)).unwrap_or(0);
        let chosen = (0..self.choices.0).filter_map(|_| self.ready.get(roll()));
        let fewest = chosen.min_by_key(|(calls, _)| calls.0.load(Ordering::Relaxed));
        fewest.map_or(Pick::Queue, |(_, picked)| Pick::To(picked.clone()))
    }
}

impl Choose for Fewest {
    type Kept = Arc<UnderWay>;

    fn update(&mut self, config: &PolicyConfig, _: &mut [Member<Self::Kept>], _: &mut Context<'_>) {
        if let PolicyConfig::LeastRequest(choices) = config {
            self.choices = *choices;
        }
    }

    fn picker(&mut self, endpoints: &[Member<Self::Kept>]) -> Arc<dyn Picker> {
        let ready = self.parts.list(endpoints, |member| {
            let calls = Arc::clone(&member.kept);
            let picked = member.picked(smallvec![Arc::clone(&calls) as Arc<dyn CallObserver>])?;
            Some((calls, picked))
        });
        Arc::new(Compared { ready, choices: self.choices })
    }
}
