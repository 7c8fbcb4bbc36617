//! One connection, from its first bytes to its end: one task, also for all of its streams.
//!
//! A poll of the task polls what was woken ([`executor::ready_set`]): its streams ([`executor::stream_set`]), which hand their responses
//! to HTTP, and HTTP, which reads requests and makes frames of responses. When nothing is due any
//! more, all frames are written at once ([`executor::cork`]). When it ends is said in [`lifetime`].

mod date;
mod executor;
mod http1;
mod http2;
mod keepalive;
mod lifetime;
mod opening;
mod stream;

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::policy::Peer;
use crate::service::{RequestContext, Services};

use executor::{Cork, ReadyBits, StreamSet, Subtask, SubtaskWaker};
use http1::Http1;
use http2::Http2;
use lifetime::{Lifetime, LifetimeAction};
use opening::HttpVersion;
use stream::Http2Stream;

/// How often a poll looks for what became due meanwhile before others get the thread.
const ROUNDS: usize = 16;

/// A connection that is served when it is polled, to its end. In a box, which is all that a task
/// keeps of it.
pub(crate) type ConnectionFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Hears of a connection whose handshake is done whether a client is there.
pub(crate) async fn open<I>(
    mut io: I,
    peer: Peer,
    services: &Arc<Services>,
    stop: &CancellationToken,
    begun: Instant,
) -> Option<ConnectionFuture>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let last = begun + services.shared.config.times.handshake_timeout;
    let (version, first) = match timeout_at(last, opening::read_version(&mut io)).await {
        Ok(Ok(opened)) => opened,
        Ok(Err(error)) => {
            debug!(%peer, "closed before it said anything: {error}");
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
    match Http::begin(version, cork.clone(), &responder).await {
        Ok(http) => Some(Box::pin(ConnectionTask::new(http, cork, responder, stop))),
        Err(error) => {
            debug!(peer = %responder.context.peer, "closed: {error}");
            None
        }
    }
}

/// A connection that is served.
struct ConnectionTask<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    responder: Responder,
    http: Http<I>,
    http_waker: SubtaskWaker,
    cork: Cork<I>,
    streams: StreamSet<Http2Stream>,
    lifetime: Lifetime,
    lifetime_waker: SubtaskWaker,
}

/// HTTP, of the version the client speaks.
enum Http<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    Http1(Box<Http1<I>>),
    Http2(Box<Http2<I>>),
}

/// What answers the requests of one connection.
#[derive(Clone)]
struct Responder {
    services: Arc<Services>,
    context: Arc<RequestContext>,
}

impl Responder {
    fn new(services: &Arc<Services>, peer: Peer) -> Self {
        let context = Arc::new(RequestContext { peer: Arc::new(peer), activity: Arc::default() });
        Self { services: Arc::clone(services), context }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> ConnectionTask<I> {
    fn new(http: Http<I>, cork: Cork<I>, responder: Responder, stop: &CancellationToken) -> Self {
        let times = &responder.services.shared.config.times;
        let mut lifetime = Lifetime::new(times, &responder.context.activity, stop.clone());
        if let Http::Http2(_) = http {
            lifetime = lifetime.with_keepalive(times);
        }
        let streams = StreamSet::new();
        let http_waker = SubtaskWaker::new(streams.ready_set(), Subtask::Http);
        let lifetime_waker = SubtaskWaker::new(streams.ready_set(), Subtask::Lifetime);
        http_waker.wake();
        lifetime_waker.wake();
        Self { responder, http, http_waker, cork, streams, lifetime, lifetime_waker }
    }

    /// Polls what is ready. Ready when the connection is at its end.
    fn round(&mut self, ready: ReadyBits) -> Poll<()> {
        self.streams.poll_ready(ready);
        if ready.has(Subtask::Http) {
            let polled = self.http.poll(
                &mut self.http_waker.poll_context(),
                &self.responder,
                &mut self.streams,
            );
            if let Poll::Ready(why) = polled {
                return self.closed(&why);
            }
            if self.http.take_pong() {
                self.lifetime.pong_received();
                self.lifetime_waker.wake();
            }
        }
        if self.lifetime.activity_changed() || ready.has(Subtask::Lifetime) {
            return self.age();
        }
        Poll::Pending
    }

    /// Does what the time has come for. Ready when the connection is at its end.
    fn age(&mut self) -> Poll<()> {
        let Responder { services, context } = &self.responder;
        let times = &services.shared.config.times;
        loop {
            let heard = self.cork.heard();
            match ready!(self.lifetime.poll(&mut self.lifetime_waker.poll_context(), times, heard))
            {
                LifetimeAction::Goaway => self.http.graceful_shutdown(),
                LifetimeAction::Drain => {
                    context.activity.drain();
                    self.streams.wake_all();
                }
                LifetimeAction::Ping => self.http.send_ping(),
                LifetimeAction::GiveUp => {
                    debug!(peer = %context.peer, "given up: it does not answer");
                    self.http.abrupt_shutdown();
                }
                LifetimeAction::Close => {
                    debug!(peer = %context.peer, "cut: it did not end in time");
                    return Poll::Ready(());
                }
            }
            // HTTP has to say it, or to poll what it runs itself.
            self.http_waker.wake();
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
        let this = &mut *self;
        this.streams.ready_set().start_poll(cx.waker());
        let mut rounds = 0;
        while let Some(ready) = this.streams.ready_set().take() {
            if this.round(ready).is_ready() {
                return Poll::Ready(());
            }
            rounds += 1;
            if rounds == ROUNDS || !has_budget_remaining() {
                cx.waker().wake_by_ref();
                break;
            }
        }
        match this.cork.poll_push(&mut this.http_waker.poll_context()) {
            Poll::Ready(Err(error)) => this.closed(&error),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }
}

/// Why a connection ended.
type HttpResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Http<I> {
    async fn begin(
        version: HttpVersion,
        io: Cork<I>,
        responder: &Responder,
    ) -> Result<Self, h2::Error> {
        let config = &responder.services.shared.config;
        Ok(match version {
            HttpVersion::Http1 => {
                Self::Http1(Box::new(Http1::new(io, responder.clone(), &config.times)))
            }
            HttpVersion::Http2 => Self::Http2(Box::new(Http2::begin(io, &config.limits).await?)),
        })
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        responder: &Responder,
        streams: &mut StreamSet<Http2Stream>,
    ) -> Poll<HttpResult> {
        match self {
            Self::Http1(http) => http.poll(cx).map_err(Into::into),
            Self::Http2(http) => http.poll(cx, responder, streams).map_err(Into::into),
        }
    }

    fn graceful_shutdown(&mut self) {
        match self {
            Self::Http1(http) => http.graceful_shutdown(),
            Self::Http2(http) => http.graceful_shutdown(),
        }
    }

    /// In HTTP/1.1 nobody can be asked, so nobody is given up.
    fn send_ping(&mut self) {
        if let Self::Http2(http) = self {
            http.send_ping();
        }
    }

    fn take_pong(&mut self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(http) => http.take_pong(),
        }
    }

    fn abrupt_shutdown(&mut self) {
        if let Self::Http2(http) = self {
            http.abrupt_shutdown();
        }
    }
}
