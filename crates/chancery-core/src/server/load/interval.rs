//! The reports that a client is to make: the time between two of them, as a server may tell it, and their parts.

use std::time::Duration;

/// The time between two reports: never zero, which makes clients stop or panic (S-131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoadInterval(Duration);

/// The reports that a client is to make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadReporting {
    /// The time between two reports.
    pub interval: LoadInterval,
    /// True if it is to tell the calls to single endpoints too. Envoy does; gRPC clients ignore it.
    pub by_endpoint: bool,
}

/// A time that is no interval of reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("load reports every {0:?} are too often or too seldom; from 1s to 1h are possible")]
pub struct InvalidInterval(pub Duration);

impl LoadInterval {
    /// The shortest interval.
    pub const LEAST: Self = Self(Duration::from_secs(1));
    /// The longest interval.
    pub const MOST: Self = Self(Duration::from_secs(3600));

    /// Takes a time as an interval.
    ///
    /// # Errors
    /// Fails if it is shorter or longer than an interval may be.
    pub fn new(time: Duration) -> Result<Self, InvalidInterval> {
        let interval = Self(time);
        let is_one = (Self::LEAST..=Self::MOST).contains(&interval);
        if is_one { Ok(interval) } else { Err(InvalidInterval(time)) }
    }

    /// The time.
    pub fn time(self) -> Duration {
        self.0
    }
}

/// Ten seconds.
impl Default for LoadInterval {
    fn default() -> Self {
        Self(Duration::from_secs(10))
    }
}
