//! One connection, from its first bytes to its end: one task, which also runs all its streams.
//!
//! The task is an [`executor`] of its own, whose page says when each part is polled and when bytes are
//! written. The subtasks are the streams ([`stream`]), HTTP ([`http1`], [`http2`]) and the timers
//! ([`lifetime`]), which decide when the connection ends.

mod date;
mod executor;
mod first_bytes;
mod http;
mod http1;
mod http2;
mod http_charge;
mod keepalive;
mod lifetime;
mod responder;
mod send_gate;
mod stream;
mod turn;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::budget::MemoryCharge;
use crate::handshake_failure::HandshakeFailure;
use crate::policy::Peer;
use crate::service::Services;
use crate::turns::Line;

use executor::{Cork, Executor, Round};
use first_bytes::{HttpVersion, NoRequest};
use http::Http;
use http_charge::HttpCharge;
use lifetime::{Lifetime, LifetimeAction};
use responder::Responder;
use stream::Http2Stream;
use turn::Turn;

pub(crate) use http1::HTTP1_BUFFER;

/// The service of a connection until its end. It is boxed, so that a task keeps no more than a
/// pointer.
pub(crate) type ConnectionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for the first bytes of a connection whose handshake is done. Returns `None` if no client
/// is there.
pub(crate) async fn open<I>(
    mut io: I,
    peer: Arc<Peer>,
    services: &Arc<Services>,
    stop: &CancellationToken,
    begun: Instant,
    charge: MemoryCharge,
) -> Option<ConnectionFuture>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let last = begun + services.shared.config.times.handshake_timeout;
    let (version, first) = match timeout_at(last, first_bytes::read_version(&mut io)).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(NoRequest::Left(error))) => {
            debug!(%peer, "closed before it said anything: {error}");
            return None;
        }
        Ok(Err(NoRequest::Tls)) => {
            HandshakeFailure::NoTlsHere.report(&services.shared, &peer);
            return None;
        }
        Err(_) => {
            debug!(%peer, "cut: it said nothing");
            return None;
        }
    };
    debug!(%peer, tls = peer.tls, ?version, "connected");
    let responder = Responder::new(services, peer);
    let cork = Cork::new(io, first);
    if version == HttpVersion::Http2 {
        cork.count_data(&responder.context.activity);
    }
    match Http::begin(version, cork.clone(), &responder).await {
        Ok(http) => Some(Box::pin(ConnectionTask::new(http, cork, responder, stop, charge))),
        Err(error) => {
            debug!(peer = %responder.context.peer, "closed: {error}");
            None
        }
    }
}

/// The task of one connection.
struct ConnectionTask<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    executor: Executor<I, Http2Stream>,
    driver: Driver<I>,
    turn: Turn,
}

/// The subtasks of a connection beside its streams: HTTP and the timers.
struct Driver<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    responder: Responder,
    http: Http<I>,
    lifetime: Lifetime,
    /// The memory that any connection needs, which is asked back while it has no request.
    own: MemoryCharge,
    charge: HttpCharge,
    /// True if all streams were ended, because what HTTP keeps is too much or others need the memory.
    is_over: bool,
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> ConnectionTask<I> {
    fn new(
        http: Http<I>,
        cork: Cork<I>,
        responder: Responder,
        stop: &CancellationToken,
        own: MemoryCharge,
    ) -> Self {
        let times = &responder.services.shared.config.times;
        let mut lifetime = Lifetime::new(times, &responder.context.activity, stop.clone());
        if let Http::Http2(_) = http {
            lifetime = lifetime.with_keepalive(times);
        }
        let (charge, is_over) = (HttpCharge::default(), false);
        let driver = Driver { responder, http, lifetime, own, charge, is_over };
        Self { executor: Executor::new(cork), driver, turn: Turn::default() }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Driver<I> {
    /// Polls HTTP and the timers, as far as they are ready. Ready when the connection is over.
    fn poll(&mut self, executor: &mut Executor<I, Http2Stream>, round: Round) -> Poll<()> {
        if round.has_http() {
            let (mut cx, streams) = executor.http();
            if let Poll::Ready(why) = self.http.poll(&mut cx, &self.responder, streams) {
                return self.closed(&why);
            }
            self.responder.gate.wake();
            if self.http.take_pong() {
                self.lifetime.pong_received();
                executor.wake_lifetime();
            }
        }
        if self.lifetime.activity_changed() || round.has_lifetime() {
            return self.poll_lifetime(executor);
        }
        Poll::Pending
    }

    /// Does what the timers ask for. Ready when the connection is over.
    fn poll_lifetime(&mut self, executor: &Executor<I, Http2Stream>) -> Poll<()> {
        loop {
            // A wake from now on has the timers polled again.
            let mut cx = executor.lifetime();
            if self.is_asked_back(cx.waker()) && self.give_back(executor).is_ready() {
                return Poll::Ready(());
            }
            let Responder { services, context, .. } = &self.responder;
            let times = &services.shared.config.times;
            let polled = self.lifetime.poll(&mut cx, times, executor.socket_times());
            match ready!(polled) {
                LifetimeAction::Goaway => self.http.graceful_shutdown(),
                LifetimeAction::Drain => {
                    context.activity.drain();
                    executor.wake_streams();
                }
                LifetimeAction::Ping => self.http.send_ping(),
                LifetimeAction::GiveUp => {
                    debug!(peer = %context.peer, "given up: it does not answer");
                    self.http.abrupt_shutdown(Reason::NO_ERROR);
                }
                LifetimeAction::Close => {
                    debug!(peer = %context.peer, "cut: it did not end in time");
                    return Poll::Ready(());
                }
                LifetimeAction::Stalled => {
                    debug!(peer = %context.peer, "cut: its socket takes nothing");
                    services.shared.metrics.stalled();
                    return Poll::Ready(());
                }
            }
            // HTTP has frames to write, or, over HTTP/1.1, runs the request itself.
            executor.wake_http();
        }
    }

    /// Returns true, once, if the connection has to end because others need its memory. One with
    /// requests is not asked: its streams are, which hold more.
    fn is_asked_back(&self, waker: &Waker) -> bool {
        if self.is_over {
            return false;
        }
        if self.responder.context.activity.is_idle() {
            return self.own.is_asked_back(waker);
        }
        self.own.looks_no_more();
        // It may have been asked a moment before its request came, and the memory counts as on its way.
        self.own.was_asked_back()
    }

    /// Returns true if the connection ends, or has to when it is polled.
    fn ends(&self) -> bool {
        self.is_over || self.own.was_asked_back() || self.lifetime.ends()
    }

    /// Ends the connection so that others have its memory. Ready if that needs no more frames.
    fn give_back(&mut self, executor: &Executor<I, Http2Stream>) -> Poll<()> {
        let Responder { services, context, .. } = &self.responder;
        debug!(peer = %context.peer, "ended: it has no request, and others need its memory");
        services.shared.metrics.asked_back();
        self.is_over = true;
        if let Http::Http1(_) = self.http {
            return Poll::Ready(());
        }
        self.lifetime.give_up();
        self.http.abrupt_shutdown(Reason::NO_ERROR);
        executor.wake_http();
        Poll::Pending
    }

    /// Has the budget know what HTTP keeps. The connection ends if that is too much.
    fn check_kept(&mut self, executor: &Executor<I, Http2Stream>) {
        if !self.is_over
            && let Err(shortage) = self.charge.update(&self.responder, executor)
        {
            self.is_over = true;
            debug!(peer = %self.responder.context.peer, "all streams are ended: {shortage}");
            self.http.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            executor.wake_http();
        }
    }

    fn closed(&self, why: &dyn Debug) -> Poll<()> {
        debug!(peer = %self.responder.context.peer, "closed: {why:?}");
        Poll::Ready(())
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Future for ConnectionTask<I> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { executor, driver, turn } = &mut *self;
        let taken = {
            let Responder { services, context, .. } = &driver.responder;
            // One that ends gives memory back, which others of its peer take.
            let line = || if driver.ends() { Line::Front } else { Line::End };
            ready!(turn.poll(cx, &context.share, line, &services.shared.worker_places))
        };
        let polled = executor.poll(cx, |executor, round| driver.poll(executor, round));
        taken.end(&driver.responder.context.share);
        match polled {
            Poll::Ready(Err(error)) => driver.closed(&error),
            Poll::Ready(Ok(())) => Poll::Ready(()),
            Poll::Pending => {
                driver.responder.gate.set_socket_is_full(executor.socket_is_full());
                driver.check_kept(executor);
                Poll::Pending
            }
        }
    }
}
