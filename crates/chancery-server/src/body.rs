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
    kind: Kind,
    active: Option<Active>,
}

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    Stream(Box<StreamBody>),
    /// An answer that is not ours.
    Companion(Box<tonic::body::Body>),
}

/// What the requests of a connection and the connection tell each other. All of them run in its
/// task, which looks at this after each of them, and polls all of them when they must go.
#[derive(Default)]
pub(crate) struct Activity {
    count: AtomicUsize,
    begun: AtomicUsize,
    draining: AtomicBool,
}

/// One request of a connection, from its arrival to the end of its answer.
pub(crate) struct Active(Arc<Activity>);

impl ServerBody {
    pub(crate) fn full(bytes: impl Into<Bytes>) -> Self {
        Self { kind: Kind::Full(bytes.into()), active: None }
    }

    pub(crate) fn stream(body: StreamBody, active: Active) -> Self {
        Self { kind: Kind::Stream(Box::new(body)), active: Some(active) }
    }

    pub(crate) fn companion(body: tonic::body::Body, active: Active) -> Self {
        Self { kind: Kind::Companion(Box::new(body)), active: Some(active) }
    }

    /// Whether the frame it gave last was all, so that it need not be asked again in this poll.
    pub(crate) fn said_all(&self) -> bool {
        matches!(&self.kind, Kind::Stream(body) if body.said_all())
    }
}

impl Activity {
    pub(crate) fn begin(self: &Arc<Self>) -> Active {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::AcqRel);
        Active(Arc::clone(self))
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

impl Active {
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.0
    }
}

impl Drop for Active {
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
                let polled = Pin::new(&mut **body).poll_frame(cx);
                let draining = this.active.as_ref().is_some_and(|it| it.0.is_draining());
                if polled.is_ready() || !draining {
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
            Kind::Companion(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Stream(_) => SizeHint::default(),
            Kind::Companion(body) => body.size_hint(),
        }
    }
}
