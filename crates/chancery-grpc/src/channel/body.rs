//! The body of a response: it hears how the call ends, holds its permit, and ends it at its deadline.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_calls::balancing::{CallEnd, Permit, Picked};
use chancery_core::client::load::OrcaReport;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep};
use tonic::{Code, Status};

use super::awaited::{self, exceeded};
use super::published::ClusterHandle;
use super::replay::RunningAttempt;
use crate::connect::broken;
use crate::metrics::{AttemptMeter, CallMeter};
use crate::orca;

/// A call that was sent, until it has ended.
pub(super) struct Sent {
    picked: Picked,
    /// True once the observers know how it ended.
    has_ended: bool,
    permit: Option<Permit>,
    /// Keeps the cluster for as long as the call lasts (C-100).
    cluster: Arc<ClusterHandle>,
    meter: Option<AttemptMeter>,
    /// The messages of the request, whose stream is reset if the call ends before them.
    request: Option<RunningAttempt>,
    /// Measures the whole call, if this is its last attempt.
    call: Option<CallMeter>,
    /// The code that it has ended with.
    code: Option<Code>,
}

/// The body of a response of a [`Channel`](crate::Channel).
pub struct ResponseBody {
    /// The response of a server; `None` if the call was answered here, with nothing.
    call: Option<(Incoming, Sent)>,
    deadline: Option<Pin<Box<Sleep>>>,
    /// True after an error, which is the end.
    has_failed: bool,
}

impl Sent {
    /// Tells the observers that the call is sent.
    pub(super) fn new(
        picked: Picked,
        permit: Option<Permit>,
        cluster: Arc<ClusterHandle>,
        meter: Option<AttemptMeter>,
    ) -> Self {
        picked.started();
        Self {
            picked,
            has_ended: false,
            permit,
            cluster,
            meter,
            request: None,
            call: None,
            code: None,
        }
    }

    pub(super) fn picked(&self) -> &Picked {
        &self.picked
    }

    /// Returns the status of a call whose time is over before it is answered to the end.
    fn late(&self) -> Status {
        exceeded(format_args!("the rest of {}", awaited::answer(&self.picked)))
    }

    /// The messages of the request may not have ended when the call does.
    pub(super) fn keeps_open(&mut self, request: RunningAttempt) {
        self.request = Some(request);
    }

    /// The call ends with this code.
    pub(super) fn ends(&mut self, code: Code) {
        self.ends_with(code, None);
    }

    /// The call ends with this code, and this report of the server.
    fn ends_with(&mut self, code: Code, report: Option<&OrcaReport>) {
        let code = *self.code.get_or_insert(code);
        if let Some(request) = self.request.take() {
            request.end();
        }
        if let Some(meter) = self.meter.take() {
            meter.ended(code);
        }
        if let Some(call) = self.call.take() {
            call.ended(code);
        }
        self.ended(code == Code::Ok, report);
    }

    fn ended(&mut self, succeeded: bool, report: Option<&OrcaReport>) {
        if !self.has_ended {
            self.has_ended = true;
            self.permit = None;
            self.picked.ended(&CallEnd { succeeded, now: self.cluster.now(), report });
        }
    }

    /// The call ends with these headers or trailers, if they have a status. The server may have put a report of
    /// its load beside it.
    pub(super) fn hear(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            let report = self.picked.uses_reports().then(|| orca::report_of(headers)).flatten();
            self.ends_with(Code::from_bytes(status.as_bytes()), report.as_ref());
        }
    }
}

/// A call that ends without a status has failed.
impl Drop for Sent {
    fn drop(&mut self) {
        // The meter knows whether the time of the call is over.
        let code = self.meter.as_ref().map_or(Code::Cancelled, AttemptMeter::code);
        self.ends(code);
    }
}

impl ResponseBody {
    pub(super) fn new(inner: Incoming, deadline: Option<Pin<Box<Sleep>>>, sent: Sent) -> Self {
        Self { call: Some((inner, sent)), deadline, has_failed: false }
    }

    /// Lets the call be measured until it ends.
    pub(super) fn measure(&mut self, call: CallMeter) {
        match &mut self.call {
            Some((_, sent)) => match sent.code {
                Some(code) => call.ended(code),
                None => sent.call = Some(call),
            },
            None => call.ended(Code::Ok),
        }
    }
}

/// The body of a response that no server has sent: that of a call which was answered here, or by an interceptor of
/// the program.
impl Default for ResponseBody {
    fn default() -> Self {
        Self { call: None, deadline: None, has_failed: false }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Self { call: Some((inner, sent)), deadline, has_failed } = &mut *self else {
            return Poll::Ready(None);
        };
        if *has_failed {
            return Poll::Ready(None);
        }
        // First, because a server that always has more to send must not outrun the end of the call.
        if deadline.as_mut().is_some_and(|it| it.as_mut().poll(cx).is_ready()) {
            sent.ends(Code::DeadlineExceeded);
            let late = sent.late();
            // The rest of the call is let go, so that its stream is reset.
            (self.call, self.deadline) = (None, None);
            return Poll::Ready(Some(Err(late)));
        }
        match Pin::new(inner).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(meter), Some(data)) = (&mut sent.meter, frame.data_ref()) {
                    meter.received(data);
                }
                if let Some(trailers) = frame.trailers_ref() {
                    sent.hear(trailers);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                *has_failed = true;
                let end = deadline.as_ref().map(|it| it.deadline());
                let status = at_end(lost(&error), end, || sent.late());
                sent.ends(status.code());
                Poll::Ready(Some(Err(status)))
            }
            Poll::Ready(None) => {
                // The server has sent no status.
                sent.ends(Code::Unknown);
                Poll::Ready(None)
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.call.as_ref().is_none_or(|(inner, _)| inner.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.call.as_ref().map_or_else(|| SizeHint::with_exact(0), |(inner, _)| inner.size_hint())
    }
}

/// Returns the status of a call whose connection or stream broke, by the table of gRPC over HTTP/2.
pub(super) fn lost(error: &hyper::Error) -> Status {
    let text = format!("the connection broke: {}", broken::with_causes(error));
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    let reason = cause.filter(|cause| !cause.is_go_away()).and_then(h2::Error::reason);
    match reason {
        Some(h2::Reason::CANCEL) => Status::cancelled(text),
        Some(h2::Reason::ENHANCE_YOUR_CALM) => Status::resource_exhausted(text),
        Some(h2::Reason::INADEQUATE_SECURITY) => Status::permission_denied(text),
        None | Some(h2::Reason::REFUSED_STREAM) => Status::unavailable(text),
        Some(_) => Status::internal(text),
    }
}

/// Returns the status of a call that was lost, and may have come to its end. A server that ends a call at its
/// deadline resets the stream, which the client may see before its own timer.
pub(super) fn at_end(
    status: Status,
    end: Option<Instant>,
    late: impl FnOnce() -> Status,
) -> Status {
    let is_over = end.is_some_and(|end| end <= Instant::now());
    match status.code() {
        Code::Cancelled if is_over => late(),
        _ => status,
    }
}

/// Returns true if no program has seen the call: the stream was refused, or is above the last one that a
/// GOAWAY names (gRFC A6).
pub(super) fn is_refused(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        cause.is_remote()
            && (cause.is_go_away() || cause.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_reset_at_its_deadline_has_exceeded_it() {
        // C-102
        let end = Instant::now() + Duration::from_millis(1);
        let code = |status, end| at_end(status, end, || exceeded("an answer")).code();
        assert_eq!(code(Status::cancelled(""), Some(end)), Code::Cancelled);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(code(Status::cancelled(""), Some(end)), Code::DeadlineExceeded);
        assert_eq!(code(Status::cancelled(""), None), Code::Cancelled);
        assert_eq!(code(Status::unavailable(""), Some(end)), Code::Unavailable);
    }
}
