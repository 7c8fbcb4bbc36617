//! Clusters the client was just given and cannot use yet.
//!
//! Envoy warms a new cluster until its endpoints arrive, and does not warm routes: a route that
//! points at a warming cluster fails requests. So changed routes wait until the client has
//! acknowledged the cluster and its endpoints, has shown that it does not ask for them here, or a
//! bound has passed (S-097).

use std::sync::Arc;
use std::time::Duration;

use crate::subscription::{Answered, Given, Subscription};
use crate::{Api, ResourceName, Settings, Time};

/// Clusters the client was just given and cannot use yet.
#[derive(Debug, Default)]
pub(super) struct Warming {
    clusters: Vec<Cluster>,
}

#[derive(Debug)]
struct Cluster {
    /// Which response gave it.
    nonce: Arc<str>,
    /// The load assignment it waits for on this stream.
    endpoints: Option<ResourceName>,
    since: Time,
    acked: Option<Time>,
}

impl Warming {
    /// A response gave the client clusters.
    pub(super) fn note_given(&mut self, now: Time, nonce: &Arc<str>, given: &[Given]) {
        for cluster in given.iter().filter(|given| given.is_new) {
            let links = cluster.resource.facts().links.iter();
            let mut eds = links.filter(|link| link.aggregated && link.type_url.api() == Api::Eds);
            self.clusters.push(Cluster {
                nonce: Arc::clone(nonce),
                endpoints: eds.next().map(|link| link.name.clone()),
                since: now,
                acked: None,
            });
        }
    }

    /// The client answered a response with clusters. One it rejected warms nothing.
    pub(super) fn note_clusters_answered(&mut self, now: Time, answered: &Answered) {
        self.clusters.retain(|cluster| {
            cluster.nonce != answered.nonce || answered.accepted && cluster.endpoints.is_some()
        });
        for cluster in self.clusters.iter_mut().filter(|one| one.nonce == answered.nonce) {
            cluster.acked = Some(now);
        }
    }

    /// The client answered a response with endpoints. A rejected one will not come again, so
    /// waiting for it would be in vain.
    pub(super) fn note_endpoints_answered(&mut self, answered: &Answered) {
        self.clusters.retain(|cluster| {
            let name = cluster.endpoints.as_ref().map(ResourceName::as_str);
            !name.is_some_and(|name| answered.speaks_of(name))
        });
    }

    /// Forgets the clusters that need not be waited for any more.
    pub(super) fn settle(
        &mut self,
        now: Time,
        endpoints: Option<&Subscription>,
        settings: &Settings,
    ) {
        self.clusters.retain(|cluster| cluster.until(endpoints, settings) > now);
    }

    /// Until when routes have to wait at most; they need not if there is no such time.
    pub(super) fn until(
        &self,
        endpoints: Option<&Subscription>,
        settings: &Settings,
    ) -> Option<Time> {
        self.clusters.iter().map(|cluster| cluster.until(endpoints, settings)).min()
    }
}

impl Cluster {
    /// Until when routes wait for this cluster.
    fn until(&self, endpoints: Option<&Subscription>, settings: &Settings) -> Time {
        let bound = self.since + settings.warm_wait;
        let (Some(name), Some(acked)) = (&self.endpoints, self.acked) else { return bound };
        match endpoints {
            Some(eds) if eds.wants(name) && eds.has(name) => bound,
            // There are no endpoints to wait for, and nobody will say so in SotW (S-066).
            Some(eds) if eds.wants(name) => acked,
            // Envoy asks for endpoints before it acknowledges the cluster.
            _ => bound.min(acked + ASKING_GRACE),
        }
    }
}

/// How long after acknowledging a cluster a client may take to ask for its endpoints.
const ASKING_GRACE: Duration = Duration::from_millis(250);
