//! The metrics of a client, by the names of gRPC ([gRFC A78], with the states of A88).
//!
//! Numbers of events are counted while the machine runs; everything else is read from the machine
//! when it is asked for. Not here: the export, which is the program's, and the state of single
//! resources (`status`).
//!
//! [gRFC A78]: https://github.com/grpc/proposal/blob/master/A78-grpc-metrics-wrr-pf-xds.md

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_core::TypeUrl;
use chancery_core::client::{Event, Machine, ResourceState, ResourceStatus, ServerId};

/// The metrics of one client, as they are now. The program that exports them adds `grpc.target`.
///
/// Servers are named by their URI. Servers with the same URI, but different credentials for
/// example, share their metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// `grpc.xds_client.connected`, by `grpc.xds.server`: true if the server can be reached, as far
    /// as is known. After a failure it is true only once the server has responded. Only servers
    /// from which something is wanted are in it.
    pub connected: BTreeMap<Arc<str>, bool>,
    /// `grpc.xds_client.server_failure`, by `grpc.xds.server`: the number of times that the server
    /// became unreachable.
    pub server_failure: BTreeMap<Arc<str>, u64>,
    /// `grpc.xds_client.resource_updates_valid`: the number of resources that could be used,
    /// including unchanged ones.
    pub resource_updates_valid: BTreeMap<UpdateLabels, u64>,
    /// `grpc.xds_client.resource_updates_invalid`: the number of resources that could not be used.
    pub resource_updates_invalid: BTreeMap<UpdateLabels, u64>,
    /// `grpc.xds_client.resources`: the number of resources that are watched.
    pub resources: BTreeMap<ResourceLabels, u64>,
}

/// The labels of updates.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpdateLabels {
    /// `grpc.xds.server`: the URI of the server.
    pub server: Arc<str>,
    /// `grpc.xds.resource_type`, as in `envoy.config.cluster.v3.Cluster`.
    pub resource_type: Arc<str>,
}

/// The labels of resources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceLabels {
    /// `grpc.xds.authority`; `#old` for names that have none.
    pub authority: Arc<str>,
    /// `grpc.xds.cache_state`: `requested`, `acked`, `nacked`, `does_not_exist`, `received_error`
    /// or `timeout`. The last four end in `_but_cached` if the cache still has a value.
    pub cache_state: &'static str,
    /// `grpc.xds.resource_type`, as in `envoy.config.cluster.v3.Cluster`.
    pub resource_type: Arc<str>,
}

/// The numbers that are counted while the machine runs.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    failures: BTreeMap<ServerId, u64>,
    updates: BTreeMap<(ServerId, TypeUrl), Updates>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Updates {
    valid: u64,
    invalid: u64,
}

impl Counts {
    /// Counts events.
    pub(crate) fn add(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Received { stream, type_url, accepted: good, invalid: flaws, .. } = event
            {
                let updates = self.updates.entry((stream.server, type_url.clone())).or_default();
                updates.valid += *good as u64;
                updates.invalid += flaws.len() as u64;
            }
        }
    }

    /// Counts a server that has become unreachable.
    pub(crate) fn failed(&mut self, server: ServerId) {
        *self.failures.entry(server).or_default() += 1;
    }

    /// Returns all metrics, with the state of the machine.
    pub(crate) fn metrics(&self, machine: &Machine) -> Metrics {
        let mut all = Metrics::default();
        for (id, server) in machine.setup().servers() {
            let uri = || Arc::clone(&server.key.uri);
            if let Some(connected) = machine.is_connected(id) {
                *all.connected.entry(uri()).or_insert(true) &= connected;
            }
            let failures = self.failures.get(&id).copied().unwrap_or_default();
            *all.server_failure.entry(uri()).or_default() += failures;
            let updates = self.updates.iter().filter(|((of, _), _)| *of == id);
            for ((_, type_url), updates) in updates {
                let resource_type = type_url.message_name().into();
                let labels = UpdateLabels { server: uri(), resource_type };
                *all.resource_updates_valid.entry(labels.clone()).or_default() += updates.valid;
                *all.resource_updates_invalid.entry(labels).or_default() += updates.invalid;
            }
        }
        for status in machine.resources() {
            *all.resources.entry(ResourceLabels::of(&status)).or_default() += 1;
        }
        all
    }
}

impl ResourceLabels {
    fn of(status: &ResourceStatus<'_>) -> Self {
        let is_held = status.cached.is_some();
        Self {
            authority: status.authority.label().into(),
            cache_state: match (status.state, is_held) {
                (ResourceState::Requested, _) => "requested",
                (ResourceState::Acked, _) => "acked",
                (ResourceState::Nacked, false) => "nacked",
                (ResourceState::Nacked, true) => "nacked_but_cached",
                (ResourceState::DoesNotExist, false) => "does_not_exist",
                (ResourceState::DoesNotExist, true) => "does_not_exist_but_cached",
                (ResourceState::ReceivedError, false) => "received_error",
                (ResourceState::ReceivedError, true) => "received_error_but_cached",
                (ResourceState::Timeout, false) => "timeout",
                (ResourceState::Timeout, true) => "timeout_but_cached",
            },
            resource_type: status.type_url.message_name().into(),
        }
    }
}
