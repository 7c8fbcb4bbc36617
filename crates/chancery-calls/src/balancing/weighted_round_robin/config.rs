//! The configuration of `weighted_round_robin`, as it was checked (C-116).

use std::sync::Arc;
use std::time::Duration;

use chancery_core::client::load::OrcaReport;

/// The configuration of `weighted_round_robin`.
#[derive(Clone, Debug, PartialEq)]
pub struct WeightedRoundRobinConfig {
    /// If reports come by themselves: how often they are asked for. Otherwise they come with the ends of
    /// calls.
    pub out_of_band: Option<Duration>,
    /// An endpoint has to report for so long before its weight is used.
    pub blackout_period: Duration,
    /// A weight is not used any more when so much time has passed without a report.
    pub weight_expiration_period: Duration,
    /// The time between two uses of new weights. Less than 100 ms counts as 100 ms.
    pub weight_update_period: Duration,
    /// The weight of errors.
    pub error_utilization_penalty: ErrorPenalty,
    /// The metrics that are the utilization of an endpoint.
    pub metrics: UtilizationMetrics,
}

/// The weight of the part of calls that end with an error; it is not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorPenalty(f64);

/// The metrics of a report of which the greatest is the utilization of an endpoint (gRFC A114). By
/// default none, and then it is what the report says of the application, or else of the processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UtilizationMetrics(Arc<[Metric]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Metric {
    Application,
    Cpu,
    Mem,
    Named(String),
    Utilization(String),
}

impl Default for WeightedRoundRobinConfig {
    fn default() -> Self {
        Self {
            out_of_band: None,
            blackout_period: Duration::from_secs(10),
            weight_expiration_period: Duration::from_secs(180),
            weight_update_period: Duration::from_secs(1),
            error_utilization_penalty: ErrorPenalty(1.0),
            metrics: UtilizationMetrics::default(),
        }
    }
}

impl ErrorPenalty {
    /// Returns a penalty, unless it is negative or no number.
    pub fn new(factor: f64) -> Option<Self> {
        (factor >= 0.0).then_some(Self(factor))
    }

    pub(super) fn factor(self) -> f64 {
        self.0
    }
}

impl UtilizationMetrics {
    /// From the texts of a configuration. Those that nobody knows mean nothing.
    pub fn new(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        Self(texts.into_iter().filter_map(|text| Metric::new(text.as_ref())).collect())
    }

    /// Returns the utilization that a report says; `None` if it says none.
    pub(super) fn of(&self, report: &OrcaReport) -> Option<f64> {
        let positive = |value: &f64| *value > 0.0;
        let chosen = self.0.iter().filter_map(|metric| metric.of(report)).filter(positive);
        let by_default = || {
            let metrics = [report.application_utilization, report.cpu_utilization];
            metrics.into_iter().flatten().find(positive)
        };
        chosen.reduce(f64::max).or_else(by_default)
    }
}

impl Metric {
    fn new(text: &str) -> Option<Self> {
        match text.split_once('.') {
            Some(("named_metrics", key)) => Some(Self::Named(key.to_owned())),
            Some(("utilization", key)) => Some(Self::Utilization(key.to_owned())),
            Some(_) => None,
            None => match text {
                "application_utilization" => Some(Self::Application),
                "cpu_utilization" => Some(Self::Cpu),
                "mem_utilization" => Some(Self::Mem),
                _ => None,
            },
        }
    }

    fn of(&self, report: &OrcaReport) -> Option<f64> {
        match self {
            Self::Application => report.application_utilization,
            Self::Cpu => report.cpu_utilization,
            Self::Mem => report.mem_utilization,
            Self::Named(key) => report.named_metrics.get(key).copied(),
            Self::Utilization(key) => report.utilization.get(key).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C-116: metric names by gRFC A114. The greatest of those that are named counts, values that are not
    /// positive do not, and without any the policy takes what it takes by default.
    #[test]
    fn the_utilization_is_the_greatest_of_the_metrics_that_are_named() {
        let map = |pairs: &[(&str, f64)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
        };
        let report = OrcaReport {
            cpu_utilization: Some(0.2),
            mem_utilization: Some(0.7),
            named_metrics: map(&[("queue", 3.0), ("a.b", 4.0), ("bad", f64::NAN), ("minus", -9.0)]),
            utilization: map(&[("disk", 0.9)]),
            ..OrcaReport::default()
        };
        let of = |texts: &[&str]| UtilizationMetrics::new(texts).of(&report);
        assert_eq!(of(&[]), Some(0.2));
        assert_eq!(of(&["mem_utilization", "cpu_utilization"]), Some(0.7));
        assert_eq!(of(&["utilization.disk", "mem_utilization"]), Some(0.9));
        assert_eq!(of(&["named_metrics.a.b", "named_metrics.queue"]), Some(4.0));
        assert_eq!(of(&["named_metrics.bad", "named_metrics.minus", "eps", "x.y"]), Some(0.2));
        let application = OrcaReport { application_utilization: Some(0.5), ..report.clone() };
        assert_eq!(UtilizationMetrics::default().of(&application), Some(0.5));
        let zero = OrcaReport { application_utilization: Some(0.0), ..report.clone() };
        assert_eq!(UtilizationMetrics::default().of(&zero), Some(0.2));
        assert_eq!(UtilizationMetrics::default().of(&OrcaReport::default()), None);
    }

    /// C-116: a negative error penalty is refused.
    #[test]
    fn a_penalty_is_not_negative() {
        assert_eq!(ErrorPenalty::new(-0.1), None);
        assert_eq!(ErrorPenalty::new(f64::NAN), None);
        assert!(ErrorPenalty::new(0.0).is_some());
    }
}
