//! The clusters of a configuration, and the targets that their trees of policies are given (C-119,
//! gRFC A37, A74, A75).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use chancery_calls::balancing::{
    ClusterTarget, Detection, DetectionTarget, Endpoint, Health, LoadSink, Node, PolicyConfig,
    PolicyTarget, PriorityNames, SessionEndpoints,
};
use chancery_calls::routing::{Action, RouteConfig, RouteTarget};
use chancery_client::resource::{CachedResource, decoded};
use chancery_client::{Client, ResourceType};
use chancery_core::client::XdsConfig;
use chancery_core::{ResourceName, TypeUrl};

use super::cluster::{Clusters, Sources};
use super::leaves::{Leaf, Leaves};
use super::load::ClusterLoad;
use super::security::{ChannelSecurity, EndpointSettings, OneEndpoint};
use crate::process;
use crate::read::clusters::{Cluster, ClusterKind};
use crate::read::endpoints::Endpoints;
use crate::read::kept_sessions::KeptSessions;
use crate::read::quoted;

/// The addresses of names of DNS, as far as they are known.
pub(super) type Resolved = BTreeMap<(String, u16), Result<Vec<SocketAddr>, String>>;

/// Makes targets of one configuration.
pub(super) struct Targets<'a> {
    pub(super) config: &'a XdsConfig,
    pub(super) client: &'a Client,
    pub(super) resolved: &'a Resolved,
    pub(super) security: &'a ChannelSecurity,
    /// True if calls may have sessions.
    pub(super) has_sessions: bool,
}

/// The clusters that routes name.
pub(super) fn clusters_of(routes: &RouteConfig) -> BTreeSet<Arc<str>> {
    let routes = routes.hosts().iter().flat_map(|host| &host.routes);
    let mut names = BTreeSet::new();
    for route in routes {
        let Action::Forward(forward) = &route.action else { continue };
        match &forward.target {
            RouteTarget::Cluster(name) => drop(names.insert(Arc::clone(name))),
            RouteTarget::Weighted(weighted) => {
                names.extend(weighted.clusters().iter().map(|it| Arc::clone(&it.name)));
            }
            RouteTarget::Plugin(_) => {}
        }
    }
    names
}

impl Targets<'_> {
    /// Returns the targets of a cluster: itself, or the clusters that it aggregates, the best first.
    pub(super) fn of(
        &self,
        name: &Arc<str>,
        names: &mut BTreeMap<Arc<str>, PriorityNames>,
    ) -> <Clusters as Node>::Config {
        let Leaves { found, problems, .. } = Leaves::of(self.config, name);
        if found.is_empty() {
            let problem = problems.into_iter().next().map(|(_, problem)| problem);
            let problem = problem.unwrap_or_else(|| "it aggregates no cluster that exists".into());
            let target = detecting(without_endpoints(name, problem), None);
            return vec![(Arc::clone(name), target)];
        }
        names.retain(|name, _| found.iter().any(|leaf| leaf.name == *name));
        let targets = found.into_iter().map(|Leaf { name, cluster, cached }| {
            let names = names.entry(Arc::clone(&name)).or_default();
            let target = self.target(&name, &cluster, cached, names);
            (name, detecting(target, cluster.detection.as_ref()))
        });
        targets.collect()
    }

    /// Returns the settings of connections to a cluster, or to each of those that it aggregates.
    pub(super) fn settings(&self, name: &Arc<str>) -> BTreeMap<Arc<str>, EndpointSettings> {
        // A leaf that does not exist has no endpoints to connect to.
        let leaves = Leaves::of(self.config, name).found.into_iter();
        let settings = leaves.map(|Leaf { name, cluster, .. }| {
            let settings = self.settings_of(&name, &cluster);
            (name, settings)
        });
        settings.collect()
    }

    fn settings_of(&self, name: &str, cluster: &Cluster) -> EndpointSettings {
        let transport = &cluster.transport;
        let service = match &cluster.kind {
            ClusterKind::Eds { service } => service.as_deref().unwrap_or(name),
            ClusterKind::LogicalDns { host, .. } => {
                return self.security.of_cluster(transport, Some(host), []);
            }
            ClusterKind::Aggregate(_) => return self.security.of_cluster(transport, None, []),
        };
        let Some(Ok(endpoints)) = self.endpoints(service) else {
            return self.security.of_cluster(transport, None, []);
        };
        let all = endpoints.assignment.localities.iter().flat_map(|it| &*it.endpoints);
        let all = all.flat_map(|endpoint| {
            endpoint.addresses.iter().map(|address| OneEndpoint {
                address: *address,
                hostname: &endpoint.hostname,
                proxy: endpoints.proxies.get(address).copied(),
            })
        });
        self.security.of_cluster(transport, None, all)
    }

    /// Returns the resources that the targets of a cluster are made of; `None` if they depend on more than
    /// those: on an error, or on DNS.
    pub(super) fn sources(&self, name: &Arc<str>) -> Option<Sources> {
        let leaves = Leaves::of(self.config, name);
        if !leaves.problems.is_empty() {
            return None;
        }
        let mut resources = Vec::with_capacity(2 * leaves.found.len());
        for Leaf { name, cluster, cached } in leaves.found {
            let ClusterKind::Eds { service } = &cluster.kind else { return None };
            let service = ResourceName::read(service.as_deref().unwrap_or(&name)).ok()?;
            let key = (TypeUrl::new(Endpoints::TYPE_URL), service);
            let endpoints = self.config.resources.get(&key)?.as_ref().ok()?;
            resources.extend([&cached.resource, &endpoints.resource].map(Arc::clone));
        }
        Some(Sources { resources, has_sessions: self.has_sessions })
    }

    /// Returns what the way of calls to a cluster leaves out, a sentence for each cluster: endpoints that take no calls,
    /// and what cannot be used.
    pub(super) fn left_out(&self, leaves: &Leaves<'_>) -> Vec<String> {
        let problems = leaves.problems.iter().map(|(name, why)| (name, why.to_string()));
        let endpoints = leaves.found.iter().filter_map(|leaf| {
            let endpoints = self.endpoints(leaf.service()?)?.ok()?;
            let mut all = endpoints.assignment.localities.iter().flat_map(|it| &*it.endpoints);
            // If none takes calls, the cluster says so itself.
            all.any(|endpoint| endpoint.health != Health::Draining).then_some(())?;
            Some((&leaf.name, endpoints.left_out()?.to_string()))
        });
        let all = problems.filter(|_| !leaves.found.is_empty()).chain(endpoints);
        all.map(|(name, what)| format!("cluster `{}`: {what}", quoted(name))).collect()
    }

    /// Returns the names of DNS that a cluster leads to.
    pub(super) fn dns_names(&self) -> BTreeSet<(String, u16)> {
        let type_url = TypeUrl::new(Cluster::TYPE_URL);
        let clusters = self.config.of_type(&type_url);
        let clusters =
            clusters.filter_map(|(_, cached)| decoded::<Cluster>(cached.as_ref().ok()?).ok());
        let names = clusters.filter_map(|cluster| match &cluster.kind {
            ClusterKind::LogicalDns { host, port } => Some((host.clone(), *port)),
            _ => None,
        });
        names.collect()
    }

    fn target(
        &self,
        name: &Arc<str>,
        cluster: &Cluster,
        cached: &CachedResource,
        names: &mut PriorityNames,
    ) -> ClusterTarget {
        let service = match &cluster.kind {
            ClusterKind::Eds { service } => service.as_deref(),
            _ => None,
        };
        // Reports have the name that the cluster states, as those of other clients (C-132).
        let stated = service.unwrap_or_default();
        let sink = || {
            let server = self.client.server(cached.server)?;
            let load = self.client.load(server, name, stated).ok()?;
            let load = ClusterLoad::new(load, &cluster.reported_metrics);
            Some(Arc::new(load) as Arc<dyn LoadSink>)
        };
        let target = ClusterTarget {
            in_flight: process::in_flight(name, stated),
            max_requests: cluster.max_requests,
            load: cluster.reports_load.then(sink).flatten(),
            ..without_endpoints(name, "its endpoints are not known".into())
        };
        let target = match &cluster.kind {
            ClusterKind::Eds { .. } => {
                self.with_eds(target, cluster, service.unwrap_or(name), names)
            }
            ClusterKind::LogicalDns { host, port } => self.with_dns(target, host, *port),
            ClusterKind::Aggregate(_) => target,
        };
        ClusterTarget {
            sessions: self.has_sessions.then(|| self.sessions(name, cluster, &target)),
            ..target
        }
    }

    /// Returns the endpoints that sessions may stay with (C-106, C-109).
    fn sessions(&self, name: &str, cluster: &Cluster, target: &ClusterTarget) -> SessionEndpoints {
        let KeptSessions { health, idle_timeout } = cluster.sessions;
        let assigned = match &cluster.kind {
            ClusterKind::Eds { service } => self.endpoints(service.as_deref().unwrap_or(name)),
            ClusterKind::LogicalDns { .. } | ClusterKind::Aggregate(_) => None,
        };
        let endpoints = match assigned {
            Some(Ok(endpoints)) => endpoints.assignment.of_sessions(health),
            _ => endpoints_of(target).filter(|it| health.allows(it.health)).cloned().collect(),
        };
        SessionEndpoints { endpoints, idle_timeout }
    }

    fn with_eds(
        &self,
        target: ClusterTarget,
        cluster: &Cluster,
        service: &str,
        names: &mut PriorityNames,
    ) -> ClusterTarget {
        let Some(endpoints) = self.endpoints(service) else { return target };
        match endpoints {
            Ok(endpoints) => {
                let mut priorities = endpoints.assignment.priorities(&cluster.policy, None, names);
                let mut problem = None;
                if priorities.iter().all(|(_, priority)| priority.endpoints.is_empty()) {
                    priorities.clear();
                    let left_out = endpoints.left_out();
                    problem = left_out.map(|it| format!("no endpoint takes calls: {it}").into());
                }
                let drops = Arc::clone(&endpoints.drops);
                ClusterTarget { priorities, problem, drops, ..target }
            }
            Err(problem) => ClusterTarget { problem: Some(problem.into()), ..target },
        }
    }

    /// Returns the endpoints of a service, or the reason why there are none; `None` if they are not known yet.
    fn endpoints(&self, service: &str) -> Option<Result<Arc<Endpoints>, String>> {
        let key = ResourceName::read(service).map(|name| (TypeUrl::new(Endpoints::TYPE_URL), name));
        let cached = key.ok().and_then(|key| self.config.resources.get(&key))?;
        Some(match cached {
            Ok(cached) => decoded::<Endpoints>(cached),
            Err(error) => Err(error.to_string()),
        })
    }

    fn with_dns(&self, target: ClusterTarget, host: &str, port: u16) -> ClusterTarget {
        let hostname = format!("{host}:{port}").into();
        let policy = PolicyConfig::PickFirst { shuffle: false };
        match self.resolved.get(&(host.to_owned(), port)) {
            Some(found) => with_addresses(target, found, &policy, &hostname),
            None => target,
        }
    }
}

/// Returns the targets of a cluster that is these addresses, without a control plane: nothing is dropped, counted or
/// limited.
pub(super) fn of_addresses(
    name: &Arc<str>,
    found: &Result<Vec<SocketAddr>, String>,
    policy: &PolicyConfig,
) -> <Clusters as Node>::Config {
    let target = unlimited(name);
    vec![(Arc::clone(name), detecting(with_addresses(target, found, policy, &"".into()), None))]
}

/// Returns the targets of a cluster that is one endpoint without an address.
pub(super) fn of_endpoint(name: &Arc<str>, endpoint: &Arc<str>) -> <Clusters as Node>::Config {
    let endpoints = [Arc::new(Endpoint::named(Arc::clone(endpoint)))].into();
    let config = PolicyConfig::PickFirst { shuffle: false };
    let policy = PolicyTarget { config, endpoints, note: None };
    let priorities = vec![(ADDRESSES.into(), policy)];
    let target = ClusterTarget { priorities, problem: None, ..unlimited(name) };
    vec![(Arc::clone(name), detecting(target, None))]
}

fn unlimited(name: &Arc<str>) -> ClusterTarget {
    let target = without_endpoints(name, "its addresses are not known".into());
    ClusterTarget { max_requests: u32::MAX, ..target }
}

/// Gives a cluster the addresses that were found, each of which is an endpoint of this hostname.
fn with_addresses(
    target: ClusterTarget,
    found: &Result<Vec<SocketAddr>, String>,
    policy: &PolicyConfig,
    hostname: &Arc<str>,
) -> ClusterTarget {
    match found {
        Ok(addresses) => {
            let endpoint = |address: &SocketAddr| {
                Arc::new(Endpoint { hostname: Arc::clone(hostname), ..Endpoint::at(*address) })
            };
            let endpoints = addresses.iter().map(endpoint).collect();
            let policy = PolicyTarget { config: policy.clone(), endpoints, note: None };
            ClusterTarget { priorities: vec![(ADDRESSES.into(), policy)], problem: None, ..target }
        }
        Err(problem) => ClusterTarget { problem: Some(problem.as_str().into()), ..target },
    }
}

/// Adds outlier detection over all endpoints of a cluster (A75), with those that take the calls of sessions alone.
fn detecting(node: ClusterTarget, detection: Option<&Detection>) -> DetectionTarget<ClusterTarget> {
    let of_sessions = node.sessions.iter().flat_map(|sessions| &*sessions.endpoints);
    let draining = of_sessions.filter(|endpoint| endpoint.health == Health::Draining);
    let mut draining = draining.peekable();
    let endpoints = match &*node.priorities {
        [(_, one)] if draining.peek().is_none() => Arc::clone(&one.endpoints),
        _ => endpoints_of(&node).chain(draining).cloned().collect(),
    };
    DetectionTarget {
        cluster: Arc::clone(&node.name),
        detection: Arc::new(detection.cloned().unwrap_or_default()),
        endpoints,
        node,
    }
}

/// Returns the endpoints that take any call.
fn endpoints_of(target: &ClusterTarget) -> impl Iterator<Item = &Arc<Endpoint>> {
    target.priorities.iter().flat_map(|(_, target)| &*target.endpoints)
}

fn without_endpoints(name: &Arc<str>, problem: Arc<str>) -> ClusterTarget {
    ClusterTarget {
        name: Arc::clone(name),
        priorities: Vec::new(),
        problem: Some(problem),
        drops: Arc::default(),
        in_flight: Arc::default(),
        max_requests: 1024,
        load: None,
        sessions: None,
    }
}

/// The name of the only priority of a cluster that is addresses.
const ADDRESSES: &str = "addresses";
