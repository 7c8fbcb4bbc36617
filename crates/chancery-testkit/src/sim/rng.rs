//! Pseudo-random numbers (splitmix64): the same seed gives the same history.

use std::time::Duration;

/// A small generator; the same seed draws the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator that has drawn nothing yet.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which must not be zero.
    pub fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of these items.
    ///
    /// # Panics
    /// Panics if there are none.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        let index = usize::try_from(self.below(count)).unwrap_or(0);
        &items[index]
    }

    /// A time below `end`, in milliseconds.
    pub fn time(&mut self, end: Duration) -> Duration {
        let millis = u64::try_from(end.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.below(millis.max(1)))
    }
}
