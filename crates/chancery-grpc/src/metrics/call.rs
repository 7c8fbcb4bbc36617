//! The metrics of one call and of its attempts (gRFC A66, A89, A96).

use std::sync::Arc;
use std::time::Duration;

use chancery_calls::balancing::EndpointLocality;
use chancery_core::ErrorDetail;
use http::Extensions;
use tokio::time::Instant;
use tonic::{Code, GrpcMethod};

use super::names::{
    ATTEMPT_DURATION, ATTEMPTS_STARTED, CALL_DURATION, CALL_RETRIES, LOCALITY, METHOD, RETRY_DELAY,
    SERVICE, STATUS, TARGET, TRANSPARENT_RETRIES,
};
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
}

/// Measures one attempt.
#[derive(Debug)]
pub(crate) struct AttemptMeter {
    recorder: &'static dyn MetricsRecorder,
    names: Arc<CallNames>,
    began: Instant,
    /// The cluster and the locality of the endpoint.
    service: Arc<str>,
    locality: Arc<EndpointLocality>,
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
        let names = CallNames { method: method.to_owned(), target: Arc::clone(target) };
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

    /// An attempt begins, at an endpoint of this cluster and locality.
    pub(crate) fn attempt(
        &self,
        service: &Arc<str>,
        locality: &Arc<EndpointLocality>,
    ) -> AttemptMeter {
        self.recorder.add(&ATTEMPTS_STARTED, 1, &self.names.labels());
        AttemptMeter {
            recorder: self.recorder,
            names: Arc::clone(&self.names),
            began: Instant::now(),
            service: Arc::clone(service),
            locality: Arc::clone(locality),
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
    /// The attempt has ended.
    pub(crate) fn ended(self, code: Code) {
        let [method, target] = self.names.labels();
        let locality = locality_text(&self.locality);
        let labels = [
            method,
            target,
            (STATUS, name_of(code)),
            (LOCALITY, &locality),
            (SERVICE, &self.service),
        ];
        self.recorder.observe(&ATTEMPT_DURATION, self.began.elapsed().as_secs_f64(), &labels);
    }
}

/// A locality as gRPC writes it in labels (gRFC A78).
pub(super) fn locality_text(locality: &EndpointLocality) -> String {
    let name = &locality.name;
    let (region, zone, sub_zone) = (&name.region, &name.zone, &name.sub_zone);
    format!("{{region=\"{region}\", zone=\"{zone}\", sub_zone=\"{sub_zone}\"}}")
}

/// The name of a code, as gRPC writes it.
fn name_of(code: Code) -> &'static str {
    ErrorDetail::name_of(code.into()).unwrap_or("UNKNOWN")
}
