//! The filters of each way, merged once when a configuration is applied and not for each call (C-093).

use super::{Action, ChosenTarget, Decision, Place, RouteConfig, RouteTarget};
use crate::Failure;
use crate::filters::{Filter, FilterChain, OverrideScopes};

/// The filter chains of all ways through one [`RouteConfig`]. A way that changes nothing shares the chain of
/// the listener.
#[derive(Debug)]
pub struct MergedChains(Vec<Vec<RouteChains>>);

/// The chains of one route.
#[derive(Debug)]
struct RouteChains {
    /// For a route with one target, or on a server.
    route: Result<FilterChain, Failure>,
    /// For each weighted cluster.
    clusters: Vec<Result<FilterChain, Failure>>,
}

impl MergedChains {
    /// Merges the filters of a listener with what the routes say of them.
    pub fn new(chain: &FilterChain, routes: &RouteConfig) -> Self {
        let merge = |scopes: OverrideScopes<'_>| {
            chain.with(&scopes).map_err(|fault| Failure::unavailable(fault.to_string()))
        };
        let hosts = routes.hosts().iter().map(|host| {
            let routes = host.routes.iter().map(|route| {
                let scopes = |cluster| OverrideScopes {
                    cluster,
                    route: &route.overrides,
                    host: &host.overrides,
                };
                let clusters = match &route.action {
                    Action::Forward(action) => match &action.target {
                        RouteTarget::Weighted(clusters) => clusters.clusters(),
                        RouteTarget::Cluster(_) | RouteTarget::Plugin(_) => &[],
                    },
                    _ => &[],
                };
                let clusters =
                    clusters.iter().map(|cluster| merge(scopes(Some(&cluster.overrides))));
                RouteChains { route: merge(scopes(None)), clusters: clusters.collect() }
            });
            routes.collect()
        });
        Self(hosts.collect())
    }

    /// The filters of a call, on a client. The decision is one of the same configuration. The call fails if
    /// an override is not one of its filter.
    pub fn of(&self, decision: &Decision<'_>) -> Result<&[Filter], Failure> {
        let chains = self.chains(&decision.place)?;
        let chain = match decision.target {
            ChosenTarget::Weighted { index, .. } => chains.clusters.get(index),
            ChosenTarget::Cluster(_) | ChosenTarget::Plugin(_) => Some(&chains.route),
        };
        filters(chain.ok_or_else(foreign)?)
    }

    /// The filters of a call, on a server.
    pub fn of_place(&self, place: &Place<'_>) -> Result<&[Filter], Failure> {
        filters(&self.chains(place)?.route)
    }

    fn chains(&self, place: &Place<'_>) -> Result<&RouteChains, Failure> {
        let host = self.0.get(place.host_index);
        host.and_then(|host| host.get(place.route_index)).ok_or_else(foreign)
    }
}

fn filters(chain: &Result<FilterChain, Failure>) -> Result<&[Filter], Failure> {
    chain.as_ref().map(FilterChain::filters).map_err(Clone::clone)
}

/// The failure of a caller that mixes up two configurations.
fn foreign() -> Failure {
    Failure::new(crate::Code::Internal, "the route is not one of these filters")
}
