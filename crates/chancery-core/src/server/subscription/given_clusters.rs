//! The clusters a response gives to a client that did not have them in this form: what other types
//! have to follow or to wait for.

use std::sync::Arc;

use crate::step::{Step, StepChange};
use crate::{Link, Resource, ResourceName};

/// The clusters of one response.
#[derive(Debug)]
pub(crate) enum GivenClusters {
    /// To this client alone, and whether it had none of that name.
    Own(Vec<(Arc<Resource>, bool)>),
    /// To every client that wants everything and was where this one was.
    Shared {
        step: Step,
        /// The client accepted something on an earlier stream, nobody knows what.
        reconnected: bool,
    },
}

impl GivenClusters {
    /// How many there are of which the client had none of that name.
    pub(crate) fn count_new(&self) -> usize {
        match self {
            Self::Own(given) => given.iter().filter(|(_, is_new)| *is_new).count(),
            Self::Shared { reconnected: true, .. } => 0,
            Self::Shared { step, .. } => step.count_new(),
        }
    }

    /// The load assignments that new clusters wait for on this stream.
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

    /// What the clusters make their client ask for on this stream, and whether they are new.
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
