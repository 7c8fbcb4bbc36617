//! The reports of endpoints about themselves (ORCA), as far as a cluster lets them into load
//! reports ([gRFC A64], [gRFC A85]).
//!
//! Only what comes with a call is counted: a report that comes by itself belongs to no call.
//!
//! [gRFC A64]: https://github.com/grpc/proposal/blob/master/A64-lrs-custom-metrics.md
//! [gRFC A85]: https://github.com/grpc/proposal/blob/master/A85-lrs-custom-metrics-changes.md

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::load::LocalityStats;

/// The report of an endpoint with the end of a call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrcaReport {
    /// `cpu_utilization`, if it is said.
    pub cpu_utilization: Option<f64>,
    /// `mem_utilization`, if it is said.
    pub mem_utilization: Option<f64>,
    /// `application_utilization`, if it is said.
    pub application_utilization: Option<f64>,
    /// `rps_fractional`: the calls that the endpoint has in a second, if it is said.
    pub rps_fractional: Option<f64>,
    /// `eps`: the calls of a second that end with an error, if it is said.
    pub eps: Option<f64>,
    /// `utilization`: how much of its own resources the endpoint uses, by their names.
    pub utilization: BTreeMap<String, f64>,
    /// `named_metrics`: what the program of the endpoint says.
    pub named_metrics: BTreeMap<String, f64>,
}

/// The metrics that go into load reports: `lrs_report_endpoint_metrics` of a cluster. By default
/// none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportedMetrics {
    cpu: bool,
    mem: bool,
    application: bool,
    all_named: bool,
    named: BTreeSet<Arc<str>>,
}

/// The beginning of the names of these metrics, in clusters and in reports.
const NAMED: &str = "named_metrics.";

impl ReportedMetrics {
    /// From the texts of a cluster. Those that nobody knows mean nothing.
    ///
    /// ```
    /// use chancery_core::client::load::ReportedMetrics;
    ///
    /// let some = ReportedMetrics::new(["cpu_utilization", "named_metrics.queue", "new_in_2030"]);
    /// assert_ne!(some, ReportedMetrics::new(["named_metrics.*"]));
    /// assert_eq!(ReportedMetrics::new(["new_in_2030"]), ReportedMetrics::default());
    /// ```
    pub fn new(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut all = Self::default();
        for text in texts {
            match text.as_ref() {
                "cpu_utilization" => all.cpu = true,
                "mem_utilization" => all.mem = true,
                "application_utilization" => all.application = true,
                other => match other.strip_prefix(NAMED) {
                    Some("*") => all.all_named = true,
                    Some(name) => {
                        all.named.insert(name.into());
                    }
                    None => {}
                },
            }
        }
        all
    }

    /// Counts the metrics that may be reported.
    pub(super) fn count(&self, report: &OrcaReport, into: &mut LocalityStats) {
        let top = [
            (self.cpu, report.cpu_utilization, &mut into.cpu),
            (self.mem, report.mem_utilization, &mut into.mem),
            (self.application, report.application_utilization, &mut into.application),
        ];
        for (is_told, value, stats) in top {
            if let Some(value) = value.filter(|_| is_told) {
                stats.count(value);
            }
        }
        for (name, value) in &report.named_metrics {
            if self.all_named || self.named.contains(name.as_str()) {
                let name = format!("{NAMED}{name}").into();
                into.named.entry(name).or_default().count(*value);
            }
        }
    }
}
