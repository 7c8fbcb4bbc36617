//! The body of the response to a call of CSDS over gRPC, which makes the answers when it is polled.
//!
//! An answer that waits for its reader is charged to the peer, and no question is read meanwhile.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use tonic::Status;

use super::{Csds, CsdsRefused};
use crate::activity::ConnectionActivity;
use crate::budget::MemoryCharge;
use crate::grpc::{
    NextMessage, RequestMessages, asked_back, draining, frame_message, out_of_memory, too_slow,
    trailers,
};
use crate::request_body::RequestBody;
use crate::server_state::{ServerState, StreamPermit};
use crate::stall::StallTimer;

/// The kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    /// One question, and its answer.
    Fetch,
    /// An answer for each question.
    Stream,
}

/// The response body of one call.
pub(crate) struct CsdsBody {
    csds: Csds,
    kind: CallKind,
    permit: StreamPermit,
    messages: RequestMessages<RequestBody>,
    /// The time of the client to send the rest of a question.
    arrival: StallTimer,
    activity: Arc<ConnectionActivity>,
    charge: MemoryCharge,
    stage: Stage,
}

enum Stage {
    /// The next question is awaited.
    Open,
    /// An answer is being made.
    Answering(Pin<Box<dyn Future<Output = Result<Bytes, CsdsRefused>> + Send>>),
    /// The call ends with this status.
    Ending(Status),
    Ended,
}

impl CsdsBody {
    /// The number of bytes that a call holds beside its question and its answer.
    pub(crate) const BYTES: usize = 8 * 1024;

    pub(crate) fn new(
        (csds, kind): (Csds, CallKind),
        requests: RequestBody,
        permit: StreamPermit,
        activity: Arc<ConnectionActivity>,
        charge: MemoryCharge,
    ) -> Self {
        Self {
            csds,
            kind,
            permit,
            messages: RequestMessages::new(requests, Csds::MAX_QUESTION),
            arrival: StallTimer::default(),
            activity,
            charge,
            stage: Stage::Open,
        }
    }

    /// Returns true if the call has to end, because other clients need the memory that it holds. If not,
    /// `waker` is woken when that changes.
    pub(crate) fn is_asked_back(&self, waker: &Waker) -> bool {
        self.charge.is_asked_back(waker)
    }

    fn shared(&self) -> &ServerState {
        self.permit.shared()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        loop {
            match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Ended => return Poll::Ready(None),
                Stage::Ending(status) => return Poll::Ready(Some(trailers(&status))),
                going_on => self.stage = going_on,
            }
            match self.work(cx) {
                Ok(Poll::Ready(Some(answer))) => return Poll::Ready(Some(Frame::data(answer))),
                Ok(Poll::Ready(None)) => {}
                Ok(Poll::Pending) => return Poll::Pending,
                Err(status) => self.stage = Stage::Ending(status),
            }
        }
    }

    /// Goes on with the call. A result that is ready is an answer to send, or nothing yet.
    fn work(&mut self, cx: &mut Context<'_>) -> Result<Poll<Option<Bytes>>, Status> {
        if self.is_asked_back(cx.waker()) {
            self.shared().metrics.asked_back();
            return Err(asked_back());
        }
        if let Stage::Answering(answer) = &mut self.stage {
            let Poll::Ready(answer) = answer.as_mut().poll(cx) else { return Ok(Poll::Pending) };
            let answer = frame_message(&answer.map_err(status)?);
            self.hold(answer.len())?;
            self.stage = match self.kind {
                CallKind::Fetch => Stage::Ending(Status::ok("")),
                CallKind::Stream => Stage::Open,
            };
            return Ok(Poll::Ready(Some(answer)));
        }
        // The body is polled again when HTTP/2 has taken what was sent before.
        let next = self.messages.poll_next(cx)?;
        self.hold(self.messages.held_bytes())?;
        match next {
            Poll::Ready(NextMessage::Message(question)) => {
                self.arrival.clear();
                let csds = self.csds.clone();
                let answer = async move { csds.answer_wire(&question).await };
                self.stage = Stage::Answering(Box::pin(answer));
            }
            Poll::Ready(NextMessage::End) if self.kind == CallKind::Stream => {
                return Err(Status::ok(""));
            }
            Poll::Ready(NextMessage::End) => {
                return Err(Status::invalid_argument("there is no question"));
            }
            Poll::Ready(NextMessage::Gone) => self.stage = Stage::Ended,
            Poll::Pending => {
                if self.activity.is_draining() {
                    return Err(draining());
                }
                self.check_arrival(cx)?;
                return Ok(Poll::Pending);
            }
        }
        Ok(Poll::Ready(None))
    }

    /// Has the budget know what is held beside the call itself.
    fn hold(&self, bytes: usize) -> Result<(), Status> {
        let held = self.charge.set(Self::BYTES + bytes);
        self.shared().metrics.counted(held).map_err(out_of_memory)
    }

    /// Ends the call if the rest of a question does not come.
    fn check_arrival(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        let limit = self.shared().config.times.stall_timeout;
        if !self.messages.is_within() || self.arrival.poll(cx, limit).is_pending() {
            return Ok(());
        }
        self.shared().metrics.stalled();
        Err(too_slow(limit))
    }
}

fn status(refused: CsdsRefused) -> Status {
    let text = refused.to_string();
    match refused {
        CsdsRefused::Malformed(_) => Status::invalid_argument(text),
        CsdsRefused::TooLarge { .. } => Status::resource_exhausted(text),
        CsdsRefused::TooSlow(_) => Status::deadline_exceeded(text),
        CsdsRefused::Failed => Status::internal(text),
    }
}

impl Body for CsdsBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().poll_next(cx).map(|frame| frame.map(Ok))
    }
}
