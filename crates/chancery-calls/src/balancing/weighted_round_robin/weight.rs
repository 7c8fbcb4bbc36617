//! The weight of one endpoint. Callers write it at the ends of their calls, and the policy reads it now
//! and then. There is no lock: reports that come at once may each leave a part, and the next one mends
//! that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chancery_core::Time;
use chancery_core::client::load::OrcaReport;

use super::WeightedRoundRobinConfig;
use crate::balancing::picker::{CallEnd, CallObserver};
use crate::balancing::report::LoadWatcher;

/// The weight of an endpoint, with the times of its reports.
#[derive(Debug)]
pub(super) struct Weight {
    /// The bits of an `f64`.
    value: AtomicU64,
    /// When the last report came.
    last_updated: Moment,
    /// When the first one came of those that go on until now.
    non_empty_since: Moment,
}

/// Takes the reports of an endpoint.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) weight: Arc<Weight>,
    pub(super) config: Arc<WeightedRoundRobinConfig>,
}

/// The state of the knowledge of a weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Known {
    Weight(f64),
    /// There are no reports yet, or not for long enough.
    NotYet,
    /// The last report is too old.
    Stale,
}

/// A time that may not have come yet.
#[derive(Debug)]
struct Moment(AtomicU64);

const NEVER: u64 = u64::MAX;

impl Moment {
    fn never() -> Self {
        Self(AtomicU64::new(NEVER))
    }

    fn set(&self, now: Time) {
        self.0.store(nanos(now), Ordering::Relaxed);
    }

    /// Sets it, unless it has come.
    fn set_first(&self, now: Time) {
        // If it has come, it stays.
        let _ = self.0.compare_exchange(NEVER, nanos(now), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }

    /// Returns the nanoseconds since then.
    fn age(&self, now: Time) -> Option<u64> {
        let then = self.0.load(Ordering::Relaxed);
        (then != NEVER).then(|| nanos(now).saturating_sub(then))
    }
}

fn nanos(time: Time) -> u64 {
    // A u64 has nanoseconds for 584 years.
    u64::try_from(time.0.as_nanos()).unwrap_or(NEVER - 1)
}

impl Default for Weight {
    fn default() -> Self {
        let (last_updated, non_empty_since) = (Moment::never(), Moment::never());
        Self { value: AtomicU64::default(), last_updated, non_empty_since }
    }
}

impl Weight {
    /// Takes a report, if it says something of the load.
    fn report(&self, report: &OrcaReport, config: &WeightedRoundRobinConfig, now: Time) {
        let Some(utilization) = config.metrics.of(report) else { return };
        let Some(rate) = report.rps_fractional.filter(|rate| *rate > 0.0) else { return };
        let errors = report.eps.filter(|eps| *eps > 0.0).unwrap_or_default() / rate;
        let weight = rate / (utilization + errors * config.error_utilization_penalty.factor());
        if !(weight.is_finite() && weight > 0.0) {
            return;
        }
        self.value.store(weight.to_bits(), Ordering::Relaxed);
        self.last_updated.set(now);
        self.non_empty_since.set_first(now);
    }

    /// Returns the weight, as far as it can be used now.
    pub(super) fn at(&self, now: Time, config: &WeightedRoundRobinConfig) -> Known {
        let is_younger = |age: u64, period| age < nanos(Time(period));
        let Some(age) = self.last_updated.age(now) else { return Known::NotYet };
        if !is_younger(age, config.weight_expiration_period) {
            self.non_empty_since.clear();
            return Known::Stale;
        }
        let since = self.non_empty_since.age(now);
        if since.is_none_or(|age| is_younger(age, config.blackout_period)) {
            return Known::NotYet;
        }
        Known::Weight(f64::from_bits(self.value.load(Ordering::Relaxed)))
    }

    /// Forgets all reports.
    pub(super) fn forget(&self) {
        self.non_empty_since.clear();
        self.last_updated.clear();
    }
}

impl CallObserver for Reports {
    fn ended(&self, end: &CallEnd<'_>) {
        if let Some(report) = end.report {
            self.weight.report(report, &self.config, end.now);
        }
    }
}

impl LoadWatcher for Reports {
    fn reported(&self, report: &OrcaReport, now: Time) {
        self.weight.report(report, &self.config, now);
    }
}
