//! The body of any answer, and what its end gives back to the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::Status;

use crate::grpc::{self, StreamBody};

/// The body of any answer.
#[derive(Default)]
pub(crate) struct ServerBody {
    kind: Kind,
    _active: Option<Active>,
}

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    Stream(Box<StreamBody>),
    Companion(Box<CompanionBody>),
}

/// The body of an answer that is not ours, which ends when the connection must go.
struct CompanionBody {
    body: tonic::body::Body,
    drain: Pin<Box<WaitForCancellationFutureOwned>>,
}

/// How many requests a connection has.
#[derive(Default)]
pub(crate) struct Activity {
    count: AtomicUsize,
    pub(crate) changed: Notify,
}

/// One request of a connection, from its arrival to the end of its answer.
pub(crate) struct Active(Arc<Activity>);

impl ServerBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        Self { kind: Kind::Full(bytes.into()), _active: None }
    }

    pub(crate) fn stream(body: StreamBody, active: Active) -> Self {
        Self { kind: Kind::Stream(Box::new(body)), _active: Some(active) }
    }

    pub(crate) fn companion(
        body: tonic::body::Body,
        drain: CancellationToken,
        active: Active,
    ) -> Self {
        let body = CompanionBody { body, drain: Box::pin(drain.cancelled_owned()) };
        Self { kind: Kind::Companion(Box::new(body)), _active: Some(active) }
    }
}

impl Activity {
    pub(crate) fn begin(self: &Arc<Self>) -> Active {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
        Active(Arc::clone(self))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        match &mut this.kind {
            Kind::Empty => Poll::Ready(None),
            Kind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                this.kind = Kind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Kind::Stream(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            Kind::Companion(body) => {
                let polled = Pin::new(&mut body.body).poll_frame(cx);
                if polled.is_ready() || body.drain.as_mut().poll(cx).is_pending() {
                    return polled;
                }
                this.kind = Kind::Empty;
                Poll::Ready(Some(Ok(grpc::draining_trailers())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty => true,
            Kind::Full(_) | Kind::Stream(_) => false,
            Kind::Companion(body) => body.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
            Kind::Companion(body) => body.body.size_hint(),
        }
    }
}
