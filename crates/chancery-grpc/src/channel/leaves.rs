//! The clusters that a cluster leads to: itself, or those that it aggregates (C-119, gRFC A37). Not here: what is made
//! of them (`targets`).

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_client::ResourceType;
use chancery_client::resource::{CachedResource, decoded};
use chancery_core::client::{ResourceKey, XdsConfig};
use chancery_core::{ResourceName, TypeUrl};

use crate::read::clusters::{Cluster, ClusterKind};
use crate::read::endpoints::Endpoints;

/// The depth to which aggregates may stand in each other.
const MAX_DEPTH: usize = 16;

/// The leaves below a cluster, depth first, each once.
#[derive(Default)]
pub(super) struct Leaves<'a> {
    pub(super) found: Vec<Leaf<'a>>,
    /// The clusters that cannot be used, and why. They count only if there is no leaf.
    pub(super) problems: Vec<(Arc<str>, Arc<str>)>,
    /// All clusters, also aggregates.
    pub(super) seen: BTreeSet<Arc<str>>,
}

/// A cluster that is no aggregate.
pub(super) struct Leaf<'a> {
    pub(super) name: Arc<str>,
    pub(super) cluster: Arc<Cluster>,
    pub(super) cached: &'a CachedResource,
}

impl Leaf<'_> {
    /// The name of its endpoints, if the control plane has them.
    pub(super) fn service(&self) -> Option<&str> {
        match &self.cluster.kind {
            ClusterKind::Eds { service } => Some(service.as_deref().unwrap_or(&self.name)),
            ClusterKind::LogicalDns { .. } | ClusterKind::Aggregate(_) => None,
        }
    }
}

impl<'a> Leaves<'a> {
    /// Returns the leaves below a cluster.
    pub(super) fn of(config: &'a XdsConfig, name: &Arc<str>) -> Self {
        let mut leaves = Self::default();
        leaves.add(config, name, 1);
        leaves
    }

    /// Returns the resources that they and the aggregates above them are made of. One that does not exist may be
    /// among them.
    pub(super) fn keys(&self) -> impl Iterator<Item = ResourceKey> {
        let services = self.found.iter().filter_map(Leaf::service);
        let keys = self.seen.iter().map(|name| (Cluster::TYPE_URL, &**name));
        let keys = keys.chain(services.map(|name| (Endpoints::TYPE_URL, name)));
        keys.filter_map(|(kind, name)| Some((TypeUrl::new(kind), ResourceName::read(name).ok()?)))
    }

    fn add(&mut self, config: &'a XdsConfig, name: &Arc<str>, depth: usize) {
        if depth > MAX_DEPTH {
            // It may also stand somewhere else, where it counts.
            let why = format!("aggregates stand in each other more than {MAX_DEPTH} deep");
            return self.problems.push((Arc::clone(name), why.into()));
        }
        if !self.seen.insert(Arc::clone(name)) {
            return;
        }
        match read(config, name) {
            Err(problem) => self.problems.push((Arc::clone(name), problem)),
            Ok((cluster, cached)) => match &cluster.kind {
                ClusterKind::Aggregate(members) => {
                    for member in members {
                        self.add(config, &member.as_str().into(), depth + 1);
                    }
                }
                ClusterKind::Eds { .. } | ClusterKind::LogicalDns { .. } => {
                    self.found.push(Leaf { name: Arc::clone(name), cluster, cached });
                }
            },
        }
    }
}

fn read<'a>(
    config: &'a XdsConfig,
    name: &str,
) -> Result<(Arc<Cluster>, &'a CachedResource), Arc<str>> {
    let known = ResourceName::read(name).ok().and_then(|name| config.cluster(&name));
    let cached = known.ok_or("it was not asked for")?;
    let cached = cached.as_ref().map_err(|error| Arc::<str>::from(error.to_string()))?;
    Ok((decoded::<Cluster>(cached)?, cached))
}
