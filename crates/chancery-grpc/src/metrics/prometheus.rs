//! The metrics in a registry of `prometheus-client`. A dot in a name becomes `_` there.

use std::collections::HashMap;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Label, METRICS, Metric, MetricKind, MetricsRecorder};

/// Keeps the metrics in a registry, which the program exposes as it does its own.
///
/// ```no_run
/// # fn example() -> Result<(), chancery_grpc::RecorderExists> {
/// let mut registry = prometheus_client::registry::Registry::default();
/// let recorder = chancery_grpc::PrometheusRecorder::new(&mut registry);
/// chancery_grpc::set_metrics_recorder(recorder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct PrometheusRecorder {
    counters: HashMap<&'static str, Family<Labels, Counter>>,
    gauges: HashMap<&'static str, Family<Labels, Gauge>>,
    histograms: HashMap<&'static str, Family<Labels, Histogram, Buckets>>,
}

/// The labels of a metric, by their names in Prometheus.
type Labels = Vec<(String, String)>;

/// Makes histograms with the buckets of a metric.
#[derive(Clone, Copy, Debug)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl PrometheusRecorder {
    /// Registers all metrics.
    pub fn new(registry: &mut Registry) -> Self {
        let (mut counters, mut gauges, mut histograms) = Default::default();
        for metric in METRICS {
            match metric.kind {
                MetricKind::Counter => register(registry, metric, Family::default(), &mut counters),
                MetricKind::UpDownCounter => {
                    register(registry, metric, Family::default(), &mut gauges);
                }
                MetricKind::Histogram => {
                    let family = Family::new_with_constructor(Buckets(metric.bounds));
                    register(registry, metric, family, &mut histograms);
                }
            }
        }
        Self { counters, gauges, histograms }
    }
}

fn register<F>(
    registry: &mut Registry,
    metric: &'static Metric,
    family: F,
    known: &mut HashMap<&'static str, F>,
) where
    F: prometheus_client::registry::Metric + Clone,
{
    let name = prometheus_name(metric.name);
    let unit = match metric.unit {
        "s" => Some(Unit::Seconds),
        "By" => Some(Unit::Bytes),
        // The unit of what is counted is in the name already.
        _ => None,
    };
    match unit {
        Some(unit) => {
            registry.register_with_unit(name, metric.description, unit, family.clone());
        }
        None => registry.register(name, metric.description, family.clone()),
    }
    known.insert(metric.name, family);
}

fn prometheus_name(name: &str) -> String {
    name.replace('.', "_")
}

fn labels(labels: &[Label<'_>]) -> Labels {
    labels.iter().map(|(name, value)| (prometheus_name(name), (*value).to_owned())).collect()
}

impl MetricsRecorder for PrometheusRecorder {
    fn add(&self, metric: &'static Metric, by: u64, of: &[Label<'_>]) {
        if let Some(family) = self.counters.get(metric.name) {
            family.get_or_create(&labels(of)).inc_by(by);
        }
    }

    fn change(&self, metric: &'static Metric, by: i64, of: &[Label<'_>]) {
        if let Some(family) = self.gauges.get(metric.name) {
            family.get_or_create(&labels(of)).inc_by(by);
        }
    }

    fn observe(&self, metric: &'static Metric, value: f64, of: &[Label<'_>]) {
        if let Some(family) = self.histograms.get(metric.name) {
            family.get_or_create(&labels(of)).observe(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::names::{
        CALL_DURATION, CONNECTIONS_MADE, CONNECTIONS_OPEN, METHOD, SERVER_SENT, STATUS, TARGET,
    };
    use super::*;

    #[test]
    fn metrics_are_exposed_by_their_names_in_prometheus() {
        // C-138
        let mut registry = Registry::default();
        let recorder = PrometheusRecorder::new(&mut registry);
        recorder.add(&CONNECTIONS_MADE, 2, &[]);
        recorder.change(&CONNECTIONS_OPEN, 2, &[]);
        recorder.change(&CONNECTIONS_OPEN, -1, &[]);
        let labels = [(METHOD, "t/M"), (TARGET, "xds:///a"), (STATUS, "OK")];
        recorder.observe(&CALL_DURATION, 0.0007, &labels);
        recorder.observe(&SERVER_SENT, 2000.0, &[(METHOD, "t/M"), (STATUS, "OK")]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("a string takes it");
        for line in [
            "grpc_subchannel_connection_attempts_succeeded_total{} 2",
            "grpc_subchannel_open_connections{} 1",
            "grpc_server_call_sent_total_compressed_message_size_bytes_sum{grpc_method=\"t/M\",grpc_status=\"OK\"} 2000.0",
            "grpc_client_call_duration_seconds_bucket{le=\"0.0006\",grpc_method=\"t/M\",grpc_target=\"xds:///a\",grpc_status=\"OK\"} 0",
            "grpc_client_call_duration_seconds_bucket{le=\"0.0008\",grpc_method=\"t/M\",grpc_target=\"xds:///a\",grpc_status=\"OK\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
