//! The count of calls for load reports (C-132).

use std::sync::Arc;

use chancery_calls::balancing::{CallEnd, CallObserver, LoadSink};
use chancery_client::load::{Load, LocalityLoad, ReportedMetrics};
use chancery_core::Locality;

/// Counts the calls of a cluster.
#[derive(Debug)]
pub(super) struct ClusterLoad {
    load: Load,
    /// True if some metrics of endpoints are a part of reports (C-135).
    has_metrics: bool,
}

/// Counts the calls of a locality of it.
#[derive(Debug)]
struct Counter {
    load: LocalityLoad,
    has_metrics: bool,
}

impl ClusterLoad {
    /// Counts calls, and of the metrics of endpoints these.
    pub(super) fn new(load: Load, metrics: &ReportedMetrics) -> Self {
        let has_metrics = *metrics != ReportedMetrics::default();
        Self { load: load.with_metrics(metrics.clone()), has_metrics }
    }
}

impl LoadSink for ClusterLoad {
    fn locality(&self, locality: &Locality) -> Arc<dyn CallObserver> {
        let (load, has_metrics) = (self.load.locality(locality), self.has_metrics);
        Arc::new(Counter { load, has_metrics })
    }

    fn dropped(&self, category: Option<&str>) {
        self.load.dropped(category);
    }
}

impl CallObserver for Counter {
    fn started(&self) {
        self.load.begin();
    }

    fn ended(&self, end: &CallEnd<'_>) {
        self.load.end(end.succeeded, end.report);
    }

    fn uses_reports(&self) -> bool {
        self.has_metrics
    }
}
