//! The messages of ORCA on the wire, which no crate of the registry has as types. Not here: what decisions make of a
//! report (`OrcaReport` of `chancery-core`).

use std::collections::BTreeMap;

use chancery_core::client::load::OrcaReport;
use envoy_types::pb::google::protobuf::Duration;

use super::ServerMetrics;

/// `xds.data.orca.v3.OrcaLoadReport`, without the `rps` that `rps_fractional` has replaced.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OrcaLoadReport {
    #[prost(double, tag = "1")]
    cpu_utilization: f64,
    #[prost(double, tag = "2")]
    mem_utilization: f64,
    #[prost(btree_map = "string, double", tag = "4")]
    request_cost: BTreeMap<String, f64>,
    #[prost(btree_map = "string, double", tag = "5")]
    utilization: BTreeMap<String, f64>,
    #[prost(double, tag = "6")]
    rps_fractional: f64,
    #[prost(double, tag = "7")]
    eps: f64,
    #[prost(btree_map = "string, double", tag = "8")]
    named_metrics: BTreeMap<String, f64>,
    #[prost(double, tag = "9")]
    application_utilization: f64,
}

/// `xds.service.orca.v3.OrcaLoadReportRequest`, without the names of costs: they are those of single calls, and not
/// reported beside them.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct OrcaLoadReportRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) report_interval: Option<Duration>,
}

/// The method of the service `xds.service.orca.v3.OpenRcaService`.
pub(crate) const STREAM_CORE_METRICS: &str =
    "/xds.service.orca.v3.OpenRcaService/StreamCoreMetrics";

impl OrcaLoadReportRequest {
    /// Asks for a report in each interval.
    pub(crate) fn every(interval: std::time::Duration) -> Self {
        // The longest that can be told is longer than anybody waits.
        let seconds = i64::try_from(interval.as_secs()).unwrap_or(i64::MAX);
        let nanos = i32::try_from(interval.subsec_nanos()).unwrap_or_default();
        let report_interval = Some(Duration { seconds, nanos });
        Self { report_interval }
    }
}

/// Peers may say anything: of a number that cannot be what the field is for, nothing is said.
impl From<OrcaLoadReport> for OrcaReport {
    fn from(message: OrcaLoadReport) -> Self {
        let OrcaLoadReport { mut utilization, mut named_metrics, .. } = message;
        utilization.retain(|_, value| value.is_finite() && *value >= 0.0);
        named_metrics.retain(|_, value| value.is_finite());
        Self {
            cpu_utilization: said(message.cpu_utilization),
            mem_utilization: said(message.mem_utilization),
            application_utilization: said(message.application_utilization),
            rps_fractional: said(message.rps_fractional),
            eps: said(message.eps),
            utilization,
            named_metrics,
        }
    }
}

/// Returns a number that a peer has said. A field without presence is zero if it is not set.
fn said(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

impl From<ServerMetrics> for OrcaLoadReport {
    fn from(metrics: ServerMetrics) -> Self {
        Self {
            cpu_utilization: metrics.cpu_utilization.unwrap_or_default(),
            mem_utilization: metrics.mem_utilization.unwrap_or_default(),
            request_cost: metrics.request_cost,
            utilization: metrics.utilization,
            rps_fractional: metrics.qps.unwrap_or_default(),
            eps: metrics.eps.unwrap_or_default(),
            named_metrics: metrics.named_metrics,
            application_utilization: metrics.application_utilization.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// The bytes are those of the specification, by the numbers and types of its fields.
    #[test]
    fn a_report_is_what_the_specification_says() {
        let half = 0.5_f64.to_le_bytes();
        let double = |tag: u8| [&[(tag << 3) | 1][..], &half].concat();
        let entry = |tag: u8| [&[(tag << 3) | 2, 12, 10, 1, b'k', 17][..], &half].concat();
        let fields = [1, 2].map(double).concat();
        let fields = [fields, [4, 5].map(entry).concat(), [6, 7].map(double).concat()].concat();
        let bytes = [fields, entry(8), double(9)].concat();
        let one = BTreeMap::from([("k".to_owned(), 0.5)]);
        let metrics = ServerMetrics {
            cpu_utilization: Some(0.5),
            mem_utilization: Some(0.5),
            application_utilization: Some(0.5),
            qps: Some(0.5),
            eps: Some(0.5),
            utilization: one.clone(),
            request_cost: one.clone(),
            named_metrics: one.clone(),
        };
        assert_eq!(OrcaLoadReport::from(metrics).encode_to_vec(), bytes);
        let report = OrcaReport::from(OrcaLoadReport::decode(&*bytes).unwrap());
        let expected = OrcaReport {
            cpu_utilization: Some(0.5),
            mem_utilization: Some(0.5),
            application_utilization: Some(0.5),
            rps_fractional: Some(0.5),
            eps: Some(0.5),
            utilization: one.clone(),
            named_metrics: one,
        };
        assert_eq!(report, expected);
    }

    /// C-135: numbers that are none must not get into sums.
    #[test]
    fn a_number_that_cannot_be_is_not_said() {
        let values = [f64::NAN, f64::INFINITY, -1.0, 0.0];
        let all = values.iter().map(|value| (value.to_string(), *value));
        for value in values {
            let message = OrcaLoadReport {
                cpu_utilization: value,
                eps: value,
                utilization: all.clone().collect(),
                named_metrics: all.clone().collect(),
                ..OrcaLoadReport::default()
            };
            let report = OrcaReport::from(message);
            assert_eq!((report.cpu_utilization, report.eps), (None, None), "{value}");
            assert_eq!(report.utilization, [("0".to_owned(), 0.0)].into());
            let named = [("-1".to_owned(), -1.0), ("0".to_owned(), 0.0)];
            assert_eq!(report.named_metrics, named.into(), "a program may count anything");
        }
    }

    #[test]
    fn an_interval_is_told_as_it_is() {
        let told = |interval| OrcaLoadReportRequest::every(interval).report_interval.unwrap();
        let interval = std::time::Duration::from_millis(1_500);
        assert_eq!(told(interval), Duration { seconds: 1, nanos: 500_000_000 });
        assert_eq!(told(std::time::Duration::MAX).seconds, i64::MAX);
    }
}
