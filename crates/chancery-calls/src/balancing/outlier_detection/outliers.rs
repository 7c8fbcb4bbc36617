//! The endpoints of an interval that are outliers, by both ways to tell (gRFC A50). Not here: the number
//! of them that may be taken out.

use super::config::{Detection, FailurePercentage, SuccessRate};
use super::counts::Calls;

/// A way to tell an outlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DetectionMethod {
    /// By fewer successes than others have.
    SuccessRate,
    /// By failures alone.
    FailurePercentage,
}

/// Returns the places of outliers, first those by success rate.
pub(super) fn outliers(detection: &Detection, calls: &[Calls]) -> Vec<(usize, DetectionMethod)> {
    let by_rate = detection.success_rate.as_ref().map(|it| by_success_rate(it, calls));
    let by_failures = detection.failure_percentage.as_ref().map(|it| by_failures(it, calls));
    let by_rate = by_rate.into_iter().flatten();
    let by_failures = by_failures.into_iter().flatten();
    by_rate
        .map(|place| (place, DetectionMethod::SuccessRate))
        .chain(by_failures.map(|place| (place, DetectionMethod::FailurePercentage)))
        .collect()
}

fn by_success_rate(config: &SuccessRate, calls: &[Calls]) -> Vec<usize> {
    let judged = judged(calls, config.request_volume, config.minimum_hosts);
    let rates: Vec<_> = judged.iter().map(|(_, calls)| calls.success_rate()).collect();
    let mean = mean(rates.iter().copied());
    let deviation = mean_of_squares(&rates, mean).sqrt();
    let required = mean - deviation * (f64::from(config.stdev_factor) / 1000.0);
    let lower = judged.iter().zip(&rates).filter(|(_, rate)| **rate < required);
    lower.map(|((place, _), _)| *place).collect()
}

fn by_failures(config: &FailurePercentage, calls: &[Calls]) -> Vec<usize> {
    let judged = judged(calls, config.request_volume, config.minimum_hosts);
    let threshold = u64::from(config.threshold.of_hundred());
    let more = judged.into_iter().filter(|(_, calls)| {
        let (failures, total) = (u64::from(calls.failures), u64::from(calls.total()));
        failures * 100 > threshold * total
    });
    more.map(|(place, _)| place).collect()
}

/// Returns the endpoints with enough calls; none if there are too few of them. One without calls is not
/// judged, whatever is configured.
fn judged(calls: &[Calls], request_volume: u32, minimum_hosts: u32) -> Vec<(usize, Calls)> {
    let is_enough = |calls: &Calls| calls.total() >= request_volume.max(1);
    let enough = calls.iter().copied().enumerate().filter(|(_, calls)| is_enough(calls));
    let judged: Vec<_> = enough.collect();
    match u32::try_from(judged.len()) {
        Ok(count) if count < minimum_hosts => Vec::new(),
        _ => judged,
    }
}

/// Returns the mean of some numbers; 0 of none.
fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    numbers.sum::<f64>() / f64::from(count.max(1))
}

fn mean_of_squares(rates: &[f64], mean_rate: f64) -> f64 {
    mean(rates.iter().map(|rate| (rate - mean_rate).powi(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancing::Percent;

    fn calls(all: &[(u32, u32)]) -> Vec<Calls> {
        all.iter()
            .map(|(successes, failures)| Calls { successes: *successes, failures: *failures })
            .collect()
    }

    fn places(detection: Detection, all: &[(u32, u32)]) -> Vec<usize> {
        outliers(&detection, &calls(all)).into_iter().map(|(place, _)| place).collect()
    }

    fn rate(config: SuccessRate) -> Detection {
        Detection { success_rate: Some(config), ..Detection::default() }
    }

    fn failures(config: FailurePercentage) -> Detection {
        Detection { failure_percentage: Some(config), ..Detection::default() }
    }

    /// C-149: success rate with all thresholds. The rates are 1, 1, 1, 1 and 0.5: the mean is 0.9 and the
    /// deviation 0.2, so that 0.5 is two deviations below.
    #[test]
    fn a_rate_is_judged_by_those_of_the_others() {
        let all = [(100, 0), (100, 0), (50, 50), (100, 0), (100, 0)];
        let config = SuccessRate::default();
        assert_eq!(places(rate(config.clone()), &all), [2]);
        let factor = |stdev_factor| rate(SuccessRate { stdev_factor, ..config.clone() });
        assert_eq!(places(factor(1_999), &all), [2]);
        assert_eq!(places(factor(2_001), &all), []);
        let volume = |request_volume| rate(SuccessRate { request_volume, ..config.clone() });
        assert_eq!(places(volume(101), &all), [], "none has enough calls");
        let hosts = |minimum_hosts| rate(SuccessRate { minimum_hosts, ..config.clone() });
        assert_eq!(places(hosts(6), &all), []);
        let fewer = [(99, 0), (100, 0), (50, 50), (100, 0), (100, 0)];
        assert_eq!(places(rate(config.clone()), &fewer), [], "four have enough calls");
        assert_eq!(places(rate(config), &[]), []);
    }

    /// C-149: failure percentage with all thresholds.
    #[test]
    fn failures_are_judged_by_themselves() {
        let all = [(15, 85), (14, 86), (0, 49), (0, 50), (100, 0), (100, 0)];
        let config = FailurePercentage::default();
        assert_eq!(
            places(failures(config.clone()), &all),
            [1, 3],
            "85 of 100 are not more than 85"
        );
        let volume = FailurePercentage { request_volume: 49, ..config };
        assert_eq!(places(failures(volume), &all), [1, 2, 3]);
        let hosts = FailurePercentage { minimum_hosts: 6, ..config };
        assert_eq!(places(failures(hosts), &all), []);
        let threshold = Percent::new(84).expect("a percentage");
        let threshold = FailurePercentage { threshold, ..config };
        assert_eq!(places(failures(threshold), &all), [0, 1, 3]);
        let anything = FailurePercentage { request_volume: 0, minimum_hosts: 0, ..config };
        assert_eq!(places(failures(anything), &[(0, 0), (0, 1)]), [1], "no calls are no failures");
    }

    /// C-149: the parts of a configuration are at most 100.
    #[test]
    fn a_percentage_is_at_most_100() {
        assert_eq!(Percent::new(101), None);
        assert_eq!(Percent::new(u32::MAX), None);
        assert!(Percent::new(100) > Percent::new(99));
    }
}
