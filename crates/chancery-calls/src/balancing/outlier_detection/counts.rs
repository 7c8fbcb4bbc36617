//! The calls of each endpoint, counted by whoever ends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::balancing::picker::{CallEnd, CallObserver, Pick, PickArgs, Picker};

/// The calls of an endpoint since the last look.
#[derive(Debug, Default)]
pub(super) struct Counts {
    successes: AtomicU32,
    failures: AtomicU32,
}

/// The calls of an endpoint in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Calls {
    pub(super) successes: u32,
    pub(super) failures: u32,
}

/// The counts of each subchannel, by its slot.
pub(super) type Counters = Vec<Option<Arc<Counts>>>;

/// Has the calls counted that another picker sends.
#[derive(Debug)]
pub(super) struct Counting {
    pub(super) inner: Arc<dyn Picker>,
    pub(super) counters: Arc<Counters>,
}

impl Counts {
    /// Takes what was counted.
    pub(super) fn take(&self) -> Calls {
        let take = |count: &AtomicU32| count.swap(0, Ordering::Relaxed);
        Calls { successes: take(&self.successes), failures: take(&self.failures) }
    }
}

impl Calls {
    pub(super) fn total(self) -> u32 {
        self.successes.saturating_add(self.failures)
    }

    /// Returns the part of the calls that have succeeded. There must be some.
    pub(super) fn success_rate(self) -> f64 {
        let (successes, failures) = (f64::from(self.successes), f64::from(self.failures));
        successes / (successes + failures)
    }
}

impl CallObserver for Counts {
    fn ended(&self, end: &CallEnd<'_>) {
        let count = if end.succeeded { &self.successes } else { &self.failures };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn uses_reports(&self) -> bool {
        false
    }
}

impl Picker for Counting {
    fn pick(&self, call: &mut PickArgs<'_>) -> Pick {
        let mut pick = self.inner.pick(call);
        if let Pick::To(picked) = &mut pick
            && let Some(Some(counts)) = self.counters.get(picked.subchannel.slot())
        {
            picked.observers.push(Arc::clone(counts) as Arc<dyn CallObserver>);
        }
        pick
    }

    fn preview(&self, call: &mut PickArgs<'_>) -> Pick {
        self.inner.preview(call)
    }
}
