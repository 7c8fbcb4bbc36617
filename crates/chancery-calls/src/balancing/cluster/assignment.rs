//! The endpoints of a cluster as EDS says them, and the priorities that they make.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::names::PriorityNames;
use crate::balancing::endpoint::{Endpoint, EndpointLocality, Health, SessionHealth};
use crate::balancing::node::PolicyTarget;
use crate::balancing::policy::PolicyConfig;

/// The endpoints of a cluster. What makes an assignment invalid was refused where it was read
/// (C-108).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assignment {
    /// The localities. Two of one priority have different names.
    pub localities: Vec<AssignedLocality>,
}

/// A locality with its endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedLocality {
    /// Its name and its weight in its priority.
    pub locality: Arc<EndpointLocality>,
    /// Its priority; 0 is the best.
    pub priority: u32,
    /// The endpoints that may take calls, and those that are draining.
    pub endpoints: Arc<[Arc<Endpoint>]>,
}

impl Assignment {
    /// Returns the priorities of this assignment for a cluster with this policy. Endpoints that are draining are in
    /// none (C-109).
    pub fn priorities(
        &self,
        config: &PolicyConfig,
        note: Option<&Arc<str>>,
        names: &mut PriorityNames,
    ) -> Vec<(Arc<str>, PolicyTarget)> {
        let mut priorities = BTreeMap::<u32, Vec<&AssignedLocality>>::new();
        for locality in &self.localities {
            priorities.entry(locality.priority).or_default().push(locality);
        }
        let localities = priorities
            .values()
            .map(|all| all.iter().map(|it| &it.locality.name).collect::<BTreeSet<_>>());
        let names = names.assign(&localities.collect::<Vec<_>>());
        let targets = priorities.into_values().map(|localities| PolicyTarget {
            config: config.clone(),
            endpoints: of_priority(&localities),
            note: note.cloned(),
        });
        names.into_iter().zip(targets).collect()
    }

    /// Returns the endpoints that sessions may stay with, of all priorities.
    pub fn of_sessions(&self, health: SessionHealth) -> Arc<[Arc<Endpoint>]> {
        let endpoints = self.localities.iter().flat_map(|it| &*it.endpoints);
        endpoints.filter(|it| health.allows(it.health)).cloned().collect()
    }
}

/// Returns the endpoints of a priority that take any call.
fn of_priority(localities: &[&AssignedLocality]) -> Arc<[Arc<Endpoint>]> {
    let takes_calls = |endpoint: &&Arc<Endpoint>| endpoint.health != Health::Draining;
    match localities {
        [one] if one.endpoints.iter().all(|it| takes_calls(&it)) => Arc::clone(&one.endpoints),
        _ => {
            let all = localities.iter().flat_map(|it| &*it.endpoints);
            all.filter(takes_calls).cloned().collect()
        }
    }
}
