//! The configuration of outlier detection, as it was checked (C-149).

use std::time::Duration;

/// A number of hundredths, from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

/// When endpoints are taken out for their errors, and for how long. By default none are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    /// The time between two looks at what the calls of endpoints came to.
    pub interval: Duration,
    /// The time for which an endpoint is taken out, times the number of times that it was.
    pub base_ejection_time: Duration,
    /// The longest time, unless the base is longer.
    pub max_ejection_time: Duration,
    /// The part of the endpoints that may be out. If it is not 0, one may be out of however few.
    pub max_ejection_percent: Percent,
    /// If there are some: the endpoints with fewer successes than the others.
    pub success_rate: Option<SuccessRate>,
    /// If there are some: the endpoints with too many failures.
    pub failure_percentage: Option<FailurePercentage>,
}

/// An endpoint is an outlier if its rate of successes is lower than the mean of all by some standard
/// deviations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuccessRate {
    /// The number of standard deviations, in thousandths.
    pub stdev_factor: u32,
    /// The chance that an outlier is taken out.
    pub enforcement: Percent,
    /// So many endpoints must have enough calls.
    pub minimum_hosts: u32,
    /// So many calls in an interval are enough.
    pub request_volume: u32,
}

/// An endpoint is an outlier if more of its calls fail than this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailurePercentage {
    /// The part of its calls.
    pub threshold: Percent,
    /// The chance that an outlier is taken out.
    pub enforcement: Percent,
    /// So many endpoints must have enough calls.
    pub minimum_hosts: u32,
    /// So many calls in an interval are enough.
    pub request_volume: u32,
}

impl Percent {
    /// Returns a part of a hundred, unless it is more than that.
    pub fn new(percent: u32) -> Option<Self> {
        u8::try_from(percent).ok().filter(|percent| *percent <= 100).map(Self)
    }

    pub(super) fn of_hundred(self) -> u8 {
        self.0
    }
}

impl Detection {
    /// Returns true if any endpoint can be taken out.
    pub fn is_enabled(&self) -> bool {
        self.success_rate.is_some() || self.failure_percentage.is_some()
    }

    /// Returns the time for which an endpoint is taken out that is out for the nth time.
    pub(super) fn ejection_time(&self, times: u32) -> Duration {
        let most = self.base_ejection_time.max(self.max_ejection_time);
        self.base_ejection_time.saturating_mul(times).min(most)
    }
}

impl Default for Detection {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(10),
            base_ejection_time: Duration::from_secs(30),
            max_ejection_time: Duration::from_secs(300),
            max_ejection_percent: Percent(10),
            success_rate: None,
            failure_percentage: None,
        }
    }
}

impl Default for SuccessRate {
    fn default() -> Self {
        Self {
            stdev_factor: 1900,
            enforcement: Percent(100),
            minimum_hosts: 5,
            request_volume: 100,
        }
    }
}

impl Default for FailurePercentage {
    fn default() -> Self {
        Self {
            threshold: Percent(85),
            enforcement: Percent(100),
            minimum_hosts: 5,
            request_volume: 50,
        }
    }
}
