//! Sums of calls, and of what was reported and not taken.

use crate::load::{EndpointStats, LocalityStats};

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadCounts {
    /// Calls that began.
    pub issued: u64,
    /// Calls that ended well.
    pub succeeded: u64,
    /// Calls that ended otherwise.
    pub failed: u64,
    /// Calls that the configuration dropped.
    pub dropped: u64,
}

/// The parts of reports that were not taken. Everything beside them was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Parts with a name that is too long.
    pub names: u64,
    /// Parts with a number that no client counts in one report.
    pub numbers: u64,
    /// Rows, metrics and categories that are too many.
    pub rows: u64,
    /// Rows for which the client may hold no more of the server's memory.
    pub memory: u64,
}

/// The largest number of calls that one part of a report may count: a million a second for eleven days.
pub(super) const MOST_CALLS: u64 = 1_000_000_000_000;

impl LoadCounts {
    /// The counts of a report on one locality; `None` if a number is more than a client counts, as a
    /// negative one is.
    pub(super) fn of(stats: &LocalityStats) -> Option<Self> {
        let LocalityStats { issued, succeeded, errored, in_progress, .. } = *stats;
        Self::of_numbers([issued, succeeded, errored, in_progress])
    }

    /// The same of a report on one endpoint.
    pub(super) fn of_endpoint(stats: &EndpointStats) -> Option<Self> {
        let EndpointStats { issued, succeeded, errored, in_progress, .. } = *stats;
        Self::of_numbers([issued, succeeded, errored, in_progress])
    }

    fn of_numbers(numbers: [u64; 4]) -> Option<Self> {
        let [issued, succeeded, failed, _] = numbers;
        let counts = Self { issued, succeeded, failed, dropped: 0 };
        numbers.iter().all(|number| *number <= MOST_CALLS).then_some(counts)
    }

    /// Adds others.
    pub fn add(&mut self, other: Self) {
        *self = self.with(other, u64::saturating_add);
    }

    /// These without others.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }

    /// The part of these that is as large as `part` of `whole`, rounded down.
    pub(super) fn share(self, part: u128, whole: u128) -> Self {
        let of = |number: u64| {
            let share = u128::from(number).saturating_mul(part) / whole.max(1);
            u64::try_from(share).unwrap_or(number).min(number)
        };
        Self {
            issued: of(self.issued),
            succeeded: of(self.succeeded),
            failed: of(self.failed),
            dropped: of(self.dropped),
        }
    }

    fn with(self, other: Self, op: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            issued: op(self.issued, other.issued),
            succeeded: op(self.succeeded, other.succeeded),
            failed: op(self.failed, other.failed),
            dropped: op(self.dropped, other.dropped),
        }
    }

    /// Returns true if nothing was counted.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl LeftOut {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.names += other.names;
        self.numbers += other.numbers;
        self.rows += other.rows;
        self.memory += other.memory;
    }

    /// Returns true if all was taken.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
