//! The clusters that the client was given and cannot use yet.
//!
//! Envoy warms a new cluster until its endpoints arrive. It does not warm routes, and a route to a
//! cluster that is warming fails requests. So the machine holds back changed routes until the client
//! can use every new cluster (S-097, [eventual consistency]; [resource warming]).
//!
//! ```text
//!   a CDS response with new clusters is sent: these clusters are one batch
//!        |
//!        +-- the client rejects the response --> the batch is dropped
//!        |
//!        v   the client acknowledges the response
//!   clusters without EDS can be used at once, the others after the first of these:
//!     - the client has read a response with their endpoints
//!     - the client asked for their endpoints, and there is nothing to send
//!     - the client has not asked for their endpoints for 250 ms
//!     - `warm_wait` has passed since the batch was sent
//! ```
//!
//! [eventual consistency]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations
//! [resource warming]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-warming

use std::sync::Arc;

use super::asking::ASKING_GRACE;
use crate::server::Settings;
use crate::server::subscription::{GivenClusters, ReadResponse, ResponseVerdict, Subscription};
use crate::{ResourceName, Time};

/// The clusters that the client was given and cannot use yet.
#[derive(Debug, Default)]
pub(super) struct Warming {
    batches: Vec<Batch>,
}

/// The new clusters of one response.
#[derive(Debug)]
struct Batch {
    nonce: Arc<str>,
    since: Time,
    /// The time at which the client read the response, if it has.
    acked: Option<Time>,
    /// True if some of the clusters get no endpoints on this stream, and are usable once
    /// acknowledged.
    some_without_endpoints: bool,
    /// The load assignments that the other clusters wait for.
    endpoints: Arc<[ResourceName]>,
    /// The time at which these were looked at last.
    checked: Time,
}

impl Warming {
    /// Adds the clusters that a response gives the client.
    pub(super) fn add_batch(&mut self, now: Time, nonce: &Arc<str>, given: &GivenClusters) {
        let (nonce, endpoints) = (Arc::clone(nonce), given.warming());
        let some_without_endpoints = endpoints.len() < given.count_new();
        if self.batches.is_empty() {
            // Most streams never have two.
            self.batches.reserve_exact(1);
        }
        self.batches.push(Batch {
            nonce,
            since: now,
            acked: None,
            some_without_endpoints,
            endpoints,
            checked: now,
        });
        self.remove_warm();
    }

    /// Takes in that the client read a response with clusters. If it rejected them, nothing warms.
    /// If its verdict is unknown, the clusters may warm, and the client asks for their endpoints
    /// then.
    pub(super) fn clusters_read(&mut self, now: Time, answered: &ReadResponse) {
        let rejected = answered.verdict == ResponseVerdict::Rejected;
        self.batches.retain(|batch| batch.nonce != answered.nonce || !rejected);
        for batch in self.batches.iter_mut().filter(|one| one.nonce == answered.nonce) {
            batch.acked = Some(now);
        }
        self.remove_warm();
    }

    /// Takes in that the client read a response with endpoints. Its verdict does not matter:
    /// rejected endpoints are not sent again, so that waiting for them would be in vain.
    pub(super) fn endpoints_read(&mut self, answered: &ReadResponse) {
        for batch in &mut self.batches {
            batch.retain(|name| !answered.mentions(name.as_str()));
        }
        self.remove_warm();
    }

    /// Drops the clusters that the client can use, and those that were waited for long enough.
    pub(super) fn remove_usable(
        &mut self,
        now: Time,
        endpoints: Option<&Subscription>,
        settings: &Settings,
    ) {
        self.batches.retain(|batch| now < batch.bound(settings));
        for batch in &mut self.batches {
            if let Some(acked) = batch.acked {
                let bound = batch.bound(settings);
                batch.checked = now;
                batch.retain(|name| now < wait_end(name, bound, acked, endpoints));
            }
        }
        self.remove_warm();
    }

    /// Returns true if routes have to wait.
    pub(super) fn holds_routes(&self) -> bool {
        !self.batches.is_empty()
    }

    /// The time at which to look at the clusters again. It is known without looking at them: those
    /// that were looked at within the grace for asking may be usable when it ends, and the others at
    /// the bound.
    pub(super) fn next_check(&self, settings: &Settings) -> Option<Time> {
        let of = |batch: &Batch| {
            let bound = batch.bound(settings);
            let grace = batch.acked.map(|acked| acked + ASKING_GRACE);
            grace.filter(|end| batch.checked < *end).map_or(bound, |end| end.min(bound))
        };
        self.batches.iter().map(of).min()
    }

    /// The end of the wait of routes, at the latest; `None` if they need not wait. All clusters are
    /// looked at.
    pub(super) fn deadline(
        &self,
        endpoints: Option<&Subscription>,
        settings: &Settings,
    ) -> Option<Time> {
        let of = |batch: &Batch| {
            let bound = batch.bound(settings);
            let Some(acked) = batch.acked else { return Some(bound) };
            let names = batch.endpoints.iter();
            names.map(|name| wait_end(name, bound, acked, endpoints)).min()
        };
        self.batches.iter().filter_map(of).min()
    }

    /// Drops batches in which every cluster can be used. Streams are idle without one, most of the time,
    /// and keep room for one.
    fn remove_warm(&mut self) {
        let unacked = |batch: &Batch| batch.some_without_endpoints && batch.acked.is_none();
        self.batches.retain(|batch| unacked(batch) || !batch.endpoints.is_empty());
        if self.batches.is_empty() && self.batches.capacity() > 1 {
            self.batches = Vec::new();
        }
    }
}

impl Batch {
    /// The time after which nothing waits for the batch any more.
    fn bound(&self, settings: &Settings) -> Time {
        self.since + settings.warm_wait
    }

    /// Takes names out of the endpoints. All clients that were given the same clusters share the
    /// list, so it is copied only if it gets shorter.
    fn retain(&mut self, keep: impl Fn(&ResourceName) -> bool) {
        if !self.endpoints.iter().all(&keep) {
            self.endpoints = self.endpoints.iter().filter(|name| keep(name)).cloned().collect();
        }
    }
}

/// The end of the wait for the endpoints of an acknowledged cluster.
fn wait_end(
    name: &ResourceName,
    bound: Time,
    acked: Time,
    endpoints: Option<&Subscription>,
) -> Time {
    match endpoints {
        Some(eds) if eds.will_deliver(name) => bound,
        // The client has the endpoints from an earlier stream (S-076); or there are none, which
        // SotW cannot say (S-066).
        Some(eds) if eds.wants(name) => acked,
        // Envoy asks for endpoints before it acknowledges the cluster, so a client that has not
        // asked soon after will not ask.
        _ => bound.min(acked + ASKING_GRACE),
    }
}
