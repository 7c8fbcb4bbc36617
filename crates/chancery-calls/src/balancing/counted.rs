//! Events in a tree of policies that gRPC has metrics for (gRFC A78, A91). Not here: the names of the
//! metrics, and the labels that a driver knows.

use std::sync::Arc;

use super::endpoint::EndpointLocality;
use super::outlier_detection::DetectionMethod;

/// Something to count.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Counted {
    /// An outlier was told: `grpc.lb.outlier_detection.*`.
    Ejection(Ejection),
    /// Weights were looked at to schedule calls by them: `grpc.lb.wrr.*`.
    Weights(Weights),
}

/// An outlier that was taken out, or was not (gRFC A91).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ejection {
    /// The cluster of the endpoint.
    pub cluster: Arc<str>,
    /// The way in which it was told.
    pub method: DetectionMethod,
    /// The reason why it was not taken out.
    pub unenforced: Option<Unenforced>,
}

/// A reason why an outlier is not taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unenforced {
    /// The dice said so: `enforcement_percentage`.
    EnforcementPercentage,
    /// As many are out as may be: `max_ejection_overflow`.
    MaxEjectionOverflow,
}

/// The weights of the endpoints that are ready, when a schedule is made of them (gRFC A78).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Weights {
    /// The locality, if all endpoints are in one.
    pub locality: Option<Arc<EndpointLocality>>,
    /// The weight of each endpoint, 0 if it has none: `endpoint_weights`.
    pub weights: Vec<f64>,
    /// The endpoints that have not reported for long enough: `endpoint_weight_not_yet_usable`.
    pub not_yet_usable: usize,
    /// The endpoints whose last report is too old: `endpoint_weight_stale`.
    pub stale: usize,
}

impl Weights {
    /// Returns true if too few weights are known, and all endpoints get the same: `rr_fallback`.
    pub fn is_fallback(&self) -> bool {
        self.weights.iter().filter(|weight| **weight > 0.0).count() < 2
    }
}
