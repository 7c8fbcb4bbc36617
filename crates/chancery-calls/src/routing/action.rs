//! The actions of routes (C-098).

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use super::{HashPolicy, StreamLimits};
use crate::Dice;
use crate::filters::Overrides;
use crate::retrying::RetryPolicy;

/// The fate of a call that a route matches.
#[derive(Clone, Debug)]
pub enum Action {
    /// The call goes to a cluster. Clients want this.
    Forward(ForwardAction),
    /// The call is for the program itself. Servers want this.
    NonForwarding,
    /// gRPC does not do it, as a redirect. A call that the route matches fails.
    Unsupported,
    /// The route is as if it were not there.
    Ignored(IgnoredRoute),
}

/// The reason why a route is as if it were not there. The resource is not rejected for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IgnoredRoute {
    /// It has matchers of query parameters, which no call of gRPC has (C-095).
    QueryParameters,
    /// It names its cluster in a way that gRPC does not know, as by a header (C-098).
    ClusterSpecifier,
    /// It leads to a plugin that is not known, and optional (C-098).
    UnknownPlugin,
}

impl Display for IgnoredRoute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueryParameters => "it has matchers of query parameters, which gRPC has not",
            Self::ClusterSpecifier => "it names its cluster in a way that gRPC does not know",
            Self::UnknownPlugin => "it leads to an optional plugin that is not known",
        })
    }
}

/// The way of a call that is sent on.
#[derive(Clone, Debug)]
pub struct ForwardAction {
    /// The cluster or clusters.
    pub target: RouteTarget,
    /// The time that a call may take.
    pub limits: StreamLimits,
    /// The policies by which calls are hashed.
    pub hash_policies: Arc<[HashPolicy]>,
    /// When a call is tried again; if it is not set, that of the virtual host counts (C-148).
    pub retry: Option<Arc<RetryPolicy>>,
    /// True if the authority becomes the endpoint's hostname. It counts only if the routes came from a server
    /// that is trusted, which the caller knows (C-105).
    pub rewrites_authority: bool,
}

impl ForwardAction {
    /// An action without settings.
    pub fn to(target: RouteTarget) -> Self {
        let hash_policies = Arc::from([]);
        let limits = StreamLimits::default();
        Self { target, limits, hash_policies, retry: None, rewrites_authority: false }
    }
}

/// The thing that a route names.
#[derive(Clone, Debug)]
pub enum RouteTarget {
    /// A cluster.
    Cluster(Arc<str>),
    /// Several clusters, one of which is rolled for each call.
    Weighted(WeightedClusters),
    /// A plugin that chooses the cluster, by the name of its configuration.
    Plugin(Arc<str>),
}

/// A cluster with a part of the calls.
#[derive(Clone, Debug)]
pub struct WeightedCluster {
    /// The name of the cluster.
    pub name: Arc<str>,
    /// Its weight, of the sum of all.
    pub weight: u32,
    /// The configurations of filters that count for its calls.
    pub overrides: Overrides,
}

/// Clusters that share the calls by their weights.
#[derive(Clone, Debug)]
pub struct WeightedClusters {
    clusters: Arc<[WeightedCluster]>,
    /// The sum of the weights up to and with each cluster.
    sums: Arc<[u32]>,
}

impl WeightedClusters {
    /// Takes clusters, and leaves out those of weight zero.
    pub fn new(clusters: impl IntoIterator<Item = WeightedCluster>) -> Result<Self, ActionError> {
        let clusters: Vec<_> = clusters.into_iter().filter(|cluster| cluster.weight > 0).collect();
        let mut sum = 0_u32;
        let mut sums = Vec::with_capacity(clusters.len());
        for cluster in &clusters {
            sum = sum.checked_add(cluster.weight).ok_or(ActionError::WeightsTooLarge)?;
            sums.push(sum);
        }
        if sum == 0 {
            return Err(ActionError::NoWeight);
        }
        Ok(Self { clusters: clusters.into(), sums: sums.into() })
    }

    /// The clusters that have a weight, in their order.
    pub fn clusters(&self) -> &[WeightedCluster] {
        &self.clusters
    }

    /// The sum of all weights, which is not 0.
    pub fn total(&self) -> u32 {
        self.sums.last().copied().unwrap_or_default()
    }

    /// Rolls a cluster, and returns its place too.
    pub(super) fn roll(&self, dice: &mut impl Dice) -> (usize, &WeightedCluster) {
        let rolled = dice.below(self.total().into());
        let at = self.sums.partition_point(|sum| u64::from(*sum) <= rolled);
        // The bound is for dice that roll more than they were asked for.
        let at = at.min(self.clusters.len() - 1);
        (at, &self.clusters[at])
    }
}

/// An action that is refused. The fault is that of whoever wrote the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ActionError {
    /// No weighted cluster has a weight.
    NoWeight,
    /// The weights add up to more than 32 bits.
    WeightsTooLarge,
}

impl Display for ActionError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoWeight => "the weights of the clusters add up to 0, and have to be more",
            Self::WeightsTooLarge => {
                "the weights of the clusters add up to more than 4294967295, the most that is allowed"
            }
        })
    }
}

impl Error for ActionError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SeededDice;

    fn clusters(weights: &[u32]) -> Result<WeightedClusters, ActionError> {
        WeightedClusters::new(weights.iter().enumerate().map(|(at, weight)| WeightedCluster {
            name: at.to_string().into(),
            weight: *weight,
            overrides: Overrides::default(),
        }))
    }

    #[test]
    fn the_sum_of_weights_is_above_zero_and_within_32_bits() {
        // C-098
        assert_eq!(clusters(&[]).unwrap_err(), ActionError::NoWeight);
        assert_eq!(clusters(&[0, 0]).unwrap_err(), ActionError::NoWeight);
        assert_eq!(clusters(&[u32::MAX, 1]).unwrap_err(), ActionError::WeightsTooLarge);
        assert_eq!(clusters(&[u32::MAX, 0]).unwrap().total(), u32::MAX);
        assert_eq!(clusters(&[1, 2]).unwrap().total(), 3);
    }

    #[test]
    fn each_cluster_has_its_part_and_one_of_weight_zero_none() {
        // C-098
        struct Rolled(u64);
        impl Dice for Rolled {
            fn roll(&mut self) -> u64 {
                unreachable!("a number below the sum is asked for")
            }
            fn below(&mut self, limit: u64) -> u64 {
                assert_eq!(limit, 10);
                self.0
            }
        }
        let clusters = clusters(&[0, 3, 0, 0, 5, 2, 0]).unwrap();
        let names: String =
            (0..10).map(|rolled| clusters.roll(&mut Rolled(rolled)).1.name.to_string()).collect();
        assert_eq!(names, "1114444455");
    }

    #[test]
    fn calls_are_shared_by_weight() {
        // C-098: within five standard deviations.
        let clusters = clusters(&[1, 9, 90]).unwrap();
        let mut counts = [0; 3];
        let mut dice = SeededDice(11);
        for _ in 0..100_000 {
            counts[clusters.roll(&mut dice).0] += 1;
        }
        let parts = [1_000, 9_000, 90_000];
        for (count, part) in std::iter::zip(counts, parts) {
            let deviation = f64::from(part) * (1.0 - f64::from(part) / 100_000.0);
            assert!(f64::from(count - part).abs() < 5.0 * deviation.sqrt(), "{counts:?}");
        }
    }
}
