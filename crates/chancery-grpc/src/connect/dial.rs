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
