//! The new or changed clusters in a response, because of which other types have to send something or
//! to wait (S-099, [resource warming]; S-097, [eventual consistency]).
//!
//! [resource warming]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-warming
//! [eventual consistency]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations

use std::sync::Arc;

use crate::step::{Step, StepChange};
use crate::{Link, Resource, ResourceName};

/// The new or changed clusters of one response.
#[derive(Debug)]
pub(crate) enum GivenClusters {
    /// Clusters for this client alone, each with true if the client had none of that name.
    Own(Vec<(Arc<Resource>, bool)>),
    /// Clusters for every client with a wildcard and the same set before.
    Shared {
        step: Step,
        /// True if the client says that it accepted a version on an earlier stream, so that no
        /// cluster is new to it for certain.
        reconnected: bool,
    },
}

impl GivenClusters {
    /// The number of clusters whose names are new to the client.
    pub(crate) fn count_new(&self) -> usize {
        match self {
            Self::Own(given) => given.iter().filter(|(_, is_new)| *is_new).count(),
            Self::Shared { reconnected: true, .. } => 0,
            Self::Shared { step, .. } => step.count_new(),
        }
    }

    /// The load assignments without which the new clusters stay warming, as far as the client asks
    /// for them on this stream.
    pub(crate) fn warming(&self) -> Arc<[ResourceName]> {
        match self {
            Self::Own(given) => {
                let new = given.iter().filter(|(_, is_new)| *is_new);
                new.filter_map(|(resource, _)| resource.endpoints()).cloned().collect()
            }
            Self::Shared { reconnected: true, .. } => Arc::default(),
            Self::Shared { step, .. } => step.warming(),
        }
    }

    /// The references of the clusters to resources that the client asks for on this stream, each
    /// with true if the cluster is new.
    pub(crate) fn links(&self) -> impl Iterator<Item = (&Link, bool)> {
        let (own, common) = match self {
            Self::Own(given) => (&given[..], None),
            Self::Shared { step, reconnected } => (&[][..], Some((step, *reconnected))),
        };
        let common = common.into_iter().flat_map(|(step, reconnected)| {
            let is_new = move |change: &StepChange<'_>| change.old.is_none() && !reconnected;
            step.changes().filter_map(move |change| Some((change.new?, is_new(&change))))
        });
        let all = own.iter().map(|(resource, is_new)| (resource, *is_new)).chain(common);
        let links = all.flat_map(|(resource, is_new)| {
            resource.facts().links.iter().map(move |link| (link, is_new))
        });
        links.filter(|(link, _)| link.aggregated)
    }
}

impl Default for GivenClusters {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}
