//! The time that resources have to come once they were asked for ([does not exist], C-065).
//!
//! [does not exist]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#knowing-when-a-requested-resource-does-not-exist

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{ResourceName, Time};

/// The names that were asked for and have not come.
#[derive(Debug, Default)]
pub(super) struct ResourceTimers {
    until: BTreeMap<ResourceName, Time>,
    /// The same in the order of their times, with some that came meanwhile.
    order: VecDeque<(Time, ResourceName)>,
    /// Names whose time stands still, because they may be those of resources that nobody can name.
    suspended: BTreeSet<ResourceName>,
}

impl ResourceTimers {
    pub(super) fn start(&mut self, name: &ResourceName, until: Time) {
        self.until.insert(name.clone(), until);
        self.order.push_back((until, name.clone()));
    }

    pub(super) fn stop(&mut self, name: &ResourceName) {
        self.until.remove(name);
    }

    pub(super) fn suspend(&mut self, name: &ResourceName) {
        self.stop(name);
        self.suspended.insert(name.clone());
    }

    /// A name does not wait for the resources that nobody can name any more.
    pub(super) fn end_suspension(&mut self, name: &ResourceName) {
        self.suspended.remove(name);
    }

    pub(super) fn retain_suspended(&mut self, keep: impl FnMut(&ResourceName) -> bool) {
        self.suspended.retain(keep);
    }

    pub(super) fn take_suspended(&mut self) -> BTreeSet<ResourceName> {
        std::mem::take(&mut self.suspended)
    }

    /// Returns true if no name has a time.
    pub(super) fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Returns the next time that ends.
    pub(super) fn next(&mut self) -> Option<Time> {
        while let Some((until, name)) = self.order.front() {
            if self.until.get(name) == Some(until) {
                return Some(*until);
            }
            self.order.pop_front();
        }
        None
    }

    /// Returns the next name whose time is over.
    pub(super) fn next_timed_out(&mut self, now: Time) -> Option<ResourceName> {
        if self.next()? > now {
            return None;
        }
        let (_, name) = self.order.pop_front()?;
        self.until.remove(&name);
        Some(name)
    }
}
