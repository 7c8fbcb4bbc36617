//! One connection to a server, from its first byte to its last.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tonic::body::Body;
use tower_service::Service;

use super::linger::Lent;
use super::peer::Peer;
use super::security::Security;
use super::serving::ServingChain;
use super::{BoxError, ConnectionInfo, call};
use crate::connect::Greeting;

/// The times that a connection has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Until it has begun to speak HTTP/2.
    pub(super) handshake: Duration,
    /// From its drain until its end.
    pub(super) grace: Duration,
}

/// A connection that the server takes.
pub(super) struct Taken {
    pub(super) info: ConnectionInfo,
    pub(super) chain: Arc<ServingChain>,
    pub(super) drained: watch::Receiver<()>,
    /// The methods that have metrics of their own.
    pub(super) methods: Arc<BTreeSet<String>>,
}

impl Taken {
    /// Serves the calls of the connection until it ends.
    pub(super) async fn run<S, B>(self, stream: TcpStream, limits: Limits, service: S)
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let peer = self.info.peer_address();
        let deadline = Instant::now() + limits.handshake;
        // Small messages are not held back; a socket that cannot do this works all the same.
        let _ = stream.set_nodelay(true);
        let Security::Tls(tls) = &self.chain.security else {
            return self.speak(stream, deadline, limits.grace, service).await;
        };
        match timeout_at(deadline, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let info = self.info.with(Peer::of(stream.get_ref().1));
                Self { info, ..self }.speak(stream, deadline, limits.grace, service).await;
            }
            Ok(Err(why)) => tracing::debug!(%peer, "a connection failed: {why}"),
            Err(_) => tracing::debug!(%peer, "a connection has made no TLS handshake in time"),
        }
    }

    /// Speaks HTTP/2 with a client, and lets it hear the last words.
    async fn speak<T, S, B>(self, stream: T, deadline: Instant, grace: Duration, service: S)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let (stream, owner) = Lent::new(stream);
        self.answer(stream, deadline, grace, service).await;
        owner.linger().await;
    }

    /// Answers the calls of a client that has to begin to speak HTTP/2 until the deadline.
    async fn answer<T, S, B>(self, stream: T, deadline: Instant, grace: Duration, service: S)
    where
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let Self { info, chain, mut drained, methods } = self;
        let peer = info.peer_address();
        let (stream, told) = Greeting::of_client(stream);
        let mut greeted = told.begun;
        // Calls count their use of what is the connection's own, and not of what all connections share.
        let of_all = Arc::new((chain, methods));
        let calls = service_fn(move |request: Request<Incoming>| {
            let (info, of_all, service) = (info.clone(), Arc::clone(&of_all), service.clone());
            async move {
                let (chain, methods) = &*of_all;
                Ok::<_, Infallible>(call::answer(chain, info, service, request, methods).await)
            }
        });
        let mut connection = pin!(builder().serve_connection(TokioIo::new(stream), calls));
        let mut is_draining = false;
        loop {
            tokio::select! {
                biased;
                ended = connection.as_mut() => return log(peer, ended),
                // It ends with an error if the peer does not speak HTTP/2, which hyper finds out too.
                _ = &mut greeted => break,
                () = sleep_until(deadline) => {
                    tracing::debug!(%peer, "a connection has not begun to speak HTTP/2 in time");
                    return;
                }
                _ = drained.changed(), if !is_draining => {
                    is_draining = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
        if !is_draining {
            tokio::select! {
                ended = connection.as_mut() => return log(peer, ended),
                _ = drained.changed() => connection.as_mut().graceful_shutdown(),
            }
        }
        match timeout(grace, connection).await {
            Ok(ended) => log(peer, ended),
            Err(_) => tracing::debug!(%peer, "a connection is closed with calls under way"),
        }
    }
}

fn builder() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).adaptive_window(true);
    builder.max_concurrent_streams(MAX_CALLS).max_header_list_size(MAX_HEADERS);
    builder.keep_alive_interval(KEEPALIVE).keep_alive_timeout(KEEPALIVE_TIMEOUT);
    builder
}

fn log(peer: std::net::SocketAddr, ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%peer, "a connection ended: {error}");
    }
}

impl Default for Limits {
    /// The times of other implementations of gRPC.
    fn default() -> Self {
        Self { handshake: Duration::from_secs(20), grace: Duration::from_secs(600) }
    }
}

/// The number of calls that a connection has at one time; a client with more waits, or connects again.
const MAX_CALLS: u32 = 200;
/// The bytes of the headers of a call, as in other implementations of gRPC.
const MAX_HEADERS: u32 = 16 * 1024;
/// The time after which a silent peer is asked whether it is there, as in other implementations of gRPC.
const KEEPALIVE: Duration = Duration::from_secs(2 * 60 * 60);
/// The time that it has to answer.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);
