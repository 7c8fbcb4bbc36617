//! The dependencies of one listener, put together: published whole, or not at all ([gRFC A74]).
//!
//! ```text
//!   listener --> routes --> clusters --> endpoints
//!                             |  ^
//!                             +--+ aggregates
//! ```
//!
//! All that is reachable from the listener is wanted; when all of it is known, it is published.
//! Until then the last configuration stays in use, and its resources stay wanted (C-059). A cluster
//! that is not there fails for itself alone; without a listener or its routes there is nothing
//! (C-060). What nothing refers to any more is released with the next publication (C-057).
//!
//! Not here: how references are found in bodies, and the addresses behind names of DNS.
//!
//! [gRFC A74]: https://github.com/grpc/proposal/blob/master/A74-xds-config-tears.md

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::error::WatchError;
use super::resource::CachedResource;
use crate::{Api, Link, ResourceName, TypeUrl};

/// A resource by type and name.
pub type ResourceKey = (TypeUrl, ResourceName);

/// A resource, or why there is none.
pub type ResourceResult = Result<CachedResource, Arc<WatchError>>;

/// The configuration of a listener: all that it needs, as it was at one time.
#[derive(Clone, Debug)]
pub struct XdsConfig {
    /// The listener.
    pub listener: CachedResource,
    /// Everything else that it leads to: routes, clusters and endpoints. Clusters and endpoints may
    /// be missing, each for itself.
    pub resources: BTreeMap<ResourceKey, ResourceResult>,
}

/// The configuration of a listener, or why there is none.
pub type XdsConfigResult = Result<Arc<XdsConfig>, Arc<WatchError>>;

/// A change of what is to be watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchChange {
    /// Watch this from now on.
    Start(ResourceKey),
    /// Watch this no longer.
    Stop(ResourceKey),
}

/// Puts together the configuration of a listener.
///
/// An update costs what is new in it. All resources are looked at when something is published, and, once for all
/// updates before, when some have stopped referring to something.
#[derive(Debug)]
pub struct DependencyManager {
    root: ResourceKey,
    /// Clusters that are wanted for a reason of their own, and for how many.
    held_clusters: BTreeMap<ResourceName, usize>,
    wanted: BTreeSet<ResourceKey>,
    /// The resources that are known, of those that are wanted.
    nodes: BTreeMap<ResourceKey, GraphNode>,
    /// The resources of the last publication.
    published: BTreeSet<ResourceKey>,
    /// The resources that are watched for the last publication alone: nothing leads to them any more. What they
    /// lead to may not be watched.
    unreached: BTreeSet<ResourceKey>,
    /// True if something is different from the last publication.
    changed: bool,
    /// True if something may have stopped being reachable since all were looked at.
    is_stale: bool,
    watch_changes: VecDeque<WatchChange>,
}

/// A resource that is known, and those that it refers to.
#[derive(Debug)]
struct GraphNode {
    resource: ResourceResult,
    links: Vec<ResourceKey>,
}

impl DependencyManager {
    /// Returns the manager of the listener of this name.
    pub fn new(listener: ResourceName) -> Self {
        let root = (TypeUrl::new(LISTENER), listener);
        let mut dependencies = Self {
            root: root.clone(),
            held_clusters: BTreeMap::new(),
            wanted: BTreeSet::new(),
            nodes: BTreeMap::new(),
            published: BTreeSet::new(),
            unreached: BTreeSet::new(),
            changed: false,
            is_stale: false,
            watch_changes: VecDeque::new(),
        };
        dependencies.want(root);
        dependencies
    }

    /// Keeps a cluster, whether routes lead to it or not, until it is released as often.
    pub fn hold_cluster(&mut self, cluster: ResourceName) {
        self.want((TypeUrl::new(CLUSTER), cluster.clone()));
        *self.held_clusters.entry(cluster).or_default() += 1;
    }

    /// Lets go of a cluster that was held.
    pub fn release_cluster(&mut self, cluster: &ResourceName) {
        let Some(times) = self.held_clusters.get_mut(cluster) else { return };
        *times -= 1;
        if *times == 0 {
            self.held_clusters.remove(cluster);
            self.changed = true;
            self.is_stale = true;
        }
    }

    /// Stops watching what nothing leads to any more, and nothing in use needs, after updates and releases, however
    /// many.
    fn settle(&mut self) {
        if self.is_stale {
            self.prune(&self.reachable());
        }
    }

    /// Returns the next change of what is to be watched. Each is told once, in order.
    pub fn next_watch_change(&mut self) -> Option<WatchChange> {
        self.watch_changes.pop_front()
    }

    /// A resource that is watched is there, with what it refers to; or there is none.
    pub fn update(&mut self, key: ResourceKey, resource: ResourceResult, links: &[Link]) {
        if !self.wanted.contains(&key) {
            return;
        }
        let links = links.iter().filter(|link| link.aggregated && is_followed(link.type_url.api()));
        let links: Vec<_> = links.map(|link| (link.type_url.clone(), link.name.clone())).collect();
        if !self.unreached.contains(&key) {
            links.iter().for_each(|link| self.want(link.clone()));
        }
        let kept: BTreeSet<_> = links.iter().cloned().collect();
        let before = self.nodes.insert(key, GraphNode { resource, links });
        self.changed = true;
        self.is_stale |=
            before.is_some_and(|before| before.links.iter().any(|link| !kept.contains(link)));
    }

    /// Stops watching what updates and releases have left, and returns the next publication: if something has
    /// changed, and all there must be is known.
    pub fn next_config(&mut self) -> Option<XdsConfigResult> {
        self.settle();
        if !self.changed || self.nodes.len() < self.wanted.len() {
            return None;
        }
        self.changed = false;
        self.published.clear();
        let reachable = self.reachable();
        self.prune(&reachable);
        self.published = reachable;
        Some(self.assembled())
    }

    fn assembled(&self) -> XdsConfigResult {
        let mut resources = BTreeMap::new();
        for (key, node) in &self.nodes {
            if let (Api::Lds | Api::Rds, Err(error)) = (key.0.api(), &node.resource) {
                return Err(Arc::clone(error));
            }
            resources.insert(key.clone(), node.resource.clone());
        }
        match resources.remove(&self.root) {
            Some(Ok(listener)) => Ok(Arc::new(XdsConfig { listener, resources })),
            Some(Err(error)) => Err(error),
            None => Err(Arc::new(WatchError::broken("a listener is not part of what it needs"))),
        }
    }

    /// Watches a resource, if it is not watched. One that nothing led to leads on again.
    fn want(&mut self, key: ResourceKey) {
        let mut open = vec![key];
        while let Some(key) = open.pop() {
            if self.unreached.remove(&key) {
                let links = self.nodes.get(&key).map(|node| node.links.iter().cloned());
                open.extend(links.into_iter().flatten());
            } else if self.wanted.insert(key.clone()) {
                self.watch_changes.push_back(WatchChange::Start(key));
            }
        }
    }

    /// Releases what is neither among these nor in use.
    fn prune(&mut self, reachable: &BTreeSet<ResourceKey>) {
        self.is_stale = false;
        let (published, nodes) = (&self.published, &mut self.nodes);
        let watch_changes = &mut self.watch_changes;
        self.wanted.retain(|key| {
            let stays = reachable.contains(key) || published.contains(key);
            if !stays {
                nodes.remove(key);
                watch_changes.push_back(WatchChange::Stop(key.clone()));
            }
            stays
        });
        self.unreached = self.wanted.difference(reachable).cloned().collect();
    }

    /// Returns what the listener and the clusters that are held lead to, as far as that is known.
    fn reachable(&self) -> BTreeSet<ResourceKey> {
        let clusters = self.held_clusters.keys().map(|name| (TypeUrl::new(CLUSTER), name.clone()));
        let mut open: Vec<ResourceKey> = clusters.chain([self.root.clone()]).collect();
        let mut found = BTreeSet::new();
        while let Some(key) = open.pop() {
            if let Some(node) = self.nodes.get(&key) {
                open.extend(node.links.iter().filter(|link| !found.contains(*link)).cloned());
            }
            found.insert(key);
        }
        found
    }
}

impl XdsConfig {
    /// Returns a cluster, if the listener leads to it.
    pub fn cluster(&self, name: &ResourceName) -> Option<&ResourceResult> {
        self.resources.get(&(TypeUrl::new(CLUSTER), name.clone()))
    }

    /// Returns all resources of one type.
    pub fn of_type(
        &self,
        type_url: &TypeUrl,
    ) -> impl Iterator<Item = (&ResourceName, &ResourceResult)> {
        let resources = self.resources.iter().filter(move |((of, _), _)| of == type_url);
        resources.map(|((_, name), resource)| (name, resource))
    }
}

/// Returns true for the types that a gRPC data plane follows from a listener.
fn is_followed(api: Api) -> bool {
    matches!(api, Api::Rds | Api::Cds | Api::Eds)
}

const LISTENER: &str = "envoy.config.listener.v3.Listener";
const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::{ErrorKind, ServerKey, Setup};
    use super::*;
    use crate::{Resource, Time, Variant};

    fn type_url(short: &str) -> TypeUrl {
        TypeUrl::known().find(|known| known.short() == short).expect("a short name")
    }

    /// `cds a`
    fn key(text: &str) -> ResourceKey {
        let (short, name) = text.split_once(' ').expect("a type and a name");
        (type_url(short), name.parse().expect("a name"))
    }

    fn held(text: &str) -> CachedResource {
        let key =
            ServerKey { uri: "s".into(), credentials: "".into(), features: Default::default() };
        let mut setup = Setup::new(Arc::default(), Default::default());
        let protocol = super::super::Protocol::Stream { variant: Variant::Sotw, aggregated: true };
        let server = setup.server(key, protocol);
        let (_, name) = self::key(text);
        let resource = Arc::new(Resource::new(name, Bytes::from_static(b"x")));
        CachedResource {
            resource,
            decoded: None,
            version: "1".into(),
            last_updated: Time::default(),
            server,
            expires: None,
        }
    }

    fn missing() -> Arc<WatchError> {
        let (kind, text) = (ErrorKind::Missing, "gone".into());
        Arc::new(WatchError { kind, text, server: None, is_nameless: false })
    }

    /// Dependencies, and what is watched for them.
    struct Play(DependencyManager, BTreeSet<ResourceKey>);

    impl Play {
        fn heard(&mut self, text: &str, links: &[&str]) -> &mut Self {
            let links: Vec<_> = links.iter().map(|link| key(link)).collect();
            let links: Vec<_> = links
                .into_iter()
                .map(|(type_url, name)| Link { type_url, name, aggregated: true })
                .collect();
            self.0.update(key(text), Ok(held(text)), &links);
            self
        }

        fn gone(&mut self, text: &str) -> &mut Self {
            self.0.update(key(text), Err(missing()), &[]);
            self
        }

        fn wanted(&mut self) -> String {
            self.0.settle();
            while let Some(need) = self.0.next_watch_change() {
                let fresh = match need {
                    WatchChange::Start(key) => self.1.insert(key),
                    WatchChange::Stop(key) => self.1.remove(&key),
                };
                assert!(fresh, "each once");
            }
            text(self.1.iter())
        }

        fn published(&mut self) -> String {
            match self.0.next_config() {
                None => "nothing".to_owned(),
                Some(Err(error)) => format!("error {}", error.text),
                Some(Ok(assembly)) => assembly
                    .resources
                    .iter()
                    .map(|((of, name), part)| {
                        let without = if part.is_ok() { "" } else { "!" };
                        format!("{without}{} {name}", of.short())
                    })
                    .collect::<Vec<_>>()
                    .join(", "),
            }
        }
    }

    fn text<'a>(keys: impl Iterator<Item = &'a ResourceKey>) -> String {
        let keys = keys.map(|(of, name)| format!("{} {name}", of.short()));
        keys.collect::<Vec<_>>().join(", ")
    }

    fn play() -> Play {
        Play(DependencyManager::new("l".parse().expect("a name")), BTreeSet::new())
    }

    /// C-059: the endpoints of a new cluster are late.
    #[test]
    fn what_is_published_is_complete() {
        let mut play = play();
        assert_eq!(play.wanted(), "lds l");
        play.heard("lds l", &["rds r"]).heard("rds r", &["cds a"]).heard("cds a", &["eds a"]);
        assert_eq!(play.published(), "nothing");
        assert_eq!(play.wanted(), "cds a, eds a, lds l, rds r");
        assert_eq!(play.heard("eds a", &[]).published(), "cds a, eds a, rds r");
        assert_eq!(play.published(), "nothing", "once");
        play.heard("rds r", &["cds b"]);
        assert_eq!(play.published(), "nothing");
        assert_eq!(play.wanted(), "cds a, cds b, eds a, lds l, rds r", "the old one is in use");
        play.heard("cds b", &["eds b"]);
        assert_eq!(play.published(), "nothing");
        assert_eq!(play.heard("eds b", &[]).published(), "cds b, eds b, rds r");
        assert_eq!(play.wanted(), "cds b, eds b, lds l, rds r");
    }

    /// C-060
    #[test]
    fn a_cluster_fails_for_itself_and_a_listener_for_all() {
        let mut play = play();
        play.heard("lds l", &["rds r"]).heard("rds r", &["cds a", "cds b", "cds c"]);
        play.heard("cds a", &[]).gone("cds b").heard("cds c", &["eds c"]).gone("eds c");
        assert_eq!(play.published(), "cds a, !cds b, cds c, !eds c, rds r");
        assert_eq!(play.gone("rds r").published(), "error gone");
        assert_eq!(play.wanted(), "lds l, rds r");
        assert_eq!(play.gone("lds l").published(), "error gone");
        assert_eq!(play.wanted(), "lds l");
    }

    /// C-057: nobody waits for what is not referred to any more.
    #[test]
    fn a_reference_that_is_taken_back_is_not_waited_for() {
        let mut play = play();
        play.heard("lds l", &["rds r"]).heard("rds r", &["cds a", "cds late"]).heard("cds a", &[]);
        assert_eq!(play.published(), "nothing");
        assert_eq!(play.heard("rds r", &["cds a"]).published(), "cds a, rds r");
        assert_eq!(play.wanted(), "cds a, lds l, rds r");
        play.heard("cds late", &[]);
        assert_eq!(play.published(), "nothing", "nobody wants it");
    }

    /// C-057
    #[test]
    fn what_nothing_refers_to_is_released() {
        let mut play = play();
        play.heard("lds l", &["cds a", "cds b"]).heard("cds a", &[]).heard("cds b", &[]);
        assert_eq!(play.published(), "cds a, cds b");
        assert_eq!(play.heard("lds l", &["cds b"]).published(), "cds b");
        assert_eq!(play.wanted(), "cds b, lds l");
    }

    /// C-059: a cluster of a plugin.
    #[test]
    fn a_cluster_that_is_held_stays_until_it_is_released() {
        let mut play = play();
        play.heard("lds l", &[]);
        assert_eq!(play.published(), "");
        let name: ResourceName = "x".parse().expect("a name");
        play.0.hold_cluster(name.clone());
        assert_eq!(play.wanted(), "cds x, lds l");
        assert_eq!(play.published(), "nothing");
        assert_eq!(play.heard("cds x", &[]).published(), "cds x");
        play.0.hold_cluster(name.clone());
        assert_eq!(play.published(), "nothing", "it is there already");
        play.0.release_cluster(&name);
        assert_eq!(play.published(), "nothing");
        play.0.release_cluster(&name);
        assert_eq!(play.published(), "");
    }

    /// C-057, C-059: endpoints that were let go while the cluster of the last publication stayed.
    #[test]
    fn a_cluster_that_is_referred_to_again_has_its_endpoints() {
        let mut play = play();
        let name: ResourceName = "x".parse().expect("a name");
        play.heard("lds l", &["cds x"]).heard("cds x", &["eds x"]).heard("eds x", &[]);
        assert_eq!(play.published(), "cds x, eds x");
        play.0.hold_cluster(name.clone());
        assert_eq!(play.gone("lds l").gone("cds x").published(), "error gone");
        assert_eq!(play.wanted(), "cds x, lds l");
        play.heard("cds x", &["eds x"]);
        assert_eq!(play.wanted(), "cds x, eds x, lds l");
        play.0.release_cluster(&name);
        assert_eq!(play.wanted(), "cds x, lds l", "nothing leads to it");
        play.heard("lds l", &["cds x"]);
        assert_eq!(play.wanted(), "cds x, eds x, lds l");
        assert_eq!(play.published(), "nothing");
        assert_eq!(play.heard("eds x", &[]).published(), "cds x, eds x");
    }

    /// C-057: neither is it waited for what was only in use, and changes.
    #[test]
    fn nobody_waits_for_what_a_cluster_that_nothing_refers_to_leads_to() {
        let mut play = play();
        play.heard("lds l", &["cds a"]).heard("cds a", &["eds a"]).heard("eds a", &[]);
        assert_eq!(play.published(), "cds a, eds a");
        play.heard("lds l", &["cds b"]).heard("cds a", &["eds late"]);
        assert_eq!(play.wanted(), "cds a, cds b, eds a, lds l");
        play.heard("lds l", &["cds a"]);
        assert_eq!(play.wanted(), "cds a, eds a, eds late, lds l", "it leads on again");
        assert_eq!(play.heard("lds l", &[]).published(), "");
        assert_eq!(play.wanted(), "lds l");
    }

    #[test]
    fn what_many_updates_leave_is_looked_for_once() {
        // C-057
        let mut play = play();
        let clusters: Vec<_> = (0..4).map(|at| format!("cds {at}")).collect();
        let links: Vec<_> = clusters.iter().map(String::as_str).collect();
        play.heard("lds l", &links);
        for at in 0..4 {
            play.heard(&format!("cds {at}"), &[&format!("eds {at}")])
                .heard(&format!("eds {at}"), &[]);
        }
        play.published();
        play.wanted();
        for at in 0..4 {
            play.heard(&format!("cds {at}"), &[&format!("eds new-{at}")]);
        }
        let told: Vec<_> = std::iter::from_fn(|| play.0.next_watch_change()).collect();
        assert!(told.iter().all(|it| matches!(it, WatchChange::Start(_))), "{told:?}");
        for at in 0..4 {
            play.heard(&format!("eds new-{at}"), &[]);
        }
        assert!(play.0.next_config().is_some());
        let told: Vec<_> = std::iter::from_fn(|| play.0.next_watch_change()).collect();
        assert_eq!(
            told,
            (0..4).map(|at| WatchChange::Stop(key(&format!("eds {at}")))).collect::<Vec<_>>()
        );
    }

    /// C-059: aggregates, and one that leads back to itself.
    #[test]
    fn aggregates_may_lead_anywhere() {
        let mut play = play();
        play.heard("lds l", &["cds a"]).heard("cds a", &["cds b", "cds a"]);
        play.heard("cds b", &["cds a", "eds b"]).heard("eds b", &[]);
        assert_eq!(play.published(), "cds a, cds b, eds b");
    }
}
