//! The names of priorities, by which policies keep their connections when localities move (C-110).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chancery_core::Locality;

/// Gives names to priorities. A priority has the name that one of its localities had before, so that
/// the policy of that name keeps its connections.
#[derive(Clone, Debug, Default)]
pub struct PriorityNames {
    by_locality: BTreeMap<Locality, Arc<str>>,
    made: u64,
}

impl PriorityNames {
    /// Returns a name for each of these priorities, the best first. No two have the same.
    pub fn assign(&mut self, priorities: &[BTreeSet<&Locality>]) -> Vec<Arc<str>> {
        let mut used = BTreeSet::new();
        let mut names = Vec::with_capacity(priorities.len());
        for localities in priorities {
            let mut known = localities.iter().filter_map(|it| self.by_locality.get(*it));
            let name = known.find(|name| !used.contains(*name)).cloned();
            let name = name.unwrap_or_else(|| {
                self.made += 1;
                format!("priority-{}", self.made).into()
            });
            used.insert(Arc::clone(&name));
            names.push(name);
        }
        let of_priorities = priorities.iter().zip(&names);
        self.by_locality = of_priorities
            .flat_map(|(localities, name)| {
                localities.iter().map(move |it| ((*it).clone(), name.clone()))
            })
            .collect();
        names
    }
}
