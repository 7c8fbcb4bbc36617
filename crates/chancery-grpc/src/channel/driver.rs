//! The driver of a channel: it follows the listener, runs the trees of its clusters, and publishes what
//! calls see. There is one task for each channel.

use std::collections::BTreeMap;
use std::sync::Arc;

use chancery_calls::Failure;
use chancery_client::Client;
use chancery_client::resource::decoded;
use chancery_client::watch::XdsConfigWatch;
use chancery_core::client::{ServerId, XdsConfig, XdsConfigResult};
use chancery_core::{ResourceName, Time};
use tokio::time::{Instant, sleep_until};

use super::cluster::RunningCluster;
use super::dns::Names;
use super::leaves::Leaves;
use super::outdated;
use super::published::{ChannelConfig, ClusterHandle, ClusterState, Published};
use super::security::ChannelSecurity;
use super::sessions;
use super::shared::Shared;
use super::targets::{Targets, clusters_of};
use crate::connect::{Answer, Inbox, Question};
use crate::read::listeners::{Listener, RouteSource};
use crate::read::quoted;
use crate::read::routes::Routes;
use crate::read::surroundings::{Surroundings, decode_for};

/// The driver of a channel.
pub(super) struct Driver {
    shared: Arc<Shared>,
    client: Client,
    security: ChannelSecurity,
    watch: XdsConfigWatch,
    inbox: Arc<Inbox>,
    clusters: BTreeMap<Arc<str>, RunningCluster>,
    names_by_id: BTreeMap<u64, Arc<str>>,
    last_id: u64,
    names: Names,
    /// The newest configuration, which is in use once its names of DNS are answered.
    config: Option<Arc<XdsConfig>>,
    began: Instant,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        client: Client,
        listener: ResourceName,
        surroundings: Surroundings,
        security: ChannelSecurity,
    ) -> Self {
        decode_for(&client, surroundings);
        let watch = client.follow(listener);
        let inbox = Arc::clone(&shared.inbox);
        Self {
            shared,
            inbox,
            client,
            security,
            watch,
            clusters: BTreeMap::new(),
            names_by_id: BTreeMap::new(),
            last_id: 0,
            names: Names::default(),
            config: None,
            began: Instant::now(),
        }
    }

    /// Runs until the client has ended.
    pub(super) async fn run(mut self) {
        loop {
            let deadline = self.clusters.values().filter_map(RunningCluster::deadline).min();
            let deadline = deadline.map(|time| self.began + time.0);
            let timer = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                config = self.watch.next() => match config {
                    Some(config) => self.receive(config),
                    None => return,
                },
                () = self.inbox.arrived() => self.take_mail(),
                () = self.names.answered() => self.apply(),
                () = timer => self.on_time(),
            }
            self.settle();
        }
    }

    fn now(&self) -> Time {
        Time(self.began.elapsed())
    }

    fn receive(&mut self, config: XdsConfigResult) {
        match config {
            Ok(config) => {
                self.config = Some(config);
                self.apply();
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn fail(&mut self, why: String) {
        self.config = None;
        self.shared.publish(Published::Failed(Failure::unavailable(why)));
    }

    /// Brings the clusters to the configuration first, and the routes to them after that, so that no
    /// call meets a cluster that is not ready to be asked (C-101).
    fn apply(&mut self) {
        let Some(config) = self.config.clone() else { return };
        let (listener, routes, server) = match routes_of(&config) {
            Ok(found) => found,
            Err(why) => return self.fail(why),
        };
        let has_sessions = sessions::are_in(&listener.filters, &routes.0);
        let names = self.targets(&config, has_sessions).dns_names();
        self.names.want(&names);
        if !self.names.are_answered() {
            // The names of DNS are a part of the configuration, which is used whole (gRFC A74).
            return self.wait_for_names();
        }
        let named = clusters_of(&routes.0);
        let handles: BTreeMap<_, _> =
            named.into_iter().map(|name| (Arc::clone(&name), self.handle(&name))).collect();
        self.update_clusters(has_sessions);
        self.settle();
        self.shared.publish(Published::Config(ChannelConfig {
            routes: Arc::clone(&routes.0),
            max_stream_duration: listener.max_stream_duration,
            trusts_authorities: self.client.server(server).is_some_and(|it| it.features.trusted),
            is_direct: false,
            filters: listener.filters.clone(),
            clusters: handles,
        }));
    }

    /// Lets calls that have no configuration say that they wait for names.
    fn wait_for_names(&self) {
        if matches!(**self.shared.published(), Published::Waiting { for_names: false }) {
            self.shared.publish(Published::Waiting { for_names: true });
        }
    }

    fn targets<'a>(&'a self, config: &'a XdsConfig, has_sessions: bool) -> Targets<'a> {
        let (client, security) = (&self.client, &self.security);
        Targets { config, client, resolved: self.names.resolved(), security, has_sessions }
    }

    /// Returns the handle of a cluster, which is made if nobody has one.
    fn handle(&mut self, name: &Arc<str>) -> Arc<ClusterHandle> {
        if let Some(handle) = self.clusters.get(name).and_then(RunningCluster::handle) {
            return handle;
        }
        self.remove(name);
        self.last_id += 1;
        let (id, authority) = (self.last_id, self.shared.uri_authority().ok());
        let (running, handle) =
            RunningCluster::new(Arc::clone(name), id, &self.inbox, authority, self.began);
        self.names_by_id.insert(self.last_id, Arc::clone(name));
        self.clusters.insert(Arc::clone(name), running);
        if let Ok(name) = ResourceName::read(name) {
            self.watch.hold(name);
        }
        handle
    }

    fn remove(&mut self, name: &Arc<str>) {
        if let Some(cluster) = self.clusters.remove(name) {
            self.names_by_id.remove(&cluster.id);
            if let Ok(name) = ResourceName::read(name) {
                self.watch.release(&name);
            }
        }
    }

    /// Gives all clusters what the configuration says of them.
    fn update_clusters(&mut self, has_sessions: bool) {
        let Some(config) = self.config.clone() else { return };
        let now = self.now();
        let mut clusters = std::mem::take(&mut self.clusters);
        for (name, cluster) in &mut clusters {
            let targets = self.targets(&config, has_sessions);
            if cluster.is_outdated(targets.sources(name)) {
                let settings = targets.settings(name);
                let targets = targets.of(name, &mut cluster.names);
                cluster.update(&targets, settings, &self.inbox, now);
            }
        }
        self.clusters = clusters;
    }

    fn take_mail(&mut self) {
        let mail = self.inbox.take();
        let now = self.now();
        for (key, states) in mail.states {
            let name = self.names_by_id.get(&key.cluster);
            if let Some(cluster) = name.and_then(|name| self.clusters.get_mut(name)) {
                states.iter().for_each(|state| cluster.subchannel(key.subchannel, state, now));
            }
        }
        for (id, wakes) in mail.wakes {
            let name = self.names_by_id.get(&id);
            if let Some(cluster) = name.and_then(|name| self.clusters.get_mut(name)) {
                wakes.into_iter().for_each(|wake| cluster.wake(wake, now));
            }
        }
        for Question { cluster, answer } in mail.questions {
            // Whoever has asked may have gone.
            let _ = answer.send(self.answer(cluster));
        }
        if mail.has_unused {
            let unused = self.clusters.iter().filter(|(_, it)| it.handle().is_none());
            for name in unused.map(|(name, _)| Arc::clone(name)).collect::<Vec<_>>() {
                self.remove(&name);
            }
        }
    }

    /// Tells of the way of a call to a cluster, or to none.
    fn answer(&self, cluster: Option<u64>) -> Answer {
        let name = cluster.and_then(|id| self.names_by_id.get(&id));
        let balancing = name.and_then(|name| self.clusters.get(name)?.describe());
        let Some(config) = &self.config else { return Answer { balancing, ..Answer::default() } };
        let leaves = name.map(|name| Leaves::of(config, name)).unwrap_or_default();
        let outdated = outdated::errors(&self.client, config, leaves.keys());
        let left_out = self.targets(config, false).left_out(&leaves);
        Answer { balancing, left_out, outdated }
    }

    fn on_time(&mut self) {
        let now = self.now();
        self.clusters.values_mut().for_each(|cluster| cluster.on_time(now));
    }

    fn settle(&mut self) {
        let mut resolves = false;
        for cluster in self.clusters.values_mut() {
            resolves |= cluster.settle(&self.inbox, &self.shared.target);
        }
        if resolves {
            self.names.ask_again();
        }
    }
}

/// A driver that ends leaves nobody waiting, also where its client ends or a runtime is shut down. The
/// calls of a channel that is dropped have ended before it, but for those whose responses are read.
impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.close();
        let handles = self.clusters.values().filter_map(RunningCluster::handle);
        handles.for_each(|handle| handle.publish(ClusterState::closed()));
    }
}

/// Returns the listener of a configuration, its routes, and the server that these came from.
fn routes_of(config: &XdsConfig) -> Result<(Arc<Listener>, Routes, ServerId), String> {
    let listener = decoded::<Listener>(&config.listener)?;
    if let RouteSource::Inline(routes) = &listener.routes {
        let routes = Routes(Arc::clone(routes));
        return Ok((listener, routes, config.listener.server));
    }
    let key = listener.routes_key()?.ok_or("the listener has no routes")?;
    let unknown = || format!("the routes `{}` are not known", quoted(key.1.as_str()));
    let cached = config.resources.get(&key).ok_or_else(unknown)?;
    let cached = cached.as_ref().map_err(|error| error.to_string())?;
    let routes = decoded::<Routes>(cached)?;
    Ok((listener, Routes(Arc::clone(&routes.0)), cached.server))
}
