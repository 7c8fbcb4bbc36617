//! The driver of a channel to an ordinary target: it resolves the name, runs one tree of policies, and publishes
//! the picker. There are no routes: each call goes to the one cluster.

use std::net::SocketAddr;
use std::sync::Arc;

use chancery_calls::balancing::{Node, PolicyConfig};
use chancery_calls::filters::{FilterChain, Overrides};
use chancery_calls::routing::{
    Action, DomainPattern, ForwardAction, PathMatcher, Route, RouteConfig, RouteMatcher,
    RouteTarget, VirtualHost,
};
use chancery_core::Time;
use tokio::time::{Instant, sleep_until};

use super::cluster::{Clusters, RunningCluster};
use super::dns::Names;
use super::published::{ChannelConfig, ClusterState, Published};
use super::security::EndpointSettings;
use super::shared::Shared;
use super::targets;
use super::ways::Place;
use crate::connect::{Answer, Inbox, Question};

/// The driver of a channel without a control plane.
pub(super) struct DirectDriver {
    shared: Arc<Shared>,
    /// The target, which is the name of the cluster in messages.
    name: Arc<str>,
    place: Place,
    policy: PolicyConfig,
    settings: EndpointSettings,
    inbox: Arc<Inbox>,
    cluster: RunningCluster,
    names: Names,
    began: Instant,
}

impl DirectDriver {
    pub(super) fn new(
        shared: Arc<Shared>,
        name: Arc<str>,
        place: Place,
        policy: PolicyConfig,
        settings: EndpointSettings,
    ) -> Self {
        let (inbox, began) = (Arc::clone(&shared.inbox), Instant::now());
        let authority = shared.uri_authority().ok();
        let (cluster, handle) =
            RunningCluster::new(Arc::clone(&name), CLUSTER, &inbox, authority, began);
        shared.publish(Published::Config(ChannelConfig {
            routes: Arc::new(all_to(&name)),
            max_stream_duration: None,
            trusts_authorities: false,
            is_direct: true,
            filters: FilterChain::without_filters(),
            clusters: [(Arc::clone(&name), handle)].into(),
        }));
        let names = Names::default();
        Self { shared, name, place, policy, settings, inbox, cluster, names, began }
    }

    /// Runs until the channel is dropped.
    pub(super) async fn run(mut self) {
        match &self.place {
            Place::Addresses(addresses) => self.update(&Ok(addresses.clone())),
            Place::Endpoint(endpoint) => {
                let targets = targets::of_endpoint(&self.name, endpoint);
                self.apply(&targets);
            }
            Place::Name { host, port } => self.names.want(&[(host.clone(), *port)].into()),
        }
        loop {
            self.settle();
            let deadline = self.cluster.deadline().map(|time| self.began + time.0);
            let timer = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.inbox.arrived() => self.take_mail(),
                () = self.names.answered() => self.take_answer(),
                () = timer => self.cluster.on_time(self.now()),
            }
        }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    fn take_answer(&mut self) {
        let Place::Name { host, port } = &self.place else { return };
        let found = self.names.resolved().get(&(host.clone(), *port)).cloned();
        if let Some(found) = found {
            self.update(&found);
        }
    }

    fn update(&mut self, found: &Result<Vec<SocketAddr>, String>) {
        let targets = targets::of_addresses(&self.name, found, &self.policy);
        self.apply(&targets);
    }

    fn apply(&mut self, targets: &<Clusters as Node>::Config) {
        let settings = [(Arc::clone(&self.name), self.settings.clone())].into();
        let now = self.now();
        self.cluster.update(targets, settings, &self.inbox, now);
    }

    fn take_mail(&mut self) {
        let mail = self.inbox.take();
        let now = self.now();
        for (key, states) in mail.states {
            states.iter().for_each(|state| self.cluster.subchannel(key.subchannel, state, now));
        }
        for wake in mail.wakes.into_values().flatten() {
            self.cluster.wake(wake, now);
        }
        for Question { answer, .. } in mail.questions {
            // Whoever has asked may have gone.
            let _ = answer.send(Answer { balancing: self.cluster.describe(), ..Answer::default() });
        }
    }

    fn settle(&mut self) {
        if self.cluster.settle(&self.inbox, &self.shared.target) {
            self.names.ask_again();
        }
    }
}

/// A driver that ends leaves nobody waiting, also where a runtime is shut down.
impl Drop for DirectDriver {
    fn drop(&mut self) {
        if let Some(handle) = self.cluster.handle() {
            handle.publish(ClusterState::closed());
        }
        self.shared.close();
    }
}

/// Returns routes by which all calls go to one cluster.
fn all_to(cluster: &Arc<str>) -> RouteConfig {
    let path = PathMatcher::Prefix { prefix: "".into(), ignores_case: false };
    let route = Route {
        name: Arc::clone(cluster),
        matcher: RouteMatcher { path, headers: Arc::from([]), fraction: None },
        action: Action::Forward(ForwardAction::to(RouteTarget::Cluster(Arc::clone(cluster)))),
        overrides: Overrides::default(),
    };
    RouteConfig::new(vec![VirtualHost {
        name: Arc::clone(cluster),
        domains: DomainPattern::parse("*").into_iter().collect(),
        routes: vec![route],
        retry: None,
        overrides: Overrides::default(),
    }])
}

/// The number of the only cluster.
const CLUSTER: u64 = 1;
