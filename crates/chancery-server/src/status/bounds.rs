//! The bounds of what is kept for those who ask what clients hold.

use std::time::Duration;

/// The bounds of a [`StatusBook`](crate::StatusBook).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusBounds {
    /// The time for which an answer of a client, or its next step, may be owed before it counts as
    /// silent; 30 s.
    pub silent_after: Duration,
    /// The time for which a load waits for a stream that is gone, because its client may come back;
    /// 15 s. After that it is told of and not waited for.
    pub grace: Duration,
    /// The number of gone streams that are remembered, the last ones; 10,000.
    pub gone: usize,
    /// The bytes that gone streams may take, about; 8 MiB.
    pub gone_bytes: usize,
    /// The time for which a gone stream is remembered; an hour.
    pub gone_for: Duration,
    /// The number of subscriptions of clients that poll over REST and are remembered; 10,000. They may take 2 KiB
    /// each, on average.
    pub polls: usize,
    /// The number of loads that are remembered, the last ones; 100.
    pub loads: usize,
    /// The number of events that are remembered, the last ones; 4,096.
    pub events: usize,
    /// The bytes that they may take together, about; 4 MiB.
    pub event_bytes: usize,
}

impl Default for StatusBounds {
    fn default() -> Self {
        Self {
            silent_after: Duration::from_secs(30),
            grace: Duration::from_secs(15),
            gone: 10_000,
            gone_bytes: 8 * 1024 * 1024,
            gone_for: Duration::from_secs(3600),
            polls: 10_000,
            loads: 100,
            events: 4096,
            event_bytes: 4 * 1024 * 1024,
        }
    }
}
