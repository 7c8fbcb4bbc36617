//! One connection, from its first bytes to its end: one task, also for all of its streams.
//!
//! A poll of the task polls what was woken ([`executor::ready_set`]): its streams ([`executor::stream_set`]), which hand their responses
//! to HTTP, and HTTP, which reads requests and makes frames of responses. When nothing is due any
//! more, all frames are written at once ([`executor::cork`]). When it ends is said in [`life`].

mod date;
mod executor;
mod http1;
mod http2;
mod keepalive;
mod life;
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
use crate::service::{Origin, Services};

use executor::{Cork, ReadyBits, StreamSet, Subtask, SubtaskWaker};
use http1::Http1;
use http2::Http2;
use life::{Change, Life};
use opening::Version;
use stream::Stream;

/// How often a poll looks for what became due meanwhile before others get the thread.
const ROUNDS: usize = 16;

/// A connection that is served when it is polled, to its end. In a box, which is all that a task
/// keeps of it.
pub(crate) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Hears of a connection whose handshake is done whether a client is there.
pub(crate) async fn open<I>(
    mut io: I,
    peer: Peer,
    services: &Arc<Services>,
    stop: &CancellationToken,
    begun: Instant,
) -> Option<Serving>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let last = begun + services.shared.config.times.handshake_timeout;
    let (version, first) = match timeout_at(last, opening::read(&mut io)).await {
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
    let answers = Answers::new(services, peer);
    let cork = Cork::new(io, first);
    match Http::begin(version, cork.clone(), &answers).await {
        Ok(http) => Some(Box::pin(Connection::new(http, cork, answers, stop))),
        Err(error) => {
            debug!(peer = %answers.origin.peer, "closed: {error}");
            None
        }
    }
}

/// A connection that is served.
struct Connection<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    answers: Answers,
    http: Http<I>,
    http_waker: SubtaskWaker,
    cork: Cork<I>,
    streams: StreamSet<Stream>,
    life: Life,
    lifetime_waker: SubtaskWaker,
}

/// HTTP, of the version the client speaks.
enum Http<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    One(Box<Http1<I>>),
    Two(Box<Http2<I>>),
}

/// What answers the requests of one connection.
#[derive(Clone)]
struct Answers {
    services: Arc<Services>,
    origin: Arc<Origin>,
}

impl Answers {
    fn new(services: &Arc<Services>, peer: Peer) -> Self {
        let origin = Arc::new(Origin { peer: Arc::new(peer), activity: Arc::default() });
        Self { services: Arc::clone(services), origin }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<I> {
    fn new(http: Http<I>, cork: Cork<I>, answers: Answers, stop: &CancellationToken) -> Self {
        let times = &answers.services.shared.config.times;
        let mut life = Life::new(times, &answers.origin.activity, stop.clone());
        if let Http::Two(_) = http {
            life = life.with_keepalive(times);
        }
        let streams = StreamSet::new();
        let http_waker = SubtaskWaker::new(streams.ready_set(), Subtask::Http);
        let lifetime_waker = SubtaskWaker::new(streams.ready_set(), Subtask::Lifetime);
        http_waker.wake();
        lifetime_waker.wake();
        Self { answers, http, http_waker, cork, streams, life, lifetime_waker }
    }

    /// Polls what is ready. Ready when the connection is at its end.
    fn round(&mut self, ready: ReadyBits) -> Poll<()> {
        self.streams.poll_ready(ready);
        if ready.has(Subtask::Http) {
            let polled = self.http.poll(
                &mut self.http_waker.poll_context(),
                &self.answers,
                &mut self.streams,
            );
            if let Poll::Ready(why) = polled {
                return self.closed(&why);
            }
            if self.http.take_pong() {
                self.life.answered();
                self.lifetime_waker.wake();
            }
        }
        if self.life.is_news() || ready.has(Subtask::Lifetime) {
            return self.age();
        }
        Poll::Pending
    }

    /// Does what the time has come for. Ready when the connection is at its end.
    fn age(&mut self) -> Poll<()> {
        let Answers { services, origin } = &self.answers;
        let times = &services.shared.config.times;
        loop {
            let heard = self.cork.heard();
            match ready!(self.life.poll(&mut self.lifetime_waker.poll_context(), times, heard)) {
                Change::Goaway => self.http.graceful_shutdown(),
                Change::Drain => {
                    origin.activity.drain();
                    self.streams.wake_all();
                }
                Change::Ask => self.http.ask(),
                Change::GiveUp => {
                    debug!(peer = %origin.peer, "given up: it does not answer");
                    self.http.abrupt_shutdown();
                }
                Change::Over => {
                    debug!(peer = %origin.peer, "cut: it did not end in time");
                    return Poll::Ready(());
                }
            }
            // HTTP has to say it, or to poll what it runs itself.
            self.http_waker.wake();
        }
    }

    fn closed(&self, why: &dyn Debug) -> Poll<()> {
        debug!(peer = %self.answers.origin.peer, "closed: {why:?}");
        Poll::Ready(())
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Future for Connection<I> {
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
type Ended = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Http<I> {
    async fn begin(version: Version, io: Cork<I>, answers: &Answers) -> Result<Self, h2::Error> {
        let config = &answers.services.shared.config;
        Ok(match version {
            Version::One => Self::One(Box::new(Http1::new(io, answers.clone(), &config.times))),
            Version::Two => Self::Two(Box::new(Http2::begin(io, &config.limits).await?)),
        })
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        answers: &Answers,
        streams: &mut StreamSet<Stream>,
    ) -> Poll<Ended> {
        match self {
            Self::One(http) => http.poll(cx).map_err(Into::into),
            Self::Two(http) => http.poll(cx, answers, streams).map_err(Into::into),
        }
    }

    fn graceful_shutdown(&mut self) {
        match self {
            Self::One(http) => http.graceful_shutdown(),
            Self::Two(http) => http.graceful_shutdown(),
        }
    }

    /// In HTTP/1.1 nobody can be asked, so nobody is given up.
    fn ask(&mut self) {
        if let Self::Two(http) = self {
            http.ask();
        }
    }

    fn take_pong(&mut self) -> bool {
        match self {
            Self::One(_) => false,
            Self::Two(http) => http.take_pong(),
        }
    }

    fn abrupt_shutdown(&mut self) {
        if let Self::Two(http) = self {
            http.abrupt_shutdown();
        }
    }
}
