//! Sessions on the way of a call: the filter reads the cookie of the call, may choose another cluster of the route, and
//! adds a cookie to the response (C-106; gRFCs A55, A60).
//!
//! Not here: the cookie as a value (`chancery_calls::filters::session`), and the endpoint of a session
//! (`chancery_calls::balancing`).

use std::net::SocketAddr;
use std::sync::Arc;

use chancery_calls::filters::session::{SessionCookie, SessionRequest};
use chancery_calls::filters::{FilterChain, FilterConfig};
use chancery_calls::routing::{Action, Decision, ForwardAction, Route, RouteConfig, RouteTarget};
use http::header::{HeaderMap, SET_COOKIE};

use super::place::CallPlace;
use super::published::{ClusterHandle, Published};

/// The sessions of a call that passes filters with sessions.
pub(super) struct CallSessions {
    /// The configuration that decided about the call, until the cluster is chosen. Its clusters live as long as this.
    published: Option<Arc<Published>>,
    /// The places of the virtual host and of the route in it.
    route: (usize, usize),
    session: Option<CallSession>,
}

/// The session that a call has, or begins.
pub(super) struct CallSession {
    cookie: Arc<SessionCookie>,
    request: SessionRequest,
}

impl CallSessions {
    /// Returns a call without a session, if one of its filters may give it one.
    pub(super) fn of(
        filters: &FilterChain,
        published: &Arc<Published>,
        decision: &Decision<'_>,
    ) -> Option<Box<Self>> {
        let has_sessions = filters.filters().iter().any(|filter| is_session(&filter.config));
        has_sessions.then(|| {
            let route = (decision.place.host_index, decision.place.route_index);
            let published = Some(Arc::clone(published));
            Box::new(Self { published, route, session: None })
        })
    }

    /// Reads the cookie of the call. Returns the cluster of its session, if the route leads there. Of several filters
    /// the last counts.
    pub(super) fn begin(
        &mut self,
        cookie: &Arc<SessionCookie>,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Arc<ClusterHandle>> {
        // A cookie for other paths is as if the filter were not there.
        let session = CallSession::new(cookie, path, headers)?;
        let cluster = session.cluster().and_then(|name| self.cluster(name));
        self.session = Some(session);
        cluster
    }

    /// Takes in that the cluster is chosen: the call keeps nothing else of the configuration (C-100, gRFC A60).
    /// Returns what it keeps, if it has a session.
    pub(super) fn chosen(mut self: Box<Self>) -> Option<Box<Self>> {
        self.published = None;
        self.session.is_some().then_some(self)
    }

    pub(super) fn session(&self) -> Option<&CallSession> {
        self.session.as_ref()
    }

    /// Returns a cluster that the route of the call leads to.
    fn cluster(&self, name: &str) -> Option<Arc<ClusterHandle>> {
        let Published::Config(config) = &**self.published.as_ref()? else { return None };
        let route = config.routes.hosts().get(self.route.0)?.routes.get(self.route.1)?;
        let Action::Forward(action) = &route.action else { return None };
        config.clusters.get(action.target.find(name)?.name()).cloned()
    }
}

impl CallSession {
    /// Reads the cookie of a call. `None` if the cookie is for calls of other paths.
    pub(super) fn new(
        cookie: &Arc<SessionCookie>,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Self> {
        let request = cookie.request(path, headers)?;
        Some(Self { cookie: Arc::clone(cookie), request })
    }

    /// Returns the session that a call has after all filters.
    pub(super) fn after(filters: &FilterChain, path: &str, headers: &HeaderMap) -> Option<Self> {
        filters.filters().iter().rev().find_map(|filter| match &filter.config {
            FilterConfig::Session(cookie) => Self::new(cookie, path, headers),
            _ => None,
        })
    }

    /// The addresses of the endpoint of the session; none if it begins.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        self.request.target.as_ref().map(|target| &*target.addresses).unwrap_or_default()
    }

    /// The cluster of the session.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.request.target.as_ref()?.cluster.as_deref()
    }

    /// Adds a cookie to the response of a call that has gone somewhere else than its session. The cluster is that of
    /// the route, also where it aggregates others.
    pub(super) fn answer(&self, headers: &mut HeaderMap, place: &CallPlace, cluster: &str) {
        let (used, all) = (place.address(), place.addresses());
        if let Some(cookie) = self.cookie.response(&self.request, used, all, cluster) {
            headers.append(SET_COOKIE, cookie);
        }
    }
}

/// Returns true if calls may have sessions, by the filters of a listener or by a route that puts them there.
pub(super) fn are_in(filters: &FilterChain, routes: &RouteConfig) -> bool {
    let mut of_listener = filters.filters().iter().map(|filter| &filter.config);
    let mut of_routes = routes.hosts().iter().flat_map(|host| {
        let of_routes = host.routes.iter().flat_map(of_route);
        host.overrides.configs().chain(of_routes)
    });
    of_listener.any(is_session) || of_routes.any(is_session)
}

/// The configurations of filters of a route and of its weighted clusters.
fn of_route(route: &Route) -> impl Iterator<Item = &FilterConfig> {
    let weighted = match &route.action {
        Action::Forward(ForwardAction { target: RouteTarget::Weighted(weighted), .. }) => {
            weighted.clusters()
        }
        _ => &[],
    };
    let of_clusters = weighted.iter().flat_map(|cluster| cluster.overrides.configs());
    route.overrides.configs().chain(of_clusters)
}

fn is_session(config: &FilterConfig) -> bool {
    matches!(config, FilterConfig::Session(_))
}
