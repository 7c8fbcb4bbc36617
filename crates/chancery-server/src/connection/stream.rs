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
use crate::body::ServerBody;
use crate::service::{ResponseFuture, ServiceResponse};

/// One request. Ready when its response has ended.
pub(super) struct Http2Stream {
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
}

impl Http2Stream {
    pub(super) fn new(
        answer: ServiceResponse,
        mut reply: SendResponse<Bytes>,
        head_only: bool,
    ) -> Self {
        let stage = match answer {
            ServiceResponse::Ready(response) => send(response, &mut reply, head_only),
            ServiceResponse::Pending(later) => ResponseStage::Waiting(later, reply),
        };
        Self { head_only, stage }
    }
}

impl Future for Http2Stream {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let head_only = self.head_only;
        loop {
            match &mut self.stage {
                ResponseStage::Waiting(later, reply) => {
                    let Poll::Ready(response) = later.as_mut().poll(cx) else {
                        return reply.poll_reset(cx).map(|why| debug!("nobody waits: {why:?}"));
                    };
                    self.stage = send(response, reply, head_only);
                }
                ResponseStage::Sending(sending) => {
                    if let Err(why) = ready!(sending.poll(cx)) {
                        debug!("an answer was cut off: {why}");
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
        Ok(to) => ResponseStage::Sending(ResponseSender { body, to, chunk: None }),
        Err(error) => {
            debug!("an answer cannot be sent: {error}");
            reply.send_reset(Reason::INTERNAL_ERROR);
            ResponseStage::Ended
        }
    }
}

impl ResponseSender {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        let mut would_pend = false;
        loop {
            if ready!(self.poll_chunk(cx))? {
                return Poll::Ready(Ok(()));
            }
            if would_pend {
                return self.poll_reset(cx);
            }
            let polled = Pin::new(&mut self.body).poll_frame(cx);
            would_pend = self.body.would_pend();
            match polled {
                Poll::Pending => return self.poll_reset(cx),
                Poll::Ready(None) => return Poll::Ready(self.to.send_data(Bytes::new(), true)),
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
                        return Poll::Ready(self.to.send_trailers(trailers));
                    }
                },
            }
        }
    }

    /// Sends the held chunk, if there is one, when there is room. Returns true if it was the last
    /// one.
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, h2::Error>> {
        let Some(chunk) = self.chunk.take() else { return Poll::Ready(Ok(false)) };
        if !chunk.is_empty() && self.poll_room(cx)?.is_pending() {
            self.chunk = Some(chunk);
            return Poll::Pending;
        }
        let last = self.body.is_end_stream();
        self.to.send_data(chunk, last)?;
        Poll::Ready(Ok(last))
    }

    /// Waits for a reset, the only thing that can happen to the stream apart from new data.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        self.to.poll_reset(cx).map(|why| Err(why?.into()))
    }

    /// Holds a chunk, and asks h2 for room for it. It does not ask earlier, because the other
    /// streams of the connection lack the room that is given out. It asks for one byte, because h2
    /// asks for the rest.
    fn hold(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            // This takes the waker out of h2: room that is there at once would wake the stream for
            // nothing.
            let _ = self.to.poll_reset(&mut Context::from_waker(Waker::noop()));
            self.to.reserve_capacity(1);
        }
        self.chunk = Some(chunk);
    }

    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        while self.to.capacity() == 0 {
            let Some(room) = ready!(self.to.poll_capacity(cx)) else {
                return Poll::Ready(Err(Reason::CANCEL.into()));
            };
            room?;
        }
        Poll::Ready(Ok(()))
    }
}
