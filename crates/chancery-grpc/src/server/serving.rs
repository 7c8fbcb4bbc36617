//! A listener that is in force, and the routes of its filter chains. The listener is replaced as a whole; the
//! routes of its chains are replaced in place, so that connections stay (C-145).

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use bytes::Bytes;
use chancery_calls::Failure;
use chancery_calls::filters::{Filter, FilterChain};
use chancery_calls::routing::{MergedChains, Place, RouteConfig};
use chancery_calls::serving::ArrivedConnection;
use tokio::sync::watch;

use super::route_watches::RouteResult;
use super::security::{Security, ServerSecurity};
use crate::read::listeners::RouteSource;
use crate::read::server_listeners::{ServerChain, ServerListener};

/// A listener that is in force. When it is dropped, its connections are drained.
pub(super) struct Serving {
    listener: Arc<ServerListener>,
    /// The bytes of the resource, by which another one is told from the same one.
    pub(super) body: Bytes,
    chains: Vec<Arc<ServingChain>>,
    /// The places of the chains that have the routes of this name.
    by_routes: BTreeMap<String, Vec<usize>>,
    drain: watch::Sender<()>,
}

/// A filter chain that is in force.
pub(super) struct ServingChain {
    filters: FilterChain,
    pub(super) security: Security,
    routes: ArcSwap<ChainRoutes>,
}

/// The routes of a chain at one time, or the reason why its calls fail (C-144).
pub(super) enum ChainRoutes {
    Usable {
        routes: Arc<RouteConfig>,
        /// The filters of each route. A chain that no connection has is not merged.
        merged: OnceLock<MergedChains>,
    },
    Failed(Failure),
}

impl Serving {
    /// Brings a listener into force, with the routes that are known under these names.
    pub(super) fn new(
        listener: Arc<ServerListener>,
        body: Bytes,
        security: &ServerSecurity,
        routes: impl Fn(&str) -> RouteResult,
    ) -> Self {
        let mut by_routes = BTreeMap::<_, Vec<_>>::new();
        for (at, chain) in listener.chains().iter().enumerate() {
            if let RouteSource::Rds(name) = &chain.routes {
                by_routes.entry(name.clone()).or_default().push(at);
            }
        }
        let chains = listener.chains().iter();
        let chains = chains.map(|it| Arc::new(ServingChain::new(it, security, &routes))).collect();
        Self { listener, body, chains, by_routes, drain: watch::channel(()).0 }
    }

    /// Returns the chain of a connection; `None` if it is to be closed.
    pub(super) fn choose(&self, connection: &ArrivedConnection) -> Option<Arc<ServingChain>> {
        self.chains.get(self.listener.choose(connection)?).cloned()
    }

    /// Returns what ends when the connections of this listener are to be drained.
    pub(super) fn drained(&self) -> watch::Receiver<()> {
        self.drain.subscribe()
    }

    /// Replaces the routes of this name.
    pub(super) fn update(&self, name: &str, routes: &RouteResult) {
        for at in self.by_routes.get(name).into_iter().flatten() {
            if let Some(chain) = self.chains.get(*at) {
                chain.routes.store(Arc::new(ChainRoutes::of(routes)));
            }
        }
    }

    /// Returns the names of all routes.
    pub(super) fn route_names(&self) -> impl Iterator<Item = &str> {
        self.by_routes.keys().map(String::as_str)
    }
}

impl ServingChain {
    fn new(
        chain: &ServerChain,
        security: &ServerSecurity,
        routes: impl Fn(&str) -> RouteResult,
    ) -> Self {
        let routes = match &chain.routes {
            RouteSource::Inline(routes) => Ok(Arc::clone(routes)),
            RouteSource::Rds(name) => routes(name),
        };
        let filters = chain.filters.clone();
        let security = security.of(chain.tls.as_ref());
        Self { filters, security, routes: ArcSwap::from_pointee(ChainRoutes::of(&routes)) }
    }

    /// Returns the routes of this moment.
    pub(super) fn routes(&self) -> Arc<ChainRoutes> {
        self.routes.load_full()
    }

    /// Returns the filters of a call, by the routes that it was routed by.
    pub(super) fn filters<'r>(
        &self,
        place: &Place<'r>,
        routes: &RouteConfig,
        merged: &'r OnceLock<MergedChains>,
    ) -> Result<&'r [Filter], Failure> {
        merged.get_or_init(|| MergedChains::new(&self.filters, routes)).of_place(place)
    }
}

impl ChainRoutes {
    fn of(routes: &RouteResult) -> Self {
        match routes {
            Ok(routes) => Self::Usable { routes: Arc::clone(routes), merged: OnceLock::new() },
            Err(failure) => Self::Failed(failure.clone()),
        }
    }
}
