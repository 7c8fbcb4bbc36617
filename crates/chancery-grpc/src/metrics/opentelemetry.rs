//! The metrics in instruments of OpenTelemetry. The program has its SDK: readers, exporters and views are not here.

use std::collections::HashMap;

use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider, UpDownCounter};
use opentelemetry::{InstrumentationScope, KeyValue};

use super::{Label, METRICS, Metric, MetricKind, MetricsRecorder};

/// Keeps the metrics in instruments that a provider of the program makes, with the buckets that gRPC recommends.
///
/// ```no_run
/// use opentelemetry_sdk::metrics::SdkMeterProvider;
/// # fn example() -> Result<(), chancery_grpc::RecorderExists> {
/// // With a reader, whose exporter sends them.
/// let provider = SdkMeterProvider::builder().build();
/// let recorder = chancery_grpc::OpenTelemetryRecorder::new(&provider);
/// chancery_grpc::set_metrics_recorder(recorder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OpenTelemetryRecorder {
    counters: HashMap<&'static str, Counter<u64>>,
    up_down_counters: HashMap<&'static str, UpDownCounter<i64>>,
    histograms: HashMap<&'static str, Histogram<f64>>,
}

impl OpenTelemetryRecorder {
    /// Makes all instruments, by a meter that has the name and version of this crate. The provider that a program may
    /// have set for the whole process is not used unless it is this one (gRFC A66).
    pub fn new(provider: &dyn MeterProvider) -> Self {
        let scope = InstrumentationScope::builder(env!("CARGO_PKG_NAME"));
        let meter =
            provider.meter_with_scope(scope.with_version(env!("CARGO_PKG_VERSION")).build());
        let of = |kind| METRICS.iter().copied().filter(move |metric| metric.kind == kind);
        let counters = of(MetricKind::Counter).map(|it| (it.name, counter(&meter, it)));
        let up_down_counters =
            of(MetricKind::UpDownCounter).map(|it| (it.name, up_down_counter(&meter, it)));
        let histograms = of(MetricKind::Histogram).map(|it| (it.name, histogram(&meter, it)));
        Self {
            counters: counters.collect(),
            up_down_counters: up_down_counters.collect(),
            histograms: histograms.collect(),
        }
    }
}

fn counter(meter: &Meter, metric: &Metric) -> Counter<u64> {
    let builder = meter.u64_counter(metric.name).with_unit(metric.unit);
    builder.with_description(metric.description).build()
}

fn up_down_counter(meter: &Meter, metric: &Metric) -> UpDownCounter<i64> {
    let builder = meter.i64_up_down_counter(metric.name).with_unit(metric.unit);
    builder.with_description(metric.description).build()
}

fn histogram(meter: &Meter, metric: &Metric) -> Histogram<f64> {
    let builder = meter.f64_histogram(metric.name).with_unit(metric.unit);
    let builder = builder.with_boundaries(metric.bounds.to_vec());
    builder.with_description(metric.description).build()
}

/// Returns the labels as attributes. There are never more than five ([`Metric::labels`]).
fn attributes(labels: &[Label<'_>]) -> Vec<KeyValue> {
    labels.iter().map(|(name, value)| KeyValue::new(*name, (*value).to_owned())).collect()
}

impl MetricsRecorder for OpenTelemetryRecorder {
    fn add(&self, metric: &'static Metric, by: u64, labels: &[Label<'_>]) {
        if let Some(counter) = self.counters.get(metric.name) {
            counter.add(by, &attributes(labels));
        }
    }

    fn change(&self, metric: &'static Metric, by: i64, labels: &[Label<'_>]) {
        if let Some(counter) = self.up_down_counters.get(metric.name) {
            counter.add(by, &attributes(labels));
        }
    }

    fn observe(&self, metric: &'static Metric, value: f64, labels: &[Label<'_>]) {
        if let Some(histogram) = self.histograms.get(metric.name) {
            histogram.record(value, &attributes(labels));
        }
    }
}
