//! The body of a response: it hears how the call ends, holds its permit, and ends it at its deadline.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_calls::balancing::{CallEnd, Permit, Picked};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;
use tonic::{Code, Status};

use super::published::ClusterHandle;

/// A call that was sent, until it has ended.
pub(super) struct Sent {
    picked: Picked,
    /// True once the observers know how it ended.
    has_ended: bool,
    _permit: Option<Permit>,
    /// Keeps the cluster for as long as the call lasts (C-100).
    cluster: Arc<ClusterHandle>,
}

/// The body of a response of a [`Channel`](crate::Channel).
pub struct ResponseBody {
    inner: Incoming,
    deadline: Option<Pin<Box<Sleep>>>,
    sent: Sent,
}

impl Sent {
    /// Tells the observers that the call is sent.
    pub(super) fn new(picked: Picked, permit: Option<Permit>, cluster: Arc<ClusterHandle>) -> Self {
        picked.started();
        Self { picked, has_ended: false, _permit: permit, cluster }
    }

    fn ended(&mut self, succeeded: bool) {
        if !self.has_ended {
            self.has_ended = true;
            self.picked.ended(&CallEnd { succeeded, now: self.cluster.now(), report: None });
        }
    }

    /// The call ends with these headers or trailers, if they have a status.
    pub(super) fn hear(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status") {
            self.ended(status.as_bytes() == b"0");
        }
    }
}

/// A call that ends without a status has failed.
impl Drop for Sent {
    fn drop(&mut self) {
        self.ended(false);
    }
}

impl ResponseBody {
    pub(super) fn new(inner: Incoming, deadline: Option<Pin<Box<Sleep>>>, sent: Sent) -> Self {
        Self { inner, deadline, sent }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = Pin::new(&mut self.inner).poll_frame(cx);
        match frame {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.sent.hear(trailers);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.sent.ended(false);
                Poll::Ready(Some(Err(lost(error))))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                let deadline = self.deadline.as_mut().map(|it| it.as_mut().poll(cx).is_ready());
                if deadline != Some(true) {
                    return Poll::Pending;
                }
                self.deadline = None;
                self.sent.ended(false);
                Poll::Ready(Some(Err(exceeded())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Returns the status of a call whose connection or stream broke.
pub(super) fn lost(error: hyper::Error) -> Status {
    let text = error.to_string();
    let status = Status::from_error(Box::new(error));
    match status.code() {
        Code::Unknown => Status::unavailable(format!("the connection broke: {text}")),
        _ => status,
    }
}

/// Returns the status of a call whose time is over.
pub(super) fn exceeded() -> Status {
    Status::deadline_exceeded("the deadline of the call is over")
}

impl fmt::Debug for ResponseBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseBody").finish_non_exhaustive()
    }
}
