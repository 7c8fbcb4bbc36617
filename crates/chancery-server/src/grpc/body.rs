//! The body of a discovery stream's response, which drives the stream when it is polled.
//!
//! The connection polls it when all of its chunks but one are on their way. Each poll takes the
//! requests of the client, the snapshot of its audience, and the deadlines that have passed; then it
//! asks the machine for responses until there is a chunk to send or nothing left to do. It does so in
//! that order, because a response should take everything known into account.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use tokio::time::{Instant, Sleep};
use tonic::Status;

use super::away::{self, AwaySession};
use super::framing::{Frames, NextMessage, RequestMessages};
use super::send_permits::{PermitRequest, PermitTimeout, SendPermit, SendPermits};
use super::session::{LongWork, Responded, StreamSession};
use super::status::{
    asked_back, draining, out_of_memory, too_many_big_responses, too_slow, trailers,
};
use crate::activity::ConnectionActivity;
use crate::budget::{MemoryCharge, MemoryShortage};
use crate::config::Limits;
use crate::request_body::RequestBody;
use crate::server_state::ServerState;
use crate::slice::{LARGE_STREAM, Slice};
use crate::stall::StallTimer;
use crate::status::AwayFor;
use crate::turns::Line;

/// The number of requests that are taken before other streams get the thread.
const REQUESTS_AT_ONCE: usize = 64;
/// The number of bytes of responses that are gathered before they are sent.
const BYTES_AT_ONCE: usize = 64 * 1024;
/// The size in bytes of a request that is counted together with others.
const SMALL_REQUEST: usize = 4 * 1024;
/// The number of bytes of a chunk that is not worth counting.
const SMALL_CHUNK: usize = 8 * 1024;
/// The time for the first request of a client that has sent nothing when the connection drains.
const FIRST_WORD: Duration = Duration::from_secs(1);
/// The shortest time of the timer: a deadline in the past must not make the stream spin.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// The response body of one stream.
pub(crate) struct StreamBody {
    shared: Arc<ServerState>,
    permits: Arc<SendPermits>,
    messages: RequestMessages<RequestBody>,
    /// The time of the client to send the rest of a request.
    arrival: StallTimer,
    /// The session, unless it is away.
    session: Option<StreamSession>,
    away: Option<AwaySession>,
    out: Frames,
    charge: Arc<MemoryCharge>,
    permit: Option<PermitState>,
    timer: Option<Pin<Box<Sleep>>>,
    /// True if anything was sent.
    served: bool,
    /// True if the last work left nothing to do until the stream is woken.
    would_pend: bool,
    drain: DrainState,
    stage: StreamBodyStage,
}

/// The permit to send a large response.
enum PermitState {
    Requested(PermitRequest),
    Held(SendPermit),
    /// The stream sends without one, because it has waited too long.
    Waived,
}

/// The state of the drain of the connection, as far as the stream knows it.
enum DrainState {
    No(Arc<ConnectionActivity>),
    /// The stream ends after its first answer, or when the grace is over.
    Until(Pin<Box<Sleep>>),
}

enum StreamBodyStage {
    Open,
    /// The client sends no more requests. It gets what is due, and then the stream ends.
    HalfClosed,
    /// The stream ends with this status after the chunks that wait.
    Ending(Status),
    Ended,
}

impl StreamBody {
    /// The number of bytes that a stream holds without any names.
    pub(super) const BYTES: usize = 4 * 1024;

    pub(super) fn new(
        permits: Arc<SendPermits>,
        requests: RequestBody,
        session: StreamSession,
        activity: Arc<ConnectionActivity>,
        charge: MemoryCharge,
    ) -> Self {
        let shared = Arc::clone(session.shared());
        let limit = shared.config.limits.max_request_bytes;
        Self {
            shared,
            permits,
            messages: RequestMessages::new(requests, limit),
            arrival: StallTimer::default(),
            session: Some(session),
            away: None,
            out: Frames::default(),
            charge: Arc::new(charge),
            permit: None,
            timer: None,
            served: false,
            would_pend: false,
            drain: DrainState::No(activity),
            stage: StreamBodyStage::Open,
        }
    }

    /// Returns true if another poll now would only return `Pending`: the last chunk was all there is,
    /// and the waker of the last poll will be called when there is more.
    pub(crate) fn would_pend(&self) -> bool {
        self.would_pend && self.out.len() == 0 && self.permit.is_none()
    }

    /// Returns true if the stream has to end, because other clients need the memory that it holds. If
    /// not, `waker` is woken when that changes.
    pub(crate) fn is_asked_back(&self, waker: &Waker) -> bool {
        self.charge.is_asked_back(waker)
    }

    /// The next chunk that waits to be sent; `None` if there is none.
    fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.out.len() >= Limits::BIG_RESPONSE && self.permit.is_none() {
            self.permit = Some(PermitState::Requested(self.permits.request(self.charge.share())));
        }
        if self.permit.is_some()
            && let Some(session) = &self.session
        {
            session.takes(Instant::now());
        }
        if let Some(PermitState::Requested(waiting)) = &mut self.permit {
            match waiting.poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(permit)) => self.permit = Some(PermitState::Held(permit)),
                // A client that was served before is not refused (S-072, S-108).
                Poll::Ready(Err(PermitTimeout)) if self.served => {
                    self.permit = Some(PermitState::Waived);
                }
                Poll::Ready(Err(PermitTimeout)) => self.give_up(),
            }
        }
        let chunk = self.out.pop();
        self.served |= chunk.is_some();
        if chunk.is_none() {
            // A poll for more means that the large part is on its way: see `framing::frame`.
            self.permit = None;
        }
        Poll::Ready(chunk)
    }

    /// Does everything that is due, once and as of one moment. Returns true if there may be more.
    fn work(&mut self, cx: &mut Context<'_>, slice: &mut Slice) -> Result<bool, Status> {
        let now = Instant::now();
        let more = self.take_requests(cx, now, slice)?;
        let Some(session) = &mut self.session else { return Ok(true) };
        session.poll_audience(cx, now)?;
        while self.out.len() < BYTES_AT_ONCE {
            match session.respond(&mut self.out, now)? {
                Responded::Added => {}
                Responded::Nothing => break,
                Responded::Later(work) => {
                    // A stream that is answered keeps less than one that is owed everything.
                    self.leave(work, Line::Front, AwayFor::Other);
                    return Ok(true);
                }
            }
        }
        session.note(now);
        self.check_memory(0)?;
        let looks = self.session.as_ref().and_then(|session| session.answer_looks(now));
        if let Some(work) = looks {
            self.leave(work, Line::End, AwayFor::Other);
            return Ok(true);
        }
        if self.out.len() > 0 {
            // A chunk that counts is polled for, so that it counts no more when it was taken.
            let is_small = self.out.len() <= SMALL_CHUNK;
            self.would_pend = !more && is_small && self.waits_for_wake(cx, now);
            return Ok(true);
        }
        self.check_drain(cx)?;
        if let StreamBodyStage::HalfClosed = self.stage {
            return Err(Status::ok(""));
        }
        Ok(self.is_due(cx, now) || more)
    }

    /// Has the budget know what is held for the client, and as much more. A client that may not hold
    /// so much is not sent what waits for it.
    fn check_memory(&mut self, more: usize) -> Result<(), Status> {
        self.charge_with(more).map_err(|shortage| {
            self.out = Frames::default();
            out_of_memory(shortage)
        })
    }

    /// Takes in that the client has no room for the bytes that wait for it.
    pub(crate) fn waits_for_room(&self) {
        if let Some(PermitState::Held(permit)) = &self.permit {
            permit.waits_for_room();
        }
    }

    /// Has the budget know what is held for the client while it takes none of the bytes that wait for
    /// it. Those are of one snapshot; when that is superseded, nobody else may keep it.
    ///
    /// # Errors
    /// When the client may not hold so much. The stream should end.
    pub(crate) fn check_unread(&self, cx: &Context<'_>) -> Result<(), MemoryShortage> {
        let superseded = self.session.as_ref().map(|session| session.superseded_bytes(cx));
        superseded.filter(|bytes| *bytes > 0).map_or(Ok(()), |bytes| self.charge_with(bytes))
    }

    fn charge_with(&self, more: usize) -> Result<(), MemoryShortage> {
        let Some(session) = &self.session else { return Ok(()) };
        let requests = self.messages.held_bytes() + more;
        let held = Self::BYTES + requests + session.held_bytes() + self.out.held_bytes();
        self.shared.metrics.counted(self.charge.set(held))
    }

    /// Returns true if the stream stays open, and will be woken for whatever comes next.
    fn waits_for_wake(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let staying = matches!(&self.drain, DrainState::No(activity) if !activity.is_draining());
        matches!(self.stage, StreamBodyStage::Open) && staying && !self.is_due(cx, now)
    }

    /// Takes the requests that have arrived. Returns true if there may be more.
    fn take_requests(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        slice: &mut Slice,
    ) -> Result<bool, Status> {
        for _ in 0..REQUESTS_AT_ONCE {
            let StreamBodyStage::Open = self.stage else { return Ok(false) };
            match self.messages.poll_next(cx)? {
                Poll::Ready(NextMessage::Message(message)) => {
                    self.arrival.clear();
                    let Some(session) = &mut self.session else { return Ok(true) };
                    if let Some(work) = session.receive(&message, now)? {
                        self.check_memory(message.len())?;
                        self.leave(work, Line::End, AwayFor::Request);
                        return Ok(true);
                    }
                    // The memory of small ones is counted when all of them were taken.
                    if message.len() > SMALL_REQUEST {
                        self.check_memory(0)?;
                    }
                    if !slice.spend(cx) {
                        return Ok(true);
                    }
                }
                Poll::Ready(NextMessage::End) => self.stage = StreamBodyStage::HalfClosed,
                Poll::Ready(NextMessage::Gone) => self.stage = StreamBodyStage::Ended,
                Poll::Pending => {
                    self.check_arrival(cx)?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Ends the stream if the rest of a request does not come.
    fn check_arrival(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        let limit = self.shared.config.times.stall_timeout;
        if !self.messages.is_within() || self.arrival.poll(cx, limit).is_pending() {
            return Ok(());
        }
        self.shared.metrics.stalled();
        Err(too_slow(limit))
    }

    /// Returns true if a deadline of the machine has passed.
    fn is_due(&mut self, cx: &mut Context<'_>, now: Instant) -> bool {
        let Some(deadline) = self.session.as_ref().and_then(StreamSession::deadline) else {
            self.timer = None;
            return false;
        };
        let at = deadline.max(now + SHORTEST_WAIT);
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
        if timer.deadline() != deadline && !timer.is_elapsed() {
            timer.as_mut().reset(at);
        }
        if timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.timer = None;
        true
    }

    /// Ends the stream when the connection drains. It waits for the first answer, within a bound,
    /// because clients take a stream that ends without an answer for an outage (S-112).
    fn check_drain(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        let Some(session) = &self.session else { return Ok(()) };
        if let DrainState::No(activity) = &self.drain {
            if !activity.is_draining() {
                return Ok(());
            }
            let grace = session.shared().config.times.grace;
            let grace = if session.awaits_first_request() { grace.min(FIRST_WORD) } else { grace };
            self.drain = DrainState::Until(Box::pin(tokio::time::sleep(grace)));
        }
        let DrainState::Until(over) = &mut self.drain else { return Ok(()) };
        if session.is_answered() || over.as_mut().poll(cx).is_ready() {
            return Err(draining());
        }
        Ok(())
    }

    /// Sends the session away to do long work.
    fn leave(&mut self, work: LongWork, line: Line, why: AwayFor) {
        let Some(session) = self.session.take() else { return };
        // Its work may have to wait for others'.
        session.note(Instant::now());
        session.leaves(why);
        // Nothing more is read until it is back.
        self.arrival.clear();
        let beside = Self::BYTES + self.messages.held_bytes() + self.out.held_bytes();
        let threads = &self.shared.work_threads;
        self.away = Some(AwaySession::new(session, (work, line), threads, (&self.charge, beside)));
    }

    /// Takes the session back, if it is away and its work is done.
    fn poll_away(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(away) = &mut self.away else { return Poll::Ready(()) };
        let returned = ready!(away.poll(cx));
        self.away = None;
        match returned {
            Some(Ok((session, out))) => {
                session.leaves(AwayFor::Nothing);
                self.session = Some(session);
                self.out.append(out);
            }
            Some(Err(status)) => self.end_with(status),
            // The server ends.
            None => self.stage = StreamBodyStage::Ended,
        }
        Poll::Ready(())
    }

    /// Refuses the client: no answer is better than one that comes too late (S-111).
    fn give_up(&mut self) {
        self.drop_all(too_many_big_responses());
    }

    /// Ends the stream if other clients need the memory that it holds.
    fn check_asked_back(&mut self, cx: &Context<'_>) {
        let serves = matches!(self.stage, StreamBodyStage::Open | StreamBodyStage::HalfClosed);
        if serves && self.is_asked_back(cx.waker()) {
            self.shared.metrics.asked_back();
            self.drop_all(asked_back());
        }
    }

    /// Ends the stream without what waits for its client.
    fn drop_all(&mut self, status: Status) {
        self.permit = None;
        self.end_with(status);
        self.free();
        self.out = Frames::default();
    }

    /// Frees what the stream keeps, on another thread if that is much. It may be the last one to keep a
    /// state that is superseded, for which it is charged.
    fn free(&mut self) {
        self.call_back();
        let is_large = self.session.as_ref().is_some_and(StreamSession::is_large);
        if is_large || self.charge.bytes() >= LARGE_STREAM {
            let kept = (self.session.take(), std::mem::take(&mut self.out));
            away::free(kept, &self.shared.work_threads, &self.charge);
        }
    }

    /// Takes a session back that waits for its turn to do long work.
    fn call_back(&mut self) {
        if let Some(away) = self.away.take() {
            self.session = away.cancel();
        }
    }

    fn end_with(&mut self, status: Status) {
        self.call_back();
        if let Some(session) = &mut self.session {
            session.ends(&status);
        }
        self.stage = StreamBodyStage::Ending(status);
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        let mut rounds = 0;
        let mut slice = Slice::begin();
        self.would_pend = false;
        self.check_asked_back(cx);
        loop {
            match self.poll_out(cx) {
                Poll::Ready(Some(chunk)) => return Poll::Ready(Some(Frame::data(chunk))),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => {}
            }
            if self.away.is_some() {
                ready!(self.poll_away(cx));
                continue;
            }
            match std::mem::replace(&mut self.stage, StreamBodyStage::Ended) {
                StreamBodyStage::Ended => return Poll::Ready(None),
                StreamBodyStage::Ending(status) => {
                    return Poll::Ready(Some(trailers(&status)));
                }
                going_on => self.stage = going_on,
            }
            rounds += 1;
            match self.work(cx, &mut slice) {
                Err(status) => self.end_with(status),
                Ok(false) if !matches!(self.stage, StreamBodyStage::Ended) => return Poll::Pending,
                Ok(_) if rounds == 8 || !slice.spend(cx) => {
                    // Other streams get the thread.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(_) => {}
            }
        }
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        self.free();
    }
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().poll_next(cx).map(|frame| frame.map(Ok))
    }
}
