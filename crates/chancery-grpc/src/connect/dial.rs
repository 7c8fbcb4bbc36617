//! The making of a connection: TCP, TLS if the settings say so, and the beginning of HTTP/2.

use std::net::SocketAddr;
use std::pin::Pin;

use http::uri::Scheme;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tonic::body::Body;

use super::greeting::Greeting;
use super::{ConnectionSettings, Keepalive, Security, Sender};

/// Runs a connection until it is lost, or until nobody sends on it and its calls have ended.
pub(super) type Running = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Connects to an address.
pub(super) async fn dial(
    address: SocketAddr,
    settings: &ConnectionSettings,
) -> Result<(Sender, Running), String> {
    // Certificates first: without them the peer need not be bothered.
    let handshake = match &settings.security {
        Security::Plain => None,
        Security::Tls(tls) => Some(tls.prepare().await?),
    };
    let io = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    io.set_nodelay(true).map_err(|error| error.to_string())?;
    let (inner, running) = match handshake {
        None => begin(io, settings.keepalive, address).await?,
        Some(handshake) => begin(handshake.make(io).await?, settings.keepalive, address).await?,
    };
    let scheme = match &settings.security {
        Security::Plain => Scheme::HTTP,
        Security::Tls(_) => Scheme::HTTPS,
    };
    Ok((Sender::new(inner, scheme), running))
}

/// Begins HTTP/2 on a connection.
async fn begin<T>(
    io: T,
    keepalive: Option<Keepalive>,
    address: SocketAddr,
) -> Result<(http2::SendRequest<Body>, Running), String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.timer(TokioTimer::new()).adaptive_window(true);
    // No call is sent until the server says how many it takes.
    builder.initial_max_send_streams(0);
    if let Some(Keepalive { time, timeout, without_calls }) = keepalive {
        builder.keep_alive_interval(time).keep_alive_timeout(timeout);
        builder.keep_alive_while_idle(without_calls);
    }
    let (io, told) = Greeting::new(io);
    let handshake = builder.handshake::<_, Body>(TokioIo::new(io)).await;
    let (sender, mut running) = handshake.map_err(|error| error.to_string())?;
    greeted(told, &mut running).await?;
    let running = Box::pin(async move {
        if let Err(error) = running.await {
            tracing::debug!(%address, "connection ended: {error}");
        }
    });
    Ok((sender, running))
}

/// Waits for the settings of the server, or for the end of the connection.
async fn greeted(
    told: oneshot::Receiver<()>,
    running: &mut (impl Future<Output = hyper::Result<()>> + Unpin),
) -> Result<(), String> {
    const NO_SETTINGS: &str = "the server does not speak HTTP/2, or has closed the connection";
    tokio::select! {
        biased;
        ended = running => Err(match ended {
            Ok(()) => NO_SETTINGS.to_owned(),
            Err(error) => error.to_string(),
        }),
        told = told => told.map_err(|_| NO_SETTINGS.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    const ADDRESS: &str = "127.0.0.1:1";
    /// An empty frame of settings.
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

    /// A connection to a peer that has begun, and then reads without an answer.
    async fn silent(keepalive: Option<Keepalive>) -> (http2::SendRequest<Body>, Running) {
        let (io, peer) = duplex(1 << 16);
        tokio::spawn(begin_and_say_nothing(peer));
        begin(io, keepalive, ADDRESS.parse().unwrap()).await.unwrap()
    }

    async fn begin_and_say_nothing(mut peer: DuplexStream) {
        peer.write_all(SETTINGS).await.unwrap();
        let mut buffer = [0; 1024];
        while peer.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    }

    fn keepalive(without_calls: bool) -> Option<Keepalive> {
        let time = Duration::from_secs(10);
        Some(Keepalive { without_calls, ..Keepalive::after(time) })
    }

    fn call() -> http::Request<Body> {
        http::Request::get("http://a/").body(Body::empty()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_is_silent_is_lost_after_the_timeout() {
        let (mut sender, running) = silent(keepalive(false)).await;
        let running = tokio::spawn(running);
        let began = Instant::now();
        let error = sender.try_send_request(call()).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 30, "10 of silence, and 20 for the answer");
        let error = error.into_error();
        assert!(error.is_timeout(), "{error:?}");
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_asked_without_calls_only_if_that_is_wanted() {
        let hour = Duration::from_secs(3600);
        let (_sender, running) = silent(keepalive(true)).await;
        assert!(timeout(hour, running).await.is_ok());
        for without in [keepalive(false), None] {
            let (_sender, running) = silent(without).await;
            assert!(timeout(hour, running).await.is_err());
        }
        let (mut sender, running) = silent(None).await;
        let calling = sender.try_send_request(call());
        let both = async { tokio::join!(calling, running) };
        assert!(timeout(hour, both).await.is_err(), "nobody asks");
    }

    #[test]
    fn a_peer_is_not_asked_too_often() {
        let seconds = |time| Keepalive::after(Duration::from_secs(time)).polite().time.as_secs();
        assert_eq!((seconds(0), seconds(11)), (10, 11));
    }
}
