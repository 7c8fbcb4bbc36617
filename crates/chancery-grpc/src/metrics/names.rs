//! The metrics, with their units, labels and buckets.

use super::{Metric, MetricKind};

/// Every metric that a recorder may be given.
pub const METRICS: &[&Metric] = &[
    &ATTEMPTS_STARTED,
    &ATTEMPT_DURATION,
    &ATTEMPT_SENT,
    &ATTEMPT_RECEIVED,
    &CALL_DURATION,
    &CALL_RETRIES,
    &TRANSPARENT_RETRIES,
    &RETRY_DELAY,
    &SERVER_STARTED,
    &SERVER_DURATION,
    &SERVER_SENT,
    &SERVER_RECEIVED,
    &CONNECTIONS_MADE,
    &CONNECTIONS_FAILED,
    &CONNECTIONS_OPEN,
    &DISCONNECTIONS,
    &EJECTIONS,
    &UNENFORCED_EJECTIONS,
    &WRR_FALLBACKS,
    &WRR_NOT_YET_USABLE,
    &WRR_STALE,
    &WRR_WEIGHTS,
];

/// The buckets of durations in seconds (gRFC A66).
const SECONDS: &[f64] = &[
    0.0, 0.00001, 0.00005, 0.0001, 0.0003, 0.0006, 0.0008, 0.001, 0.002, 0.003, 0.004, 0.005,
    0.006, 0.008, 0.01, 0.013, 0.016, 0.02, 0.025, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.13, 0.16,
    0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

/// The buckets of sizes in bytes (gRFC A66).
const BYTES: &[f64] = &[
    0.0,
    1_024.0,
    2_048.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
    67_108_864.0,
    268_435_456.0,
    1_073_741_824.0,
    4_294_967_296.0,
];

/// The buckets of numbers of attempts (gRFC A96).
const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0];

/// The buckets of numbers of attempts that no program had seen (gRFC A96).
const TRANSPARENT_ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0];

/// The buckets of weights (gRFC A78 leaves them open).
const WEIGHTS: &[f64] = &[1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0];

pub(super) const METHOD: &str = "grpc.method";
pub(super) const TARGET: &str = "grpc.target";
pub(super) const STATUS: &str = "grpc.status";
pub(super) const LOCALITY: &str = "grpc.lb.locality";
pub(super) const SERVICE: &str = "grpc.lb.backend_service";
pub(crate) const DISCONNECT_ERROR: &str = "grpc.disconnect_error";
pub(super) const DETECTION: &str = "grpc.lb.outlier_detection.detection_method";
pub(super) const UNENFORCED: &str = "grpc.lb.outlier_detection.unenforced_reason";

const fn counter(
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    description: &'static str,
) -> Metric {
    Metric { name, kind: MetricKind::Counter, unit, description, labels, bounds: &[] }
}

const fn histogram(
    name: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
    bounds: &'static [f64],
    description: &'static str,
) -> Metric {
    Metric { name, kind: MetricKind::Histogram, unit, description, labels, bounds }
}

pub(super) static ATTEMPTS_STARTED: Metric = counter(
    "grpc.client.attempt.started",
    "{attempt}",
    &[METHOD, TARGET],
    "Attempts of calls that were begun, also those that have not ended",
);

pub(super) static ATTEMPT_DURATION: Metric = histogram(
    "grpc.client.attempt.duration",
    "s",
    &[METHOD, TARGET, STATUS, LOCALITY, SERVICE],
    SECONDS,
    "The time of an attempt from its beginning to its status",
);

pub(super) static ATTEMPT_SENT: Metric = histogram(
    "grpc.client.attempt.sent_total_compressed_message_size",
    "By",
    &[METHOD, TARGET, STATUS, LOCALITY, SERVICE],
    BYTES,
    "The bytes of the messages that an attempt has sent, compressed if they are, without frames",
);

pub(super) static ATTEMPT_RECEIVED: Metric = histogram(
    "grpc.client.attempt.rcvd_total_compressed_message_size",
    "By",
    &[METHOD, TARGET, STATUS, LOCALITY, SERVICE],
    BYTES,
    "The bytes of the messages that an attempt has received, compressed if they are, without frames",
);

pub(super) static CALL_DURATION: Metric = histogram(
    "grpc.client.call.duration",
    "s",
    &[METHOD, TARGET, STATUS],
    SECONDS,
    "The time of a call with all its attempts and waits",
);

pub(super) static CALL_RETRIES: Metric = histogram(
    "grpc.client.call.retries",
    "{retry}",
    &[METHOD, TARGET],
    ATTEMPTS,
    "The attempts of a call after the first, for calls that have any",
);

pub(super) static TRANSPARENT_RETRIES: Metric = histogram(
    "grpc.client.call.transparent_retries",
    "{transparent_retry}",
    &[METHOD, TARGET],
    TRANSPARENT_ATTEMPTS,
    "How often a call was sent again because no program had seen it, for calls that were",
);

pub(super) static RETRY_DELAY: Metric = histogram(
    "grpc.client.call.retry_delay",
    "s",
    &[METHOD, TARGET],
    SECONDS,
    "The time of a call in which no attempt was under way, for calls with several",
);

pub(super) static SERVER_STARTED: Metric = counter(
    "grpc.server.call.started",
    "{call}",
    &[METHOD],
    "Calls that have arrived at a server, also those that have not ended",
);

pub(super) static SERVER_DURATION: Metric = histogram(
    "grpc.server.call.duration",
    "s",
    &[METHOD, STATUS],
    SECONDS,
    "The time of a call from its arrival at a server to its status",
);

pub(super) static SERVER_SENT: Metric = histogram(
    "grpc.server.call.sent_total_compressed_message_size",
    "By",
    &[METHOD, STATUS],
    BYTES,
    "The bytes of the messages of a response, compressed if they are, without frames",
);

pub(super) static SERVER_RECEIVED: Metric = histogram(
    "grpc.server.call.rcvd_total_compressed_message_size",
    "By",
    &[METHOD, STATUS],
    BYTES,
    "The bytes of the messages of a request, compressed if they are, without frames",
);

pub(crate) static CONNECTIONS_MADE: Metric = counter(
    "grpc.subchannel.connection_attempts_succeeded",
    "{attempt}",
    &[],
    "Connections to endpoints that were made",
);

pub(crate) static CONNECTIONS_FAILED: Metric = counter(
    "grpc.subchannel.connection_attempts_failed",
    "{attempt}",
    &[],
    "Attempts to connect to endpoints that have failed",
);

pub(crate) static CONNECTIONS_OPEN: Metric = Metric {
    name: "grpc.subchannel.open_connections",
    kind: MetricKind::UpDownCounter,
    unit: "{connection}",
    description: "Connections to endpoints that are open",
    labels: &[],
    bounds: &[],
};

pub(crate) static DISCONNECTIONS: Metric = counter(
    "grpc.subchannel.disconnections",
    "{disconnection}",
    &[DISCONNECT_ERROR],
    "Connections to endpoints that have ended",
);

pub(super) static EJECTIONS: Metric = counter(
    "grpc.lb.outlier_detection.ejections_enforced",
    "{ejection}",
    &[TARGET, SERVICE, DETECTION],
    "Endpoints that were taken out for their failures",
);

pub(super) static UNENFORCED_EJECTIONS: Metric = counter(
    "grpc.lb.outlier_detection.ejections_unenforced",
    "{ejection}",
    &[TARGET, SERVICE, DETECTION, UNENFORCED],
    "Endpoints that were told for their failures, and not taken out",
);

pub(super) static WRR_FALLBACKS: Metric = counter(
    "grpc.lb.wrr.rr_fallback",
    "{update}",
    &[TARGET, LOCALITY, SERVICE],
    "Updates of weights after which too few were known",
);

pub(super) static WRR_NOT_YET_USABLE: Metric = counter(
    "grpc.lb.wrr.endpoint_weight_not_yet_usable",
    "{endpoint}",
    &[TARGET, LOCALITY, SERVICE],
    "Endpoints of an update of weights that have not reported for long enough",
);

pub(super) static WRR_STALE: Metric = counter(
    "grpc.lb.wrr.endpoint_weight_stale",
    "{endpoint}",
    &[TARGET, LOCALITY, SERVICE],
    "Endpoints of an update of weights whose last report is too old",
);

pub(super) static WRR_WEIGHTS: Metric = histogram(
    "grpc.lb.wrr.endpoint_weights",
    "{weight}",
    &[TARGET, LOCALITY, SERVICE],
    WEIGHTS,
    "The weights of the endpoints in an update of weights",
);
