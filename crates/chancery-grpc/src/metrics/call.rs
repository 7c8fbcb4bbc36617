//! The metrics of one call and of its attempts (gRFC A66, A89, A96).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::EndpointLocality;
use chancery_core::ErrorDetail;
use http::Extensions;
use tokio::time::Instant;
use tonic::{Code, GrpcMethod};

use super::names::{
    ATTEMPT_DURATION, ATTEMPT_RECEIVED, ATTEMPT_SENT, ATTEMPTS_STARTED, CALL_DURATION,
    CALL_RETRIES, LOCALITY, METHOD, RETRY_DELAY, SERVICE, STATUS, TARGET, TRANSPARENT_RETRIES,
};
use super::sizes::{SizeCounter, Sizes};
use super::{MetricsRecorder, recorder};

/// Measures a call. It is there only if somebody has asked for metrics.
#[derive(Debug)]
pub(crate) struct CallMeter {
    recorder: &'static dyn MetricsRecorder,
    names: Arc<CallNames>,
    began: Instant,
    retries: u32,
    transparent_retries: u32,
    delay: Duration,
    /// The code that it has ended with; a call that is dropped is cancelled.
    code: Code,
}

/// The labels that all attempts of a call share.
#[derive(Debug)]
struct CallNames {
    method: String,
    target: Arc<str>,
    /// True if the target leads to clusters that have names.
    has_clusters: bool,
}

/// Measures one attempt, from before an endpoint is chosen.
#[derive(Debug)]
pub(crate) struct AttemptMeter {
    recorder: &'static dyn MetricsRecorder,
    names: Arc<CallNames>,
    began: Instant,
    /// The end of the time of the call.
    deadline: Option<Instant>,
    service: Arc<str>,
    /// The locality of the endpoint, if one was chosen.
    locality: Option<Arc<EndpointLocality>>,
    sizes: Arc<Sizes>,
    received: SizeCounter,
    /// The code that it has ended with.
    code: Option<Code>,
}

/// The reason why a call has another attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RetryKind {
    /// No program had seen it.
    Transparent,
    /// The policy of its route wants it, after this wait.
    Policy(Duration),
}

impl CallMeter {
    /// Begins to measure a call, if there is a recorder. Methods that no generated client has named are one, because
    /// a program may call paths that others choose.
    pub(crate) fn begin(path: &str, extensions: &Extensions, target: &Arc<str>) -> Option<Self> {
        let recorder = recorder()?;
        let is_known = extensions.get::<GrpcMethod<'static>>().is_some();
        let method = if is_known { path.trim_start_matches('/') } else { "other" };
        let scheme = target.split(':').next().unwrap_or_default();
        let has_clusters = scheme.eq_ignore_ascii_case("xds");
        let names =
            CallNames { method: method.to_owned(), target: Arc::clone(target), has_clusters };
        Some(Self {
            recorder,
            names: Arc::new(names),
            began: Instant::now(),
            retries: 0,
            transparent_retries: 0,
            delay: Duration::ZERO,
            code: Code::Cancelled,
        })
    }

    /// An attempt begins, in this cluster, of a call that has time until the deadline.
    pub(crate) fn attempt(&self, cluster: &Arc<str>, deadline: Option<Instant>) -> AttemptMeter {
        self.recorder.add(&ATTEMPTS_STARTED, 1, &self.names.labels());
        let sizes = Arc::default();
        AttemptMeter {
            recorder: self.recorder,
            names: Arc::clone(&self.names),
            began: Instant::now(),
            deadline,
            service: Arc::clone(cluster),
            locality: None,
            received: SizeCounter::of_received(&sizes),
            sizes,
            code: None,
        }
    }

    /// The call has another attempt.
    pub(crate) fn retried(&mut self, kind: RetryKind) {
        match kind {
            RetryKind::Transparent => {
                self.transparent_retries = self.transparent_retries.saturating_add(1);
            }
            RetryKind::Policy(wait) => {
                self.retries = self.retries.saturating_add(1);
                self.delay = self.delay.saturating_add(wait);
            }
        }
    }

    /// The call has ended with this code.
    pub(crate) fn ended(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for CallMeter {
    fn drop(&mut self) {
        let Self { recorder, names, began, retries, transparent_retries, delay, code } = &*self;
        let (retries, transparent_retries, code) = (*retries, *transparent_retries, *code);
        let [method, target] = names.labels();
        let labels = [method, target, (STATUS, name_of(code))];
        recorder.observe(&CALL_DURATION, began.elapsed().as_secs_f64(), &labels);
        if retries > 0 {
            recorder.observe(&CALL_RETRIES, f64::from(retries), &[method, target]);
            recorder.observe(&RETRY_DELAY, delay.as_secs_f64(), &[method, target]);
        }
        if transparent_retries > 0 {
            let retries = f64::from(transparent_retries);
            recorder.observe(&TRANSPARENT_RETRIES, retries, &[method, target]);
        }
    }
}

impl CallNames {
    fn labels(&self) -> [(&'static str, &str); 2] {
        [(METHOD, &self.method), (TARGET, &self.target)]
    }
}

impl AttemptMeter {
    /// The attempt goes to an endpoint of this cluster and locality.
    pub(crate) fn goes_to(&mut self, cluster: &Arc<str>, locality: &Arc<EndpointLocality>) {
        self.service = Arc::clone(cluster);
        self.locality = Some(Arc::clone(locality));
    }

    /// Returns what counts the messages that are sent.
    pub(crate) fn count_sent(&self) -> SizeCounter {
        SizeCounter::of_sent(&self.sizes)
    }

    /// A piece of the response has come.
    pub(crate) fn received(&mut self, piece: &[u8]) {
        self.received.count(piece);
    }

    /// The attempt has ended.
    pub(crate) fn ended(mut self, code: Code) {
        self.code = Some(code);
    }

    /// Returns the code of the attempt. One that is dropped has come to its deadline, or is cancelled.
    pub(crate) fn code(&self) -> Code {
        let is_over = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        let dropped = if is_over { Code::DeadlineExceeded } else { Code::Cancelled };
        self.code.unwrap_or(dropped)
    }
}

impl Drop for AttemptMeter {
    fn drop(&mut self) {
        let Self { recorder, names, began, sizes, .. } = &*self;
        let [method, target] = names.labels();
        // Both are empty where no control plane has said them.
        let locality = self.locality.as_deref().filter(|_| names.has_clusters);
        let locality = locality.map(locality_text).unwrap_or_default();
        let service = if names.has_clusters { &*self.service } else { "" };
        let status = (STATUS, name_of(self.code()));
        let labels = [method, target, status, (LOCALITY, &*locality), (SERVICE, service)];
        recorder.observe(&ATTEMPT_DURATION, began.elapsed().as_secs_f64(), &labels);
        sizes.observe(*recorder, [&ATTEMPT_SENT, &ATTEMPT_RECEIVED], &labels);
    }
}

/// A locality as gRPC writes it in labels (gRFC A78).
pub(super) fn locality_text(locality: &EndpointLocality) -> String {
    let name = &locality.name;
    let (region, zone, sub_zone) = (&name.region, &name.zone, &name.sub_zone);
    format!("{{region=\"{region}\", zone=\"{zone}\", sub_zone=\"{sub_zone}\"}}")
}

/// The name of a code, as gRPC writes it.
pub(super) fn name_of(code: Code) -> &'static str {
    ErrorDetail::name_of(code.into()).unwrap_or("UNKNOWN")
}
