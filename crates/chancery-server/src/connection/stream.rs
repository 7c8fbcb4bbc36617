//! One request over HTTP/2, from its head to the end of its response.
//!
//! The body of the response is polled for its next chunk when HTTP/2 has room for a part of the chunk
//! before, so that a stream holds at most one chunk for which the peer has no room.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};
use http::{HeaderValue, Response, header};
use http_body::Body;
use tracing::debug;

use super::date;
use super::responder::Responder;
use super::send_gate::{GateWait, PIECE};
use crate::body::ServerBody;
use crate::budget::MemoryShortage;
use crate::service::{ResponseFuture, ServiceResponse};
use crate::stall::{StallTimer, patience};

/// One request. Ready when its response has ended.
pub(super) struct Http2Stream {
    responder: Responder,
    /// True if only the head of the response is asked for.
    head_only: bool,
    stage: ResponseStage,
}

enum ResponseStage {
    /// The response is being made.
    Waiting(ResponseFuture, SendResponse<Bytes>),
    Sending(ResponseSender),
    Ended,
}

/// A response on its way.
struct ResponseSender {
    body: ServerBody,
    to: SendStream<Bytes>,
    /// The chunk for which there was no room yet.
    chunk: Option<Bytes>,
    stall: StallTimer,
    gate_wait: GateWait,
}

/// The reason why the server ends a response before its end.
enum CutOff {
    /// The connection or the stream is gone, or the client does not want it any more.
    Gone(h2::Error),
    /// The client takes nothing.
    Stalled,
    /// Other clients need the memory.
    AskedBack,
    /// The client may not hold so much.
    OutOfMemory(MemoryShortage),
}

impl Http2Stream {
    pub(super) fn new(
        answer: ServiceResponse,
        mut reply: SendResponse<Bytes>,
        responder: &Responder,
        head_only: bool,
    ) -> Self {
        let stage = match answer {
            ServiceResponse::Ready(response) => send(response, &mut reply, head_only),
            ServiceResponse::Pending(later) => ResponseStage::Waiting(later, reply),
        };
        Self { responder: responder.clone(), head_only, stage }
    }
}

impl Future for Http2Stream {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { responder, head_only, stage } = &mut *self;
        loop {
            match stage {
                ResponseStage::Waiting(later, reply) => {
                    let Poll::Ready(response) = later.as_mut().poll(cx) else {
                        return reply.poll_reset(cx).map(|why| debug!("nobody waits: {why:?}"));
                    };
                    *stage = send(response, reply, *head_only);
                }
                ResponseStage::Sending(sending) => {
                    if let Err(why) = ready!(sending.poll(cx, responder)) {
                        sending.cut_off(why, responder);
                    }
                    return Poll::Ready(());
                }
                ResponseStage::Ended => return Poll::Ready(()),
            }
        }
    }
}

/// Sends the head of a response.
fn send(
    response: Response<ServerBody>,
    reply: &mut SendResponse<Bytes>,
    head_only: bool,
) -> ResponseStage {
    let (mut head, body) = response.into_parts();
    head.headers.entry(header::DATE).or_insert_with(date::now);
    let empty = body.is_end_stream();
    if let Some(length) = body.size_hint().exact().filter(|_| !empty) {
        head.headers.entry(header::CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    match reply.send_response(Response::from_parts(head, ()), empty || head_only) {
        Ok(_) if empty || head_only => ResponseStage::Ended,
        Ok(to) => ResponseStage::Sending(ResponseSender::new(body, to)),
        Err(error) => {
            debug!("an answer cannot be sent: {error}");
            reply.send_reset(Reason::INTERNAL_ERROR);
            ResponseStage::Ended
        }
    }
}

impl ResponseSender {
    fn new(body: ServerBody, to: SendStream<Bytes>) -> Self {
        Self { body, to, chunk: None, stall: StallTimer::default(), gate_wait: GateWait::default() }
    }

    fn poll(&mut self, cx: &mut Context<'_>, responder: &Responder) -> Poll<Result<(), CutOff>> {
        if self.body.is_cut_off() {
            return Poll::Ready(Err(CutOff::AskedBack));
        }
        let mut would_pend = false;
        loop {
            if ready!(self.poll_chunk(cx, responder))? {
                return Poll::Ready(Ok(()));
            }
            if would_pend {
                return self.poll_reset(cx).map(Err);
            }
            let polled = Pin::new(&mut self.body).poll_frame(cx);
            would_pend = self.body.would_pend();
            match polled {
                Poll::Pending => return self.poll_reset(cx).map(Err),
                Poll::Ready(None) => {
                    return Poll::Ready(
                        self.to.send_data(Bytes::new(), true).map_err(CutOff::from),
                    );
                }
                Poll::Ready(Some(Err(status))) => {
                    debug!("an answer broke off: {status}");
                    self.to.send_reset(Reason::INTERNAL_ERROR);
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(chunk) => self.hold(chunk),
                    Err(frame) => {
                        let Ok(trailers) = frame.into_trailers() else { continue };
                        self.to.reserve_capacity(0);
                        return Poll::Ready(self.to.send_trailers(trailers).map_err(CutOff::from));
                    }
                },
            }
        }
    }

    /// Sends the held chunk, if there is one, when there is room. Returns true if it was the last
    /// one.
    fn poll_chunk(
        &mut self,
        cx: &mut Context<'_>,
        responder: &Responder,
    ) -> Poll<Result<bool, CutOff>> {
        let gate = &responder.gate;
        while let Some(mut chunk) = self.chunk.take() {
            if !chunk.is_empty() && self.poll_room(cx)?.is_pending() {
                self.chunk = Some(chunk);
                self.gate_wait.leave();
                self.body.waits_for_room();
                return self.poll_patience(cx, responder).map(Err);
            }
            let size = chunk.len().min(PIECE).min(self.to.capacity());
            if !gate.admits(size, &mut self.gate_wait, cx.waker()) {
                self.chunk = Some(chunk);
                self.stall.clear();
                return self.poll_gate(cx).map(Err);
            }
            self.stall.took(size);
            let piece = gate.counted(chunk.split_to(size));
            if !chunk.is_empty() {
                self.to.send_data(piece, false)?;
                self.hold(chunk);
                continue;
            }
            let last = self.body.is_end_stream();
            self.to.send_data(piece, last)?;
            return Poll::Ready(Ok(last));
        }
        self.stall.clear();
        Poll::Ready(Ok(false))
    }

    /// Waits for its turn while the socket takes less than there is for it. The client has room, so
    /// this stream is not at fault; a connection whose socket takes nothing ends.
    fn poll_gate(&mut self, cx: &mut Context<'_>) -> Poll<CutOff> {
        if let Err(why) = self.check_memory(cx) {
            return Poll::Ready(why);
        }
        self.poll_reset(cx)
    }

    /// The reason to end the response, if the server has no memory for the wait.
    fn check_memory(&self, cx: &Context<'_>) -> Result<(), CutOff> {
        if self.body.is_asked_back(cx.waker()) {
            return Err(CutOff::AskedBack);
        }
        self.body.check_unread(cx).map_err(CutOff::OutOfMemory)
    }

    /// Waits while the client takes nothing. Ready with the reason if there is one to wait no longer.
    fn poll_patience(&mut self, cx: &mut Context<'_>, responder: &Responder) -> Poll<CutOff> {
        if let Err(why) = self.check_memory(cx) {
            return Poll::Ready(why);
        }
        let draining = responder.context.activity.is_draining();
        let timeout = responder.services.shared.config.times.stall_timeout;
        self.stall.poll(cx, patience(timeout, draining)).map(|()| CutOff::Stalled)
    }

    /// Ends the response before its end. The reason is that of HTTP/2 for a peer that costs too much,
    /// which clients of gRPC take for `RESOURCE_EXHAUSTED`: a status would wait behind the bytes that
    /// the client does not take.
    fn cut_off(&mut self, why: CutOff, responder: &Responder) {
        let metrics = &responder.services.shared.metrics;
        match why {
            CutOff::Gone(why) => return debug!("an answer was cut off: {why}"),
            CutOff::Stalled => {
                debug!(peer = %responder.context.peer, "a stream was cut: nothing of it is read");
                metrics.stalled();
            }
            CutOff::AskedBack => {
                debug!(peer = %responder.context.peer, "a stream was cut: others need its memory");
                metrics.asked_back();
            }
            CutOff::OutOfMemory(why) => {
                debug!(peer = %responder.context.peer, "a stream was cut that is not read: {why}");
            }
        }
        self.to.send_reset(Reason::ENHANCE_YOUR_CALM);
    }

    /// Waits for a reset, the only thing that can happen to the stream apart from new data.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<CutOff> {
        self.to.poll_reset(cx).map(|why| CutOff::Gone(why.map_or_else(|error| error, Into::into)))
    }

    /// Holds a chunk, and asks h2 for room for it. It does not ask earlier, because the other
    /// streams of the connection lack the room that is given out. It asks for no more than it hands
    /// over at once: what is handed over without room would stay with h2.
    fn hold(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            // This takes the waker out of h2: room that is there at once would wake the stream for
            // nothing.
            let _ = self.to.poll_reset(&mut Context::from_waker(Waker::noop()));
            self.to.reserve_capacity(chunk.len().min(PIECE));
        }
        self.chunk = Some(chunk);
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CutOff>> {
        while self.to.capacity() == 0 {
            let Some(room) = ready!(self.to.poll_capacity(cx)) else {
                return Poll::Ready(Err(CutOff::Gone(Reason::CANCEL.into())));
            };
            room?;
        }
        Poll::Ready(Ok(()))
    }
}

impl From<h2::Error> for CutOff {
    fn from(error: h2::Error) -> Self {
        Self::Gone(error)
    }
}
