//! Clusters the client was just given and cannot use yet.
//!
//! Envoy warms a new cluster until its endpoints arrive, and does not warm routes: a route that
//! points at a warming cluster fails requests. So changed routes wait until the client has
//! acknowledged the cluster and its endpoints, has shown that it does not ask for them here, or a
//! bound has passed (S-097).

use std::sync::Arc;
use std::time::Duration;

use crate::server::Settings;
use crate::server::subscription::{GivenClusters, ReadResponse, Subscription, Verdict};
use crate::{ResourceName, Time};

/// Clusters the client was just given and cannot use yet.
#[derive(Debug, Default)]
pub(super) struct Warming {
    batches: Vec<Batch>,
}

/// The new clusters of one response.
#[derive(Debug)]
struct Batch {
    nonce: Arc<str>,
    since: Time,
    acked: Option<Time>,
    /// Whether some of them wait for nothing but the acknowledgement.
    some_without_endpoints: bool,
    /// The load assignments some of them wait for on this stream.
    endpoints: Arc<[ResourceName]>,
}

impl Warming {
    /// A response gave the client clusters.
    pub(super) fn add_batch(&mut self, now: Time, nonce: &Arc<str>, given: &GivenClusters) {
        let (nonce, endpoints) = (Arc::clone(nonce), given.warming());
        let some_without_endpoints = endpoints.len() < given.count_new();
        self.batches.push(Batch {
            nonce,
            since: now,
            acked: None,
            some_without_endpoints,
            endpoints,
        });
        self.remove_warm();
    }

    /// The client read a response with clusters. One it rejected warms nothing; one of which nobody
    /// knows that may warm its clusters, which it then asks for the endpoints of.
    pub(super) fn clusters_read(&mut self, now: Time, answered: &ReadResponse) {
        let rejected = answered.verdict == Verdict::Rejected;
        self.batches.retain(|batch| batch.nonce != answered.nonce || !rejected);
        for batch in self.batches.iter_mut().filter(|one| one.nonce == answered.nonce) {
            batch.acked = Some(now);
        }
        self.remove_warm();
    }

    /// The client read a response with endpoints, whatever it made of it: a rejected one will not
    /// come again, so waiting for it would be in vain.
    pub(super) fn endpoints_read(&mut self, answered: &ReadResponse) {
        for batch in &mut self.batches {
            batch.retain(|name| !answered.mentions(name.as_str()));
        }
        self.remove_warm();
    }

    /// Forgets the clusters that need not be waited for any more.
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
                batch.retain(|name| now < wait_end(name, bound, acked, endpoints));
            }
        }
        self.remove_warm();
    }

    /// Until when routes have to wait at most; they need not if there is no such time.
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

    /// What waits for nothing can be used.
    fn remove_warm(&mut self) {
        let unacked = |batch: &Batch| batch.some_without_endpoints && batch.acked.is_none();
        self.batches.retain(|batch| unacked(batch) || !batch.endpoints.is_empty());
    }
}

impl Batch {
    fn bound(&self, settings: &Settings) -> Time {
        self.since + settings.warm_wait
    }

    /// The list is shared by all clients that were given the same, until it gets shorter for one.
    fn retain(&mut self, keep: impl Fn(&ResourceName) -> bool) {
        if !self.endpoints.iter().all(&keep) {
            self.endpoints = self.endpoints.iter().filter(|name| keep(name)).cloned().collect();
        }
    }
}

/// Until when routes wait for an acknowledged cluster with these endpoints.
fn wait_end(
    name: &ResourceName,
    bound: Time,
    acked: Time,
    endpoints: Option<&Subscription>,
) -> Time {
    match endpoints {
        Some(eds) if eds.will_deliver(name) => bound,
        // The client has the endpoints from an earlier stream (S-076), or there are none, and
        // nobody will say so in SotW (S-066).
        Some(eds) if eds.wants(name) => acked,
        // Envoy asks for endpoints before it acknowledges the cluster.
        _ => bound.min(acked + ASKING_GRACE),
    }
}

/// How long after acknowledging a cluster a client may take to ask for its endpoints.
const ASKING_GRACE: Duration = Duration::from_millis(250);
