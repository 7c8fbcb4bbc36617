//! Calls by the time at which they were: a bounded list of slots of ten seconds.
//!
//! A report covers the time that it states and not that at which it comes (S-133), so its counts are spread
//! over the slots of that time. What is older than the list is not kept in it.

use std::collections::VecDeque;
use std::time::Duration;

use super::counts::LoadCounts;
use crate::Time;

/// The calls of ten seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The number of the slot: its beginning, in slots since the beginning of time.
    number: u64,
    /// The calls in it.
    pub counts: LoadCounts,
}

/// The calls of the last minutes. Slots without calls are not kept.
#[derive(Debug, Default)]
pub(super) struct Timeline(VecDeque<Slot>);

impl Slot {
    /// The length of a slot.
    pub const LENGTH: Duration = Duration::from_secs(10);
    /// The number of slots that are kept: ten minutes.
    pub const MOST: usize = 60;

    /// The time at which it begins.
    pub fn begins(&self) -> Time {
        Time(Self::LENGTH.saturating_mul(u32::try_from(self.number).unwrap_or(u32::MAX)))
    }
}

impl Timeline {
    /// The bytes of a list with all slots.
    pub(super) const BYTES: usize = Slot::MOST.next_power_of_two() * size_of::<Slot>();

    /// Adds the calls of so much time until now.
    pub(super) fn add(&mut self, now: Time, interval: Duration, counts: LoadCounts) {
        self.forget(now);
        let length = Slot::LENGTH.as_nanos();
        let newest = number_of(now);
        let in_newest = now.0.as_nanos() % length;
        let whole = interval.as_nanos();
        if whole == 0 {
            return self.add_to(newest, counts);
        }
        let mut before = LoadCounts::default();
        for back in 0..Slot::MOST as u64 {
            let Some(number) = newest.checked_sub(back) else {
                // Time began within the interval, so the first slot has the rest.
                return self.add_to(0, counts.less(before));
            };
            let part = whole.min(in_newest + u128::from(back) * length);
            let until = counts.share(part, whole);
            self.add_to(number, until.less(before));
            before = until;
            if part == whole {
                return;
            }
        }
    }

    /// The slots, the oldest first.
    pub(super) fn slots(&self, now: Time) -> Vec<Slot> {
        let oldest = oldest(now);
        self.0.iter().filter(|slot| slot.number >= oldest).copied().collect()
    }

    fn add_to(&mut self, number: u64, counts: LoadCounts) {
        if counts.is_zero() {
            return;
        }
        let at = self.0.partition_point(|slot| slot.number < number);
        match self.0.get_mut(at).filter(|slot| slot.number == number) {
            Some(slot) => slot.counts.add(counts),
            None => self.0.insert(at, Slot { number, counts }),
        }
    }

    fn forget(&mut self, now: Time) {
        let oldest = oldest(now);
        while self.0.front().is_some_and(|slot| slot.number < oldest) {
            self.0.pop_front();
        }
    }
}

fn number_of(time: Time) -> u64 {
    time.0.as_secs() / Slot::LENGTH.as_secs()
}

fn oldest(now: Time) -> u64 {
    number_of(now).saturating_sub(Slot::MOST as u64 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issued(issued: u64) -> LoadCounts {
        LoadCounts { issued, ..LoadCounts::default() }
    }

    fn at(seconds: u64) -> Time {
        Time(Duration::from_secs(seconds))
    }

    fn shown(timeline: &Timeline, now: Time) -> Vec<(u64, u64)> {
        let slots = timeline.slots(now).into_iter();
        slots.map(|slot| (slot.begins().0.as_secs(), slot.counts.issued)).collect()
    }

    #[test]
    fn counts_belong_to_the_time_that_a_report_covers() {
        // S-133
        let mut timeline = Timeline::default();
        timeline.add(at(125), Duration::from_secs(20), issued(40));
        assert_eq!(shown(&timeline, at(125)), [(100, 10), (110, 20), (120, 10)]);
        timeline.add(at(126), Duration::ZERO, issued(1));
        assert_eq!(shown(&timeline, at(125)), [(100, 10), (110, 20), (120, 11)]);
    }

    #[test]
    fn no_call_is_lost_to_a_fraction() {
        // S-133
        for millis in [1, 7, 999, 10_000, 12_345, 59_999] {
            let mut timeline = Timeline::default();
            timeline.add(at(100), Duration::from_millis(millis), issued(1_000_003));
            let sum: u64 = shown(&timeline, at(100)).iter().map(|(_, count)| count).sum();
            assert_eq!(sum, 1_000_003, "{millis}");
        }
    }

    #[test]
    fn a_list_is_bounded_whatever_time_a_report_states() {
        // S-133
        let mut timeline = Timeline::default();
        for seconds in 0..5_000 {
            timeline.add(at(seconds), Duration::MAX, issued(u64::MAX));
            timeline.add(at(seconds), Duration::from_nanos(1), issued(1));
            assert!(timeline.0.len() <= Slot::MOST);
        }
        let now = at(4_999);
        assert_eq!(timeline.slots(now).len(), Slot::MOST);
        assert_eq!(timeline.slots(now)[0].begins(), at(4_400));
        assert_eq!(timeline.slots(at(10_000)), []);
    }

    #[test]
    fn an_hour_that_a_report_covers_has_most_of_its_calls_before_the_list() {
        let mut timeline = Timeline::default();
        timeline.add(at(36_000), Duration::from_secs(3_600), issued(3_600));
        let slots = shown(&timeline, at(36_000));
        assert_eq!(slots.first(), Some(&(35_410, 10)));
        assert_eq!(slots.iter().map(|(_, count)| count).sum::<u64>(), 590);
    }
}
