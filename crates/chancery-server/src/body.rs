//! The body of any answer, and what its end gives back to the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use crate::grpc::{self, StreamBody};

/// The body of any answer.
#[derive(Default)]
pub(crate) struct ServerBody {
    kind: BodyKind,
    active: Option<ActiveRequest>,
}

#[derive(Default)]
enum BodyKind {
    #[default]
    Empty,
    Full(Bytes),
    Stream(Box<StreamBody>),
    /// An answer that is not ours.
    Service(Box<tonic::body::Body>),
}

/// What the requests of a connection and the connection tell each other. All of them run in its
/// task, which looks at this after each of them, and polls all of them when they must go.
#[derive(Default)]
pub(crate) struct ConnectionActivity {
    count: AtomicUsize,
    begun: AtomicUsize,
    draining: AtomicBool,
}

/// One request of a connection, from its arrival to the end of its answer.
pub(crate) struct ActiveRequest(Arc<ConnectionActivity>);

impl ServerBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        Self { kind: BodyKind::Full(bytes.into()), active: None }
    }

    pub(crate) fn stream(body: StreamBody, active: ActiveRequest) -> Self {
        Self { kind: BodyKind::Stream(Box::new(body)), active: Some(active) }
    }

    pub(crate) fn service(body: tonic::body::Body, active: ActiveRequest) -> Self {
        Self { kind: BodyKind::Service(Box::new(body)), active: Some(active) }
    }

    /// Whether the frame it gave last was all, so that it need not be asked again in this poll.
    pub(crate) fn would_pend(&self) -> bool {
        matches!(&self.kind, BodyKind::Stream(body) if body.would_pend())
    }
}

impl ConnectionActivity {
    pub(crate) fn begin(self: &Arc<Self>) -> ActiveRequest {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        ActiveRequest(Arc::clone(self))
    }

    /// How many requests there were.
    pub(crate) fn begun(&self) -> usize {
        self.begun.load(Ordering::Acquire)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// The requests must come to their end. They have to be polled to hear of it.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Waits until the requests must end.
    pub(crate) async fn drained(&self) {
        let draining = |_: &mut Context<'_>| match self.is_draining() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        };
        std::future::poll_fn(draining).await;
    }
}

impl ActiveRequest {
    pub(crate) fn activity(&self) -> &Arc<ConnectionActivity> {
        &self.0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
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
            BodyKind::Empty => Poll::Ready(None),
            BodyKind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                this.kind = BodyKind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            BodyKind::Stream(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            BodyKind::Service(body) => {
                let polled = Pin::new(&mut **body).poll_frame(cx);
                let draining = this.active.as_ref().is_some_and(|it| it.0.is_draining());
                if polled.is_ready() || !draining {
                    return polled;
                }
                this.kind = BodyKind::Empty;
                Poll::Ready(Some(Ok(grpc::draining_trailers())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Empty => true,
            BodyKind::Full(_) | BodyKind::Stream(_) => false,
            BodyKind::Service(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Empty => SizeHint::with_exact(0),
            BodyKind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Stream(_) => SizeHint::default(),
            BodyKind::Service(body) => body.size_hint(),
        }
    }
}
