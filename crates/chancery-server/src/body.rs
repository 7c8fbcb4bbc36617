//! The body of any response.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tonic::Status;

use crate::activity::{ActiveRequest, ConnectionActivity};
use crate::budget::{MemoryCharge, MemoryShortage};
use crate::csds::CsdsBody;
use crate::grpc::{self, LoadBody, StreamBody};
use crate::rest::PollBody;
use crate::server_state::StreamPermit;

/// The body of any response. The request counts as open until it is dropped.
#[derive(Default)]
pub(crate) struct ServerBody {
    kind: BodyKind,
    #[expect(dead_code, reason = "the request is open until it is dropped")]
    active: Option<ActiveRequest>,
}

#[derive(Default)]
enum BodyKind {
    #[default]
    Empty,
    Full(Bytes),
    Stream(Box<StreamBody>),
    Load(Box<LoadBody>),
    Csds(Box<CsdsBody>),
    Answer(Box<AnswerBody>),
    Poll(Box<PollBody>),
    Service(Box<ServiceBody>),
}

/// An answer that was made as a whole.
struct AnswerBody {
    answer: Bytes,
    #[expect(dead_code, reason = "the request counts as a stream until it is dropped")]
    permit: StreamPermit,
    charge: MemoryCharge,
}

/// The body of a response that a tower service gave.
struct ServiceBody {
    body: tonic::body::Body,
    activity: Arc<ConnectionActivity>,
    #[expect(dead_code, reason = "the call counts as a stream until it is dropped")]
    permit: Option<StreamPermit>,
    charge: MemoryCharge,
}

impl ServerBody {
    pub(crate) fn full(bytes: Bytes) -> Self {
        let kind = if bytes.is_empty() { BodyKind::Empty } else { BodyKind::Full(bytes) };
        Self { kind, active: None }
    }

    pub(crate) fn stream(body: StreamBody, active: ActiveRequest) -> Self {
        Self { kind: BodyKind::Stream(Box::new(body)), active: Some(active) }
    }

    pub(crate) fn load(body: LoadBody, active: ActiveRequest) -> Self {
        Self { kind: BodyKind::Load(Box::new(body)), active: Some(active) }
    }

    pub(crate) fn csds(body: CsdsBody, active: ActiveRequest) -> Self {
        Self { kind: BodyKind::Csds(Box::new(body)), active: Some(active) }
    }

    /// An answer that was made as a whole, with what it is counted by.
    pub(crate) fn answer(
        answer: Bytes,
        (permit, charge): (StreamPermit, MemoryCharge),
        active: ActiveRequest,
    ) -> Self {
        let kind = BodyKind::Answer(Box::new(AnswerBody { answer, permit, charge }));
        Self { kind, active: Some(active) }
    }

    pub(crate) fn poll(body: PollBody) -> Self {
        Self { kind: BodyKind::Poll(Box::new(body)), active: None }
    }

    /// The body of a tower service, which ends with a status when the connection drains.
    pub(crate) fn service(
        body: tonic::body::Body,
        activity: Arc<ConnectionActivity>,
        (permit, charge): (Option<StreamPermit>, MemoryCharge),
        active: ActiveRequest,
    ) -> Self {
        let kind = BodyKind::Service(Box::new(ServiceBody { body, activity, permit, charge }));
        Self { kind, active: Some(active) }
    }

    /// Returns true if another poll now would only return `Pending`: the body has given all that
    /// there is, and its waker will be called when there is more.
    pub(crate) fn would_pend(&self) -> bool {
        matches!(&self.kind, BodyKind::Stream(body) if body.would_pend())
    }
}

impl ServerBody {
    /// Returns true if the body has to end, because other clients need the memory that is held for
    /// it. If not, `waker` is woken when that changes.
    pub(crate) fn is_asked_back(&self, waker: &Waker) -> bool {
        match &self.kind {
            BodyKind::Stream(body) => body.is_asked_back(waker),
            BodyKind::Load(body) => body.is_asked_back(waker),
            BodyKind::Csds(body) => body.is_asked_back(waker),
            BodyKind::Answer(body) => body.charge.is_asked_back(waker),
            BodyKind::Poll(body) => body.is_asked_back(waker),
            BodyKind::Service(body) => body.charge.is_asked_back(waker),
            BodyKind::Empty | BodyKind::Full(_) => false,
        }
    }

    /// Takes in that the client has no room for the bytes that wait for it.
    pub(crate) fn waits_for_room(&self) {
        if let BodyKind::Stream(body) = &self.kind {
            body.waits_for_room();
        }
    }

    /// Has the budget know what is held for the body while its client takes none of it. The task is
    /// woken when that may have changed.
    ///
    /// # Errors
    /// When the client may not hold so much. The body should end.
    pub(crate) fn check_unread(&self, cx: &Context<'_>) -> Result<(), MemoryShortage> {
        match &self.kind {
            BodyKind::Stream(body) => body.check_unread(cx),
            // Only discovery streams follow what their audience sees.
            BodyKind::Load(_)
            | BodyKind::Csds(_)
            | BodyKind::Answer(_)
            | BodyKind::Poll(_)
            | BodyKind::Service(_)
            | BodyKind::Empty
            | BodyKind::Full(_) => Ok(()),
        }
    }

    /// Returns true if the body was told to end while it waited for room, and does not end by itself
    /// as a stream does.
    pub(crate) fn is_cut_off(&self) -> bool {
        match &self.kind {
            BodyKind::Poll(body) => body.was_asked_back(),
            BodyKind::Service(body) => body.charge.was_asked_back(),
            BodyKind::Answer(body) => body.charge.was_asked_back(),
            BodyKind::Stream(_)
            | BodyKind::Load(_)
            | BodyKind::Csds(_)
            | BodyKind::Empty
            | BodyKind::Full(_) => false,
        }
    }
}

impl ServiceBody {
    /// The next frame, or the end of the stream if there is none and the connection drains.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if polled.is_pending() && self.activity.is_draining() {
            self.body = tonic::body::Body::empty();
            return Poll::Ready(Some(Ok(grpc::draining_trailers())));
        }
        polled
    }
}

impl Body for ServerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match &mut self.kind {
            BodyKind::Empty => Poll::Ready(None),
            BodyKind::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                self.kind = BodyKind::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            BodyKind::Stream(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            BodyKind::Load(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            BodyKind::Csds(body) => Pin::new(&mut **body)
                .poll_frame(cx)
                .map(|frame| frame.map(|frame| frame.map_err(|never| match never {}))),
            BodyKind::Answer(body) => {
                let bytes = std::mem::take(&mut body.answer);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            BodyKind::Poll(body) => {
                let chunk = body.next_chunk().map_err(|error| Status::internal(error.to_string()));
                Poll::Ready(chunk.transpose().map(|chunk| chunk.map(Frame::data)))
            }
            BodyKind::Service(body) => body.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            BodyKind::Empty => true,
            BodyKind::Full(_) | BodyKind::Stream(_) | BodyKind::Load(_) | BodyKind::Csds(_) => {
                false
            }
            BodyKind::Answer(body) => body.answer.is_empty(),
            BodyKind::Poll(body) => body.left() == 0,
            BodyKind::Service(service) => service.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            BodyKind::Empty => SizeHint::with_exact(0),
            BodyKind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            BodyKind::Stream(_) | BodyKind::Load(_) | BodyKind::Csds(_) => SizeHint::default(),
            BodyKind::Answer(body) => SizeHint::with_exact(body.answer.len() as u64),
            BodyKind::Poll(body) => SizeHint::with_exact(body.left()),
            BodyKind::Service(service) => service.body.size_hint(),
        }
    }
}
