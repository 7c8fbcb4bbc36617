//! The decision about a call: where it goes, and what counts on the way.

use std::sync::Arc;
use std::time::Duration;

use super::hash::{RequestHash, hash};
use super::{Call, ForwardAction, Place, RouteTarget, WeightedCluster};
use crate::Dice;
use crate::filters::OverrideScopes;
use crate::retrying::RetryPolicy;

/// Where a call goes. All of its attempts go there (C-099).
///
/// It borrows from the configuration; whoever keeps a part of it clones an [`Arc`].
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// The route that matched.
    pub place: Place<'a>,
    /// The action of the route.
    pub action: &'a ForwardAction,
    /// The cluster or plugin.
    pub target: ChosenTarget<'a>,
    /// The hash of the call.
    pub hash: RequestHash,
}

/// The cluster of a call, or the plugin that chooses it.
#[derive(Clone, Copy, Debug)]
pub enum ChosenTarget<'a> {
    /// The cluster of the route.
    Cluster(&'a Arc<str>),
    /// One of the weighted clusters of the route.
    Weighted {
        /// The cluster.
        cluster: &'a WeightedCluster,
        /// Its place among those that have a weight.
        index: usize,
        /// The sum of all weights.
        total: u32,
    },
    /// A plugin, by the name of its configuration.
    Plugin(&'a Arc<str>),
}

impl<'a> Decision<'a> {
    /// Rolls the cluster, once for the call and without a look at connections (C-099), and hashes the call.
    pub(super) fn new(
        place: Place<'a>,
        action: &'a ForwardAction,
        call: &Call<'_>,
        dice: &mut impl Dice,
    ) -> Self {
        let target = match &action.target {
            RouteTarget::Cluster(name) => ChosenTarget::Cluster(name),
            RouteTarget::Plugin(name) => ChosenTarget::Plugin(name),
            RouteTarget::Weighted(clusters) => {
                let (index, cluster) = clusters.roll(dice);
                ChosenTarget::Weighted { cluster, index, total: clusters.total() }
            }
        };
        let hash = hash(&action.hash_policies, call, dice);
        Self { place, action, target, hash }
    }

    /// The time that the call may take, all attempts together; `None` is no limit (C-102).
    pub fn timeout(
        &self,
        application: Option<Duration>,
        manager: Option<Duration>,
    ) -> Option<Duration> {
        self.action.limits.timeout(application, manager)
    }

    /// The retry policy: that of the route, or else that of the virtual host (C-148).
    pub fn retry(&self) -> Option<&'a Arc<RetryPolicy>> {
        self.action.retry.as_ref().or(self.place.host.retry.as_ref())
    }

    /// The configurations of filters that count for the call (C-093).
    pub fn overrides(&self) -> OverrideScopes<'a> {
        let cluster = match self.target {
            ChosenTarget::Weighted { cluster, .. } => Some(&cluster.overrides),
            ChosenTarget::Cluster(_) | ChosenTarget::Plugin(_) => None,
        };
        OverrideScopes { cluster, ..self.place.overrides() }
    }

    /// The same decision with another cluster of the same route, which a session names (gRFC A60); `None`
    /// if the route does not lead there.
    pub fn redirected(self, cluster: &str) -> Option<Self> {
        let target = self.action.target.find(cluster)?;
        Some(Self { target, ..self })
    }
}

impl RouteTarget {
    /// The cluster of this name, if this is it or has it.
    pub fn find(&self, cluster: &str) -> Option<ChosenTarget<'_>> {
        match self {
            Self::Cluster(name) => (**name == *cluster).then_some(ChosenTarget::Cluster(name)),
            Self::Weighted(clusters) => {
                let mut all = clusters.clusters().iter().enumerate();
                let (index, cluster) = all.find(|(_, it)| *it.name == *cluster)?;
                Some(ChosenTarget::Weighted { cluster, index, total: clusters.total() })
            }
            Self::Plugin(_) => None,
        }
    }
}

impl<'a> ChosenTarget<'a> {
    /// The name of the cluster or plugin.
    pub fn name(&self) -> &'a Arc<str> {
        match self {
            Self::Cluster(name) | Self::Plugin(name) => name,
            Self::Weighted { cluster, .. } => &cluster.name,
        }
    }
}
