//! The count of calls for load reports (C-132).

use std::sync::Arc;

use chancery_calls::balancing::{CallEnd, CallObserver, LoadSink};
use chancery_client::load::{Load, LocalityLoad};
use chancery_core::Locality;

/// Counts the calls of a cluster.
#[derive(Debug)]
pub(super) struct ClusterLoad(Load);

/// Counts the calls of a locality of it.
#[derive(Debug)]
struct Counter(LocalityLoad);

impl ClusterLoad {
    pub(super) fn new(load: Load) -> Self {
        Self(load)
    }
}

impl LoadSink for ClusterLoad {
    fn locality(&self, locality: &Locality) -> Arc<dyn CallObserver> {
        Arc::new(Counter(self.0.locality(locality)))
    }

    fn dropped(&self, category: Option<&str>) {
        self.0.dropped(category);
    }
}

impl CallObserver for Counter {
    fn started(&self) {
        self.0.begin();
    }

    fn ended(&self, end: &CallEnd<'_>) {
        self.0.end(end.succeeded, end.report);
    }
}
