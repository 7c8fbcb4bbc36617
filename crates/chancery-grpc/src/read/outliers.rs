//! Outlier detection of a cluster (C-149; gRFC A50).

use chancery_calls::balancing::{Detection, FailurePercentage, Percent, SuccessRate};
use envoy_types::pb::envoy::config::cluster::v3::OutlierDetection;
use envoy_types::pb::google::protobuf::UInt32Value;

use super::fault::{At, Fault};
use super::values;

/// Reads outlier detection. Successes are looked at unless they are not enforced, failures only if they are.
pub(super) fn read(message: &OutlierDetection) -> Result<Detection, Fault> {
    let default = Detection::default();
    let interval = values::some_duration(message.interval.as_ref()).at("interval")?;
    let base = values::some_duration(message.base_ejection_time.as_ref());
    let max = values::some_duration(message.max_ejection_time.as_ref());
    let percent = percent(message.max_ejection_percent.as_ref(), "max_ejection_percent")?;
    Ok(Detection {
        interval: interval.unwrap_or(default.interval),
        base_ejection_time: base.at("base_ejection_time")?.unwrap_or(default.base_ejection_time),
        max_ejection_time: max.at("max_ejection_time")?.unwrap_or(default.max_ejection_time),
        max_ejection_percent: percent.unwrap_or(default.max_ejection_percent),
        success_rate: success_rate(message)?,
        failure_percentage: failure_percentage(message)?,
    })
}

fn success_rate(message: &OutlierDetection) -> Result<Option<SuccessRate>, Fault> {
    let enforcing = message.enforcing_success_rate.as_ref();
    let enforcement = percent(enforcing, "enforcing_success_rate")?;
    if enforcing.is_some_and(|percent| percent.value == 0) {
        return Ok(None);
    }
    let default = SuccessRate::default();
    Ok(Some(SuccessRate {
        stdev_factor: number(&message.success_rate_stdev_factor, default.stdev_factor),
        enforcement: enforcement.unwrap_or(default.enforcement),
        minimum_hosts: number(&message.success_rate_minimum_hosts, default.minimum_hosts),
        request_volume: number(&message.success_rate_request_volume, default.request_volume),
    }))
}

fn failure_percentage(message: &OutlierDetection) -> Result<Option<FailurePercentage>, Fault> {
    let threshold = message.failure_percentage_threshold.as_ref();
    let threshold = percent(threshold, "failure_percentage_threshold")?;
    let enforcing = message.enforcing_failure_percentage.as_ref();
    let enforcement = percent(enforcing, "enforcing_failure_percentage")?;
    let is_enforced = enforcing.is_some_and(|percent| percent.value > 0);
    let Some(enforcement) = enforcement.filter(|_| is_enforced) else { return Ok(None) };
    let default = FailurePercentage::default();
    Ok(Some(FailurePercentage {
        threshold: threshold.unwrap_or(default.threshold),
        enforcement,
        minimum_hosts: number(&message.failure_percentage_minimum_hosts, default.minimum_hosts),
        request_volume: number(&message.failure_percentage_request_volume, default.request_volume),
    }))
}

fn percent(message: Option<&UInt32Value>, field: &str) -> Result<Option<Percent>, Fault> {
    let percent = message.map(|it| Percent::new(it.value).ok_or("it must be at most 100"));
    percent.transpose().at(field)
}

fn number(message: &Option<UInt32Value>, default: u32) -> u32 {
    message.as_ref().map_or(default, |number| number.value)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::super::clusters::Cluster;
    use super::super::support::{fault_of, read};
    use super::*;

    fn cluster(detection: Value) -> Value {
        json!({"type": "EDS", "edsClusterConfig": {"edsConfig": {"ads": {}}},
            "outlierDetection": detection})
    }

    fn detection(fields: Value) -> Detection {
        read::<Cluster>(&cluster(fields)).unwrap().detection.expect("a detection")
    }

    fn percent(percent: u32) -> Percent {
        Percent::new(percent).unwrap()
    }

    #[test]
    fn what_is_left_out_has_the_defaults_of_xds() {
        // C-149
        let expected =
            Detection { success_rate: Some(SuccessRate::default()), ..Detection::default() };
        assert_eq!(detection(json!({})), expected);
        let failures = detection(json!({"enforcingFailurePercentage": 5}));
        let expected =
            FailurePercentage { enforcement: percent(5), ..FailurePercentage::default() };
        assert_eq!(failures.failure_percentage, Some(expected));
    }

    #[test]
    fn what_is_not_enforced_is_off() {
        // C-149
        let off = detection(json!({"enforcingSuccessRate": 0, "enforcingFailurePercentage": 0}));
        assert_eq!(off, Detection::default());
        assert!(!off.is_enabled());
    }

    #[test]
    fn all_thresholds_are_read() {
        // C-149
        let fields = json!({
            "interval": "1s", "baseEjectionTime": "2s", "maxEjectionTime": "3s",
            "maxEjectionPercent": 100, "enforcingSuccessRate": 20, "successRateStdevFactor": 5,
            "successRateMinimumHosts": 6, "successRateRequestVolume": 7,
            "failurePercentageThreshold": 8, "enforcingFailurePercentage": 9,
            "failurePercentageMinimumHosts": 10, "failurePercentageRequestVolume": 11,
        });
        assert_eq!(
            detection(fields),
            Detection {
                interval: Duration::from_secs(1),
                base_ejection_time: Duration::from_secs(2),
                max_ejection_time: Duration::from_secs(3),
                max_ejection_percent: percent(100),
                success_rate: Some(SuccessRate {
                    stdev_factor: 5,
                    enforcement: percent(20),
                    minimum_hosts: 6,
                    request_volume: 7,
                }),
                failure_percentage: Some(FailurePercentage {
                    threshold: percent(8),
                    enforcement: percent(9),
                    minimum_hosts: 10,
                    request_volume: 11,
                }),
            }
        );
    }

    #[test]
    fn percentages_and_times_are_checked_even_if_they_are_not_used() {
        // C-149
        for (key, field) in [
            ("maxEjectionPercent", "max_ejection_percent"),
            ("enforcingSuccessRate", "enforcing_success_rate"),
            ("failurePercentageThreshold", "failure_percentage_threshold"),
            ("enforcingFailurePercentage", "enforcing_failure_percentage"),
        ] {
            let fault = fault_of::<Cluster>(&cluster(json!({key: 101})));
            assert_eq!(fault, format!("outlier_detection.{field}: it must be at most 100"));
        }
        for (key, field) in [
            ("interval", "interval"),
            ("baseEjectionTime", "base_ejection_time"),
            ("maxEjectionTime", "max_ejection_time"),
        ] {
            let fault = fault_of::<Cluster>(&cluster(json!({key: "-1s"})));
            let path = format!("outlier_detection.{field}: a duration must be");
            assert!(fault.starts_with(&path), "{fault}");
        }
    }
}
