//! The metrics of the daemon about loads of its directory and about its log. Not here: those of streams, which are in
//! `chancery-server`.

use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::gate::{Outcome, Reason};
use crate::state::StateMetrics;

/// The metrics of the daemon. Clones count into the same series.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadMetrics {
    loads: Family<LoadLabels, Counter>,
    faults: Gauge,
    last_load: Gauge,
    config_faults: Gauge,
    held: Gauge,
    held_edits: Family<ReasonLabels, Counter>,
    held_passed: Family<PassedLabels, Counter>,
    pub(super) state: StateMetrics,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LoadLabels {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PassedLabels {
    by: &'static str,
}

impl LoadMetrics {
    /// Metrics that are read through `registry`, under names that start with `chancery_`.
    /// `dropped` counts the lines that are missing in the log.
    pub(crate) fn registered(registry: &mut Registry, dropped: &Counter) -> Self {
        let it = Self::default();
        for result in [WHOLE, FAULTY] {
            drop(it.loads.get_or_create(&LoadLabels { result }));
        }
        let to = registry.sub_registry_with_prefix("chancery");
        to.register(
            "loads",
            "Loads of the directory, by whether they had faults",
            it.loads.clone(),
        );
        to.register("faults", "Faults of the last load", it.faults.clone());
        to.register_with_unit(
            "last_load_timestamp",
            "When the directory was loaded last, since 1970",
            Unit::Seconds,
            it.last_load.clone(),
        );
        let help = "1 while chancery.yaml has a fault and an older one is in force";
        to.register("config_faulty", help, it.config_faults.clone());
        for reason in Reason::KINDS {
            drop(it.held_edits.get_or_create(&ReasonLabels { reason }));
        }
        for by in PASSED {
            drop(it.held_passed.get_or_create(&PassedLabels { by }));
        }
        let help = "Groups and nodes from which something is held back until it is confirmed";
        to.register("held_audiences", help, it.held.clone());
        let help = "Edits that were held back, by reason, for each group and node";
        to.register("held_edits", help, it.held_edits.clone());
        let help = "Losses that went live, by what let them pass, for each group and node";
        to.register("held_passed", help, it.held_passed.clone());
        to.register_with_unit(
            "state_written_timestamp",
            "When the state directory was written last, since 1970",
            Unit::Seconds,
            it.state.written.clone(),
        );
        let help = "Writes of the state directory that failed";
        to.register("state_failures", help, it.state.failed.clone());
        to.register("log_lines_dropped", "Lines that are missing in the log", dropped.clone());
        it
    }

    /// Counts a load.
    pub(crate) fn loaded(&self, faults: usize) {
        let result = if faults == 0 { WHOLE } else { FAULTY };
        self.loads.get_or_create(&LoadLabels { result }).inc();
        self.faults.set(i64::try_from(faults).unwrap_or(i64::MAX));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.last_load.set(i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
    }

    /// Records the number of audiences from which something is held back.
    pub(crate) fn held(&self, audiences: usize) {
        self.held.set(i64::try_from(audiences).unwrap_or(i64::MAX));
    }

    /// Counts what became of a loss.
    pub(crate) fn judged(&self, outcome: Outcome, reasons: &[Reason]) {
        let by = match outcome {
            Outcome::HeldBack => {
                for reason in reasons {
                    let reason = reason.kind();
                    self.held_edits.get_or_create(&ReasonLabels { reason }).inc();
                }
                return;
            }
            Outcome::Waits | Outcome::Mended | Outcome::Noticed => return,
            Outcome::Confirmed => "confirmation",
            Outcome::TimeIsOver => "time",
            Outcome::Warned => "warn",
        };
        self.held_passed.get_or_create(&PassedLabels { by }).inc();
    }

    /// Records whether `chancery.yaml` has a fault.
    pub(crate) fn config(&self, faulty: bool) {
        self.config_faults.set(i64::from(faulty));
    }
}

const PASSED: [&str; 3] = ["confirmation", "time", "warn"];
const WHOLE: &str = "whole";
const FAULTY: &str = "faulty";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_counted_by_its_result() {
        // S-140
        let mut registry = Registry::default();
        let metrics = LoadMetrics::registered(&mut registry, &Counter::default());
        metrics.loaded(0);
        metrics.loaded(3);
        metrics.config(true);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "chancery_loads_total{result=\"whole\"} 1\n",
            "chancery_loads_total{result=\"faulty\"} 1\n",
            "chancery_faults 3\n",
            "chancery_config_faulty 1\n",
            "chancery_last_load_timestamp_seconds 1",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }

    #[test]
    fn every_metric_is_documented() {
        let mut registry = Registry::default();
        let _server = chancery_server::Metrics::registered(&mut registry);
        let _own = LoadMetrics::registered(&mut registry, &Counter::default());
        // The encoded form leaves out what has not been counted yet.
        let all = format!("{registry:?}");
        let names: Vec<_> =
            all.split("name: \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        let text = include_str!("../../../../docs/metrics.md");
        for name in &names {
            let unit = if name.ends_with("_timestamp") { "_seconds" } else { "" };
            assert!(text.contains(&format!("| `chancery_{name}{unit}` |")), "{name}");
        }
        assert_eq!(text.matches("| `chancery_").count(), names.len(), "{names:?}");
    }
}
