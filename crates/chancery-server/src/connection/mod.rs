//! One connection, from its first bytes to its end: one task, also for all of its streams.
//!
//! A poll of the task polls what was woken: [`streams`], which hand their responses to HTTP, and
//! HTTP, which reads requests and makes frames of responses. When nothing is due any more, all
//! frames are written at once ([`cork`]). When it ends is said in [`life`].

mod cork;
mod life;
mod opening;
mod streams;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::body::ServerBody;
use crate::config::Config;
use crate::policy::Peer;
use crate::service::{Origin, Services};

use cork::Cork;
use life::{Change, Life};
use opening::Version;
use streams::{Due, Executor, Part, Rope, Streams};

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
    match timeout_at(last, opening::read(&mut io)).await {
        Ok(Ok((version, first))) => {
            let (services, stop) = (Arc::clone(services), stop.clone());
            return Some(Box::pin(Connection::new(io, first, version, peer, services, stop)));
        }
        Ok(Err(error)) => debug!(%peer, "closed before it said anything: {error}"),
        Err(_) => debug!(%peer, "cut: it said nothing"),
    }
    None
}

/// A connection that is served.
struct Connection<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    answers: Answers,
    http: Http<I>,
    rope: Rope,
    cork: Cork<I>,
    streams: Streams,
    life: Life,
    life_rope: Rope,
}

/// HTTP, of the version the client speaks.
enum Http<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    One(Pin<Box<http1::Connection<Io<I>, Answers>>>),
    Two(Pin<Box<http2::Connection<Io<I>, Answers, Executor>>>),
}

/// A connection as HTTP sees it.
type Io<I> = TokioIo<Cork<I>>;

/// What answers the requests of one connection.
#[derive(Clone)]
struct Answers {
    services: Arc<Services>,
    origin: Arc<Origin>,
}

impl Service<Request<Incoming>> for Answers {
    type Response = Response<ServerBody>;
    type Error = Infallible;
    /// In a box, because it is gone long before the stream is.
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let Self { services, origin } = self.clone();
        Box::pin(async move { Ok(services.answer(&origin, request).await) })
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection<I> {
    fn new(
        io: I,
        first: Vec<u8>,
        version: Version,
        peer: Peer,
        services: Arc<Services>,
        stop: CancellationToken,
    ) -> Self {
        let (cork, streams) = (Cork::new(io, first), Streams::new());
        let origin = Arc::new(Origin { peer: Arc::new(peer), activity: Arc::default() });
        let config = &services.shared.config;
        let life = Life::new(&config.times, &origin.activity, stop);
        debug!(peer = %origin.peer, tls = origin.peer.tls, ?version, "connected");
        let answers = Answers { origin, services: Arc::clone(&services) };
        let io = TokioIo::new(cork.clone());
        let http = match version {
            Version::One => {
                Http::One(Box::pin(http1(config).serve_connection(io, answers.clone())))
            }
            Version::Two => {
                let builder = http2(config, streams.executor());
                Http::Two(Box::pin(builder.serve_connection(io, answers.clone())))
            }
        };
        let rope = Rope::new(streams.bell(), Part::Http);
        let life_rope = Rope::new(streams.bell(), Part::Life);
        rope.pull();
        life_rope.pull();
        Self { answers, http, rope, cork, streams, life, life_rope }
    }

    /// Polls what is due. Ready when the connection is at its end.
    fn round(&mut self, due: &mut Due) -> Poll<()> {
        self.streams.run(due);
        if std::mem::take(&mut due.http)
            && let Poll::Ready(ended) = self.http.poll(&mut self.rope.context())
        {
            return self.closed(&ended);
        }
        if self.life.is_news() | std::mem::take(&mut due.life) {
            return self.age();
        }
        Poll::Pending
    }

    /// Does what the time has come for. Ready when the connection is at its end.
    fn age(&mut self) -> Poll<()> {
        let Answers { services, origin } = &self.answers;
        let times = &services.shared.config.times;
        loop {
            match ready!(self.life.poll(&mut self.life_rope.context(), times)) {
                Change::Goaway => self.http.graceful_shutdown(),
                Change::Drain => {
                    origin.activity.drain();
                    self.streams.wake_all();
                }
                Change::Over => {
                    debug!(peer = %origin.peer, "cut: it did not end in time");
                    return Poll::Ready(());
                }
            }
            // HTTP has to say it, or to poll what it runs itself.
            self.rope.pull();
        }
    }

    fn closed(&self, why: &dyn std::fmt::Debug) -> Poll<()> {
        debug!(peer = %self.answers.origin.peer, "closed: {why:?}");
        Poll::Ready(())
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Future for Connection<I> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let bell = Arc::clone(this.streams.bell());
        bell.attend(cx.waker());
        let mut due = Due::default();
        let mut rounds = 0;
        while bell.take(&mut due) {
            if this.round(&mut due).is_ready() {
                return Poll::Ready(());
            }
            rounds += 1;
            if rounds == ROUNDS || !has_budget_remaining() {
                cx.waker().wake_by_ref();
                break;
            }
        }
        match this.cork.poll_push(&mut this.rope.context()) {
            Poll::Ready(Err(error)) => this.closed(&error),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Http<I> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        match self {
            Self::One(connection) => connection.as_mut().poll(cx),
            Self::Two(connection) => connection.as_mut().poll(cx),
        }
    }

    fn graceful_shutdown(&mut self) {
        match self {
            Self::One(connection) => connection.as_mut().graceful_shutdown(),
            Self::Two(connection) => connection.as_mut().graceful_shutdown(),
        }
    }
}

fn http1(config: &Config) -> http1::Builder {
    let mut builder = http1::Builder::new();
    // Counted from the end of the request before, so it is about idle clients too.
    builder.timer(TokioTimer::new()).header_read_timeout(config.times.idle_timeout);
    builder
}

fn http2(config: &Config, executor: Executor) -> http2::Builder<Executor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(config.limits.max_streams_per_connection)
        .keep_alive_interval(config.times.http2_keepalive)
        .keep_alive_timeout(config.times.keepalive_timeout);
    builder
}
