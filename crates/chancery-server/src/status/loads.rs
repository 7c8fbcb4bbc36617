//! The last loads: when each was shown, and when it had landed.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use chancery_catalog::ContentHash;
use tokio::time::Instant;

/// A load: a change of what is served, by a revision of a catalog or by a snapshot that was published.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoadStatus {
    /// Its number, which grows with each load. It is that of the revision, unless snapshots are published
    /// beside those of a catalog.
    pub number: u64,
    /// The number of the revision.
    pub revision: Option<u64>,
    /// The digest of all resources since this load.
    pub content: Option<ContentHash>,
    /// The time at which it was shown.
    pub at: SystemTime,
    /// The time since then.
    pub age: Duration,
    /// The time from the load to the last acknowledgement, when all that counted had it; `None` until then,
    /// and for ever if a newer load came before.
    pub landed_after: Option<Duration>,
    /// True if a newer load came before this one had landed.
    pub superseded: bool,
    /// The number of streams that it landed on.
    pub streams: usize,
}

/// The last loads, the oldest first.
#[derive(Default)]
pub(super) struct Loads {
    last: VecDeque<Load>,
    /// When the first load was shown of those after the last one that has landed.
    waits_since: Option<Instant>,
    /// When the last load was last looked at.
    looked: Option<Instant>,
    /// The convergence times that nobody has counted yet.
    converged: Vec<Duration>,
}

struct Load {
    status: LoadStatus,
    shown: Instant,
}

impl Loads {
    /// Adds a load. The one before is superseded if it has not landed. No more than `limit` are kept.
    pub(super) fn add(
        &mut self,
        number: u64,
        revision: Option<(u64, ContentHash)>,
        at: Instant,
        limit: usize,
    ) {
        if let Some(before) = self.last.back_mut() {
            before.status.superseded = before.status.landed_after.is_none();
        }
        while self.last.len() >= limit.max(1) {
            self.last.pop_front();
        }
        self.waits_since.get_or_insert(at);
        self.last.push_back(Load {
            status: LoadStatus {
                number,
                revision: revision.map(|(number, _)| number),
                content: revision.map(|(_, content)| content),
                at: SystemTime::now(),
                age: Duration::ZERO,
                landed_after: None,
                superseded: false,
                streams: 0,
            },
            shown: at,
        });
    }

    /// Returns true if the last load was not looked at since that time before now, and it is looked at now.
    pub(super) fn is_to_be_looked_at(&mut self, now: Instant, pause: Duration) -> bool {
        let is_due = self.looked.is_none_or(|at| now.saturating_duration_since(at) >= pause);
        if is_due {
            self.looked = Some(now);
        }
        is_due
    }

    /// Takes the convergence times since the last call.
    pub(super) fn take_converged(&mut self) -> Vec<Duration> {
        std::mem::take(&mut self.converged)
    }

    /// The last load, and when it was shown, if it has not landed yet.
    pub(super) fn open(&self) -> Option<(u64, Instant)> {
        let last = self.last.back()?;
        last.status.landed_after.is_none().then_some((last.status.number, last.shown))
    }

    /// The time since the first load was shown of those after the last one that has landed.
    pub(super) fn oldest(&self, now: Instant) -> Option<Duration> {
        self.waits_since.map(|since| now.saturating_duration_since(since))
    }

    /// Notes that a load has landed on so many streams, that long after it was shown. Returns false if a newer
    /// one was shown meanwhile, or somebody has noted it already.
    pub(super) fn landed(&mut self, number: u64, after: Duration, streams: usize) -> bool {
        let mut newer = self.last.iter().skip_while(|load| load.status.number <= number);
        if let (Some(next), Some(since)) = (newer.next(), &mut self.waits_since) {
            *since = next.shown.max(*since);
        }
        let last = self.last.back_mut().map(|load| &mut load.status);
        let Some(load) = last.filter(|it| it.number == number && it.landed_after.is_none()) else {
            return false;
        };
        load.landed_after = Some(after);
        load.streams = streams;
        self.waits_since = None;
        if self.converged.len() < MOST_CONVERGED {
            self.converged.push(after);
        }
        true
    }

    /// The loads that are remembered, the newest first.
    pub(super) fn list(&self, now: Instant) -> Vec<LoadStatus> {
        let aged = |load: &Load| {
            let age = now.saturating_duration_since(load.shown);
            LoadStatus { age, ..load.status.clone() }
        };
        self.last.iter().rev().map(aged).collect()
    }
}

/// The most convergence times that wait to be counted.
const MOST_CONVERGED: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_lands_once_and_not_if_a_newer_one_was_shown() {
        let (mut loads, first) = (Loads::default(), Instant::now());
        let now = first + Duration::from_secs(2);
        loads.add(1, None, first, 10);
        loads.add(2, None, first + Duration::from_secs(1), 10);
        assert_eq!(loads.oldest(now), Some(Duration::from_secs(2)));
        assert!(!loads.landed(1, Duration::ZERO, 1), "it is superseded");
        assert_eq!(loads.oldest(now), Some(Duration::from_secs(1)));
        assert!(loads.landed(2, Duration::ZERO, 1) && !loads.landed(2, Duration::ZERO, 1));
        assert_eq!((loads.oldest(now), loads.take_converged().len()), (None, 1));
        let list = loads.list(now);
        let told: Vec<_> =
            list.iter().map(|it| (it.superseded, it.landed_after.is_some())).collect();
        assert_eq!(told, [(false, true), (true, false)]);
    }
}
