//! The body of the response on a stream of load reports, which drives the stream when it is polled.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep, sleep_until};
use tonic::Status;

use super::session::LoadSession;
use crate::activity::ConnectionActivity;
use crate::budget::MemoryCharge;
use crate::grpc::framing::{NextMessage, RequestMessages};
use crate::grpc::status::{asked_back, draining, out_of_memory, too_slow, trailers};
use crate::request_body::RequestBody;
use crate::slice::Slice;
use crate::stall::StallTimer;

/// The response body of one stream.
pub(crate) struct LoadBody {
    session: LoadSession,
    messages: RequestMessages<RequestBody>,
    /// The time of the client to send the rest of a report.
    arrival: StallTimer,
    activity: Arc<ConnectionActivity>,
    charge: MemoryCharge,
    /// The bytes of the response that the client has not taken yet.
    unsent: usize,
    timer: Option<Pin<Box<Sleep>>>,
    stage: Stage,
}

enum Stage {
    Open,
    /// The stream ends with this status.
    Ending(Status),
    Ended,
}

/// The outcome of some work.
enum Worked {
    /// There is something to send.
    Chunk(Bytes),
    /// There may be more to do, after others.
    More,
    /// The stream is woken when there is more.
    Waits,
}

impl LoadBody {
    /// The number of bytes that a stream holds without anything that was reported.
    pub(in crate::grpc) const BYTES: usize = 4 * 1024;
    /// The largest report. Servers in wide use take no larger messages by default.
    const MOST_BYTES: usize = 4 * 1024 * 1024;

    pub(in crate::grpc) fn new(
        requests: RequestBody,
        session: LoadSession,
        activity: Arc<ConnectionActivity>,
        charge: MemoryCharge,
    ) -> Self {
        let limit = session.shared().config.limits.max_request_bytes.min(Self::MOST_BYTES);
        Self {
            session,
            messages: RequestMessages::new(requests, limit),
            arrival: StallTimer::default(),
            activity,
            charge,
            unsent: 0,
            timer: None,
            stage: Stage::Open,
        }
    }

    /// Returns true if the stream has to end, because other clients need the memory that it holds. If
    /// not, `waker` is woken when that changes.
    pub(crate) fn is_asked_back(&self, waker: &Waker) -> bool {
        self.charge.is_asked_back(waker)
    }

    fn work(&mut self, cx: &mut Context<'_>, slice: &mut Slice) -> Result<Worked, Status> {
        if self.is_asked_back(cx.waker()) {
            self.session.shared().metrics.asked_back();
            return Err(asked_back());
        }
        loop {
            let beside = self.held_beside();
            while self.session.read_part(&self.charge, beside)? {
                if !slice.spend(cx) {
                    return Ok(Worked::More);
                }
            }
            match self.messages.poll_next(cx)? {
                Poll::Ready(NextMessage::Message(message)) => {
                    self.arrival.clear();
                    self.session.receive(message)?;
                    self.check_memory()?;
                }
                Poll::Ready(NextMessage::End) => return Err(Status::ok("")),
                Poll::Ready(NextMessage::Gone) => {
                    self.stage = Stage::Ended;
                    return Ok(Worked::More);
                }
                Poll::Pending => break,
            }
            // A client whose next report is always there would not be looked at below.
            if let Some(response) = self.tell()? {
                return Ok(Worked::Chunk(response));
            }
            if !slice.spend(cx) {
                return Ok(Worked::More);
            }
        }
        self.check_memory()?;
        self.check_arrival(cx)?;
        self.respond(cx)
    }

    /// The next response, if the client is to be told something now.
    fn tell(&mut self) -> Result<Option<Bytes>, Status> {
        if self.activity.is_draining() {
            return Err(draining());
        }
        let Some(response) = self.session.respond(Instant::now())? else { return Ok(None) };
        self.unsent = response.len();
        self.check_memory()?;
        Ok(Some(response))
    }

    /// Looks whether the client is to be told something, now or when the time has come.
    fn respond(&mut self, cx: &mut Context<'_>) -> Result<Worked, Status> {
        if let Some(response) = self.tell()? {
            return Ok(Worked::Chunk(response));
        }
        let Some(at) = self.session.next_look() else { return Ok(Worked::Waits) };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        Ok(if timer.as_mut().poll(cx).is_ready() { Worked::More } else { Worked::Waits })
    }

    /// The bytes that are held beside those of the session.
    fn held_beside(&self) -> usize {
        Self::BYTES + self.messages.held_bytes() + self.unsent
    }

    /// Has the budget know what is held for the client.
    fn check_memory(&self) -> Result<(), Status> {
        let held = self.held_beside() + self.session.held_bytes();
        let held = self.charge.set(held);
        self.session.shared().metrics.counted(held).map_err(out_of_memory)
    }

    /// Ends the stream if the rest of a report does not come.
    fn check_arrival(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        let limit = self.session.shared().config.times.stall_timeout;
        if !self.messages.is_within() || self.arrival.poll(cx, limit).is_pending() {
            return Ok(());
        }
        self.session.shared().metrics.stalled();
        Err(too_slow(limit))
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        let mut slice = Slice::begin();
        // The body is polled again when HTTP/2 has taken what was sent before.
        self.unsent = 0;
        loop {
            match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Ended => return Poll::Ready(None),
                Stage::Ending(status) => return Poll::Ready(Some(trailers(&status))),
                going_on @ Stage::Open => self.stage = going_on,
            }
            match self.work(cx, &mut slice) {
                Ok(Worked::Chunk(bytes)) => return Poll::Ready(Some(Frame::data(bytes))),
                Ok(Worked::More) if matches!(self.stage, Stage::Open) => {
                    // Other streams get the thread.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(Worked::More) => {}
                Ok(Worked::Waits) => return Poll::Pending,
                Err(status) => {
                    self.session.ends(&status);
                    self.stage = Stage::Ending(status);
                }
            }
        }
    }
}

impl Body for LoadBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().poll_next(cx).map(|frame| frame.map(Ok))
    }
}
