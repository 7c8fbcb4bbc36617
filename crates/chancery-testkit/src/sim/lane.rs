//! One direction of a stream. Each message has a delay, and no message overtakes another.

use std::collections::VecDeque;
use std::time::Duration;

use chancery_core::Time;

/// The messages under way in one direction.
#[derive(Clone, Debug)]
pub(super) struct Lane<T> {
    under_way: VecDeque<(Time, T)>,
    last: Time,
}

impl<T> Lane<T> {
    pub(super) fn new() -> Self {
        Self { under_way: VecDeque::new(), last: Time::default() }
    }

    /// Puts a message on the wire.
    pub(super) fn send(&mut self, now: Time, delay: Duration, message: T) {
        self.last = self.last.max(now + delay);
        self.under_way.push_back((self.last, message));
    }

    /// The next message that has arrived.
    pub(super) fn receive(&mut self, now: Time) -> Option<T> {
        let arrived = self.under_way.front().is_some_and(|(at, _)| *at <= now);
        arrived.then(|| self.under_way.pop_front()).flatten().map(|(_, message)| message)
    }

    /// The time at which the next message arrives.
    pub(super) fn arrival(&self) -> Option<Time> {
        self.under_way.front().map(|(at, _)| *at)
    }

    /// Returns true if nothing is under way.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The number of messages that were sent and not received yet.
    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }
}
