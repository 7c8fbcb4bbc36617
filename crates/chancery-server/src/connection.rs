//! One connection, from its handshake to its end.
//!
//! A connection ends when its client goes; when it has been without requests for too long; when it
//! is old, so that clients spread over new replicas (S-112); and when the server shuts down
//! (S-139). In the last two cases the client is told first (GOAWAY), then the streams end, those
//! without an answer after their first one, and what is left after the grace is cut.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::body::Activity;
use crate::chance;
use crate::config::Config;
use crate::heard::Heard;
use crate::policy::Peer;
use crate::service::{Origin, Services};

/// Serves one connection whose handshake is done.
pub(crate) async fn serve<I>(
    io: I,
    peer: Peer,
    services: Arc<Services>,
    stop: CancellationToken,
    begun: Instant,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (io, heard) = Heard::new(io);
    let origin =
        Origin { peer: Arc::new(peer), activity: Arc::default(), drain: CancellationToken::new() };
    let builder = builder(&services.shared.config);
    let mut life = Life::new(&services.shared.config, &origin, begun);
    let service = {
        let origin = origin.clone();
        hyper::service::service_fn(move |request: http::Request<Incoming>| {
            let (services, origin) = (Arc::clone(&services), origin.clone());
            async move { Ok::<_, Infallible>(services.answer(&origin, request).await) }
        })
    };
    let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
    loop {
        // The end comes first: nothing that happens to a connection matters after it.
        let why = tokio::select! {
            biased;
            ended = connection.as_mut() => return debug!(peer = %origin.peer, "closed: {ended:?}"),
            why = life.changes(&origin.activity, &stop, || heard.enough()) => why,
        };
        match why {
            Change::Unheard | Change::Over => return debug!(peer = %origin.peer, "cut: {why:?}"),
            Change::Goaway => connection.as_mut().graceful_shutdown(),
            Change::Drain => origin.drain.cancel(),
            Change::Nothing => {}
        }
    }
}

fn builder(config: &Config) -> Builder<TokioExecutor> {
    let (limits, times) = (&config.limits, &config.times);
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // Counted from the end of the request before, so it is about idle clients too.
        .header_read_timeout(times.idle_timeout)
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.max_streams_per_connection)
        .keep_alive_interval(times.http2_keepalive)
        .keep_alive_timeout(times.keepalive_timeout);
    builder
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// It has said nothing: close it.
    Unheard,
    /// Tell the client to open no more streams.
    Goaway,
    /// Let the streams end.
    Drain,
    /// Close it.
    Over,
    /// It became idle or busy.
    Nothing,
}

/// The times of one connection. What comes next is one timer.
struct Life {
    stage: Stage,
    idle_timeout: Duration,
    grace: Duration,
    drain: Duration,
    /// When it has to have said something.
    first_words: Option<Instant>,
    /// When it is old.
    old: Option<Instant>,
    idle_since: Option<Instant>,
}

enum Stage {
    Serving,
    /// The client was told, and the streams end at that time.
    Told(Instant),
    /// The streams are ending, and the connection at that time.
    Draining(Instant),
}

impl Life {
    fn new(config: &Config, origin: &Origin, begun: Instant) -> Self {
        let times = &config.times;
        let age = times.max_connection_age.map(|age| {
            let jitter = times.age_jitter.clamp(0.0, 1.0);
            age.mul_f64(1.0 - jitter) + chance::within(age.mul_f64(jitter))
        });
        debug!(peer = %origin.peer, tls = origin.peer.tls, ?age, "connected");
        let now = Instant::now();
        Self {
            stage: Stage::Serving,
            idle_timeout: times.idle_timeout,
            grace: times.grace,
            drain: times.drain,
            first_words: Some(begun + times.handshake_timeout),
            old: age.map(|age| now + age),
            idle_since: Some(now),
        }
    }

    /// Waits for the next change. Cancel-safe.
    async fn changes(
        &mut self,
        activity: &Activity,
        stop: &CancellationToken,
        heard: impl Fn() -> bool,
    ) -> Change {
        let serving = matches!(self.stage, Stage::Serving);
        let timer = self.next_time().map(sleep_until);
        tokio::select! {
            biased;
            () = stop.cancelled(), if serving => self.told(chance::within(self.drain)),
            () = activity.changed.notified() => {
                self.idle_since = activity.is_idle().then(Instant::now);
                Change::Nothing
            }
            () = elapsed(timer) => self.due(heard),
        }
    }

    fn next_time(&self) -> Option<Instant> {
        match self.stage {
            Stage::Serving => {
                let idle = self.idle_since.map(|since| since + self.idle_timeout);
                [self.first_words, self.old, idle].into_iter().flatten().min()
            }
            Stage::Told(at) | Stage::Draining(at) => Some(at),
        }
    }

    fn due(&mut self, heard: impl Fn() -> bool) -> Change {
        let now = Instant::now();
        let is_past = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        match self.stage {
            Stage::Serving if is_past(self.first_words) => {
                self.first_words = None;
                if heard() { Change::Nothing } else { Change::Unheard }
            }
            // An idle connection has nothing to lose, but a request may be on its way.
            Stage::Serving => self.told(Duration::ZERO),
            Stage::Told(_) => {
                // The streams end themselves within the grace; this is for those that cannot.
                self.stage = Stage::Draining(now + self.grace + LAST_WORDS);
                Change::Drain
            }
            Stage::Draining(_) => Change::Over,
        }
    }

    fn told(&mut self, streams_end_in: Duration) -> Change {
        self.stage = Stage::Told(Instant::now() + streams_end_in);
        Change::Goaway
    }
}

/// How long the last frames of a connection may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

async fn elapsed(timer: Option<Sleep>) {
    match timer {
        Some(timer) => timer.await,
        None => std::future::pending().await,
    }
}
