//! The metrics of policies: outliers and weights (gRFC A78, A91).

use std::sync::Arc;

use chancery_calls::balancing::{Counted, DetectionMethod, Ejection, Unenforced, Weights};

use super::call::locality_text;
use super::names::{
    DETECTION, EJECTIONS, LOCALITY, SERVICE, TARGET, UNENFORCED, UNENFORCED_EJECTIONS,
    WRR_FALLBACKS, WRR_NOT_YET_USABLE, WRR_STALE, WRR_WEIGHTS,
};
use super::{MetricsRecorder, recorder};

/// A policy of a channel to this target, below this cluster, has counted something.
pub(crate) fn counted(counted: &Counted, target: &str, cluster: &Arc<str>) {
    let Some(recorder) = recorder() else { return };
    match counted {
        Counted::Ejection(ejection) => ejected(recorder, ejection, target),
        Counted::Weights(weights) => weighed(recorder, weights, target, cluster),
        // Something new of the policies has no metric here yet.
        _ => {}
    }
}

fn ejected(recorder: &dyn MetricsRecorder, ejection: &Ejection, target: &str) {
    let method = match ejection.method {
        DetectionMethod::SuccessRate => "success_rate",
        DetectionMethod::FailurePercentage => "failure_percentage",
    };
    let labels = [(TARGET, target), (SERVICE, &*ejection.cluster), (DETECTION, method)];
    let reason = match ejection.unenforced {
        None => return recorder.add(&EJECTIONS, 1, &labels),
        Some(Unenforced::EnforcementPercentage) => "enforcement_percentage",
        Some(Unenforced::MaxEjectionOverflow) => "max_ejection_overflow",
    };
    let [target, service, detection] = labels;
    let labels = [target, service, detection, (UNENFORCED, reason)];
    recorder.add(&UNENFORCED_EJECTIONS, 1, &labels);
}

fn weighed(recorder: &dyn MetricsRecorder, weights: &Weights, target: &str, cluster: &str) {
    let locality = weights.locality.as_deref().map(locality_text).unwrap_or_default();
    let labels = [(TARGET, target), (LOCALITY, &*locality), (SERVICE, cluster)];
    if weights.is_fallback() {
        recorder.add(&WRR_FALLBACKS, 1, &labels);
    }
    for (metric, count) in
        [(&WRR_NOT_YET_USABLE, weights.not_yet_usable), (&WRR_STALE, weights.stale)]
    {
        if count > 0 {
            recorder.add(metric, count as u64, &labels);
        }
    }
    weights.weights.iter().for_each(|weight| recorder.observe(&WRR_WEIGHTS, *weight, &labels));
}
