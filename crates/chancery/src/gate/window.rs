//! The most that an audience had in the last ten minutes, so that a large loss in small cuts counts.
//!
//! Numbers alone are kept, of states that were replaced by smaller ones, and one for each minute at
//! most. Time comes in as the time since some beginning.

use std::time::Duration;

use super::loss::{Counts, Measure};

/// The largest states that an audience had of late and has no more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window(Vec<Past>);

/// The largest of the states that ended in one minute.
#[derive(Clone, Copy, Debug)]
struct Past {
    /// The end of the last of them.
    until: Duration,
    counts: Counts,
}

impl Window {
    /// The largest of what the audience has and what it had of late.
    pub(crate) fn largest(&self, now: Duration, current: Counts) -> Counts {
        let recent = self.0.iter().filter(|past| past.is_recent(now));
        recent.fold(current, |largest, past| largest.largest(past.counts))
    }

    /// Takes note that a state ends now in which the audience had this.
    pub(crate) fn ended(&mut self, now: Duration, counts: Counts) {
        self.forget_old(now);
        match self.0.last_mut().filter(|last| minute(last.until) == minute(now)) {
            Some(last) => *last = Past { until: now, counts: last.counts.largest(counts) },
            None => self.0.push(Past { until: now, counts }),
        }
    }

    /// Forgets endpoints whose loss was meant.
    pub(crate) fn forgive(&mut self, endpoints: u64) {
        for past in &mut self.0 {
            past.counts.take(Measure::Endpoints, endpoints);
        }
    }

    /// Forgets what was too long ago.
    pub(crate) fn forget_old(&mut self, now: Duration) {
        self.0.retain(|past| past.is_recent(now));
    }

    /// The ends of the states, and the most that they had.
    pub(super) fn ends(&self) -> impl Iterator<Item = (Duration, Counts)> {
        self.0.iter().map(|past| (past.until, past.counts))
    }

    /// Returns true if there is nothing to remember.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Past {
    fn is_recent(&self, now: Duration) -> bool {
        now.saturating_sub(self.until) < LENGTH
    }
}

fn minute(time: Duration) -> u64 {
    time.as_secs() / 60
}

/// The time for which a state is remembered that was replaced.
const LENGTH: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::gate::loss::{Change, reasons};

    fn clusters(number: u64) -> Counts {
        let mut counts = Counts::default();
        counts.add(Measure::Clusters, number);
        counts
    }

    /// The states that pass, of these that come one after the other, each so many seconds after the one
    /// before.
    fn passed(states: &[(u64, u64)]) -> Vec<u64> {
        let (mut window, mut now) = (Window::default(), Duration::ZERO);
        let mut passed: Vec<u64> = Vec::new();
        for (seconds, number) in states {
            now += Duration::from_secs(*seconds);
            if let Some(current) = passed.last() {
                let (before, after) = (clusters(*current), clusters(*number));
                let change = Change { before, after, ..Change::default() };
                let largest = window.largest(now, before);
                if !reasons(&change, &largest, 50, |_| String::new()).is_empty() {
                    continue;
                }
                window.ended(now, before);
            }
            passed.push(*number);
        }
        passed
    }

    #[test]
    fn three_cuts_of_a_third_do_not_slip_through() {
        assert_eq!(passed(&[(0, 100), (1, 70), (1, 49), (1, 34)]), [100, 70]);
        assert_eq!(passed(&[(0, 100), (1, 70), (200, 49), (1, 60)]), [100, 70, 60]);
    }

    #[test]
    fn what_was_more_than_ten_minutes_ago_counts_no_more() {
        assert_eq!(passed(&[(0, 100), (1, 70), (599, 49)]), [100, 70]);
        assert_eq!(passed(&[(0, 100), (1, 70), (600, 49)]), [100, 70, 49]);
    }

    #[test]
    fn a_long_time_of_a_state_does_not_make_it_old() {
        assert_eq!(passed(&[(0, 100), (100_000, 30)]), [100]);
    }

    proptest! {
        /// The largest is that of all states that were in force in the last ten minutes; of a state that
        /// ended at most a minute before that it may be.
        #[test]
        fn the_largest_is_that_of_the_last_ten_minutes(
            states in prop::collection::vec((0_u64..400, 0_u64..1000), 1..60),
        ) {
            let (mut window, mut now, mut ends) = (Window::default(), 0, Vec::new());
            let mut current = 0;
            for (seconds, number) in states {
                now += seconds;
                let time = Duration::from_secs(now);
                window.ended(time, clusters(current));
                ends.push((now, current));
                current = number;
                let most = |length: u64| {
                    let recent = ends.iter().filter(|(end, _)| now - end < length);
                    recent.map(|(_, number)| *number).chain([current]).max().unwrap()
                };
                let found = window.largest(time, clusters(current)).get(Measure::Clusters);
                prop_assert!((most(600)..=most(660)).contains(&found), "{found}");
                prop_assert!(window.0.len() <= 11, "{}", window.0.len());
            }
        }
    }
}
