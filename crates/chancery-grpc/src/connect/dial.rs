//! The making of a connection: a socket, a proxy and TLS if the settings say so, and the beginning of HTTP/2.

use std::net::SocketAddr;
use std::pin::Pin;

use http::uri::Scheme;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, ToSocketAddrs, UnixStream};
use tokio::sync::oneshot;
use tonic::body::Body;

use super::ended::Ended;
use super::greeting::{Greeting, Told};
use super::tls::Handshake;
use super::{
    ConnectionSettings, HttpProxy, Keepalive, Secret, Security, Sender, Via, broken, proxy,
};

/// Runs a connection until it is lost, or until nobody sends on it and its calls have ended.
pub(super) type Running = Pin<Box<dyn Future<Output = Ended> + Send>>;

/// Connects to an address. The keepalive is that of the settings, or a more patient one.
pub(super) async fn dial(
    address: SocketAddr,
    settings: &ConnectionSettings,
    keepalive: Option<Keepalive>,
) -> Result<(Sender, Running), String> {
    // Certificates first: without them the peer need not be bothered.
    let handshake = match &settings.security {
        Security::Plain => None,
        Security::Tls(tls) => Some(tls.prepare().await?),
    };
    let io = match &settings.via {
        Via::Tcp => tcp(address).await?,
        Via::Proxy(proxy) => {
            let tunnel = tunnel(proxy, &address.to_string(), None).await;
            tunnel.map_err(|error| format!("proxy {proxy}: {error}"))?
        }
        Via::Environment(proxy) => {
            let HttpProxy { host, port, authorization, server } = &**proxy;
            let server = server.clone().unwrap_or_else(|| address.to_string());
            let tunnel = tunnel((host.as_str(), *port), &server, authorization.as_ref()).await;
            tunnel.map_err(|error| format!("{proxy}: {error}"))?
        }
        Via::Unix(path) => {
            let io = UnixStream::connect(path).await.map_err(|error| error.to_string())?;
            return speak(io, handshake, keepalive, address).await;
        }
    };
    speak(io, handshake, keepalive, address).await
}

async fn tcp(address: impl ToSocketAddrs) -> Result<TcpStream, String> {
    let io = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    io.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(io)
}

async fn tunnel(
    proxy: impl ToSocketAddrs,
    server: &str,
    authorization: Option<&Secret>,
) -> Result<TcpStream, String> {
    let mut io = tcp(proxy).await?;
    proxy::ask(&mut io, server, authorization).await?;
    Ok(io)
}

/// Makes the handshakes on a connection to the server.
async fn speak<T>(
    io: T,
    handshake: Option<Handshake>,
    keepalive: Option<Keepalive>,
    address: SocketAddr,
) -> Result<(Sender, Running), String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(handshake) = handshake else {
        let (inner, running) = begin(io, keepalive, address).await?;
        return Ok((Sender::new(inner, Scheme::HTTP, None), running));
    };
    let (io, certificate) = handshake.make(io).await?;
    let (inner, running) = begin(io, keepalive, address).await?;
    Ok((Sender::new(inner, Scheme::HTTPS, certificate), running))
}

/// Runs the tasks of connections, with their futures on the heap: that of a call is of a type that has room for a
/// whole connection, and a task is copied when it begins and when it ends.
#[derive(Clone)]
struct OnHeap;

impl<F> Executor<F> for OnHeap
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(Box::pin(future));
    }
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
    let mut builder = http2::Builder::new(OnHeap);
    builder.timer(TokioTimer::new()).adaptive_window(true);
    // No call is sent until the server says how many it takes.
    builder.initial_max_send_streams(0);
    if let Some(Keepalive { time, timeout, without_calls }) = keepalive {
        builder.keep_alive_interval(time).keep_alive_timeout(timeout);
        builder.keep_alive_while_idle(without_calls);
    }
    let (io, told) = Greeting::new(io);
    let handshake = builder.handshake::<_, Body>(TokioIo::new(io)).await;
    let (sender, mut running) = handshake.map_err(|error| broken::with_causes(&error))?;
    let Told { begun, mut leaving } = told;
    let over = greeted(begun, &mut running).await?;
    let running = Box::pin(async move {
        let mut was_told = false;
        let ended = match over {
            Some(ended) => ended,
            None => tokio::select! {
                ended = &mut running => ended,
                // It hears of that only if it is asked for a call, or here: the connection is given up at once, and
                // calls that are under way end as they would.
                told = &mut leaving => {
                    was_told = told.is_ok();
                    running.await
                }
            },
        };
        was_told |= leaving.try_recv().is_ok();
        match ended {
            Ok(()) => Ended::well(was_told),
            Err(error) => {
                tracing::debug!(%address, "connection ended: {error}");
                Ended::by(&error, was_told, keepalive.is_some())
            }
        }
    });
    Ok((sender, running))
}

/// Waits for the settings of the server. A connection that has ended after them was made all the same, so that no
/// backoff comes before the next one: the server may have drained it. Returns its end then.
async fn greeted(
    mut begun: oneshot::Receiver<()>,
    running: &mut (impl Future<Output = hyper::Result<()>> + Unpin),
) -> Result<Option<hyper::Result<()>>, String> {
    const NO_SETTINGS: &str = "the server does not speak HTTP/2, or has closed the connection";
    tokio::select! {
        biased;
        ended = running => match (begun.try_recv(), ended) {
            (Ok(()), ended) => Ok(Some(ended)),
            (Err(_), Ok(())) => Err(NO_SETTINGS.to_owned()),
            (Err(_), Err(error)) => Err(broken::with_causes(&error)),
        },
        begun = &mut begun => begun.map(|()| None).map_err(|_| NO_SETTINGS.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, timeout};

    use super::*;

    const ADDRESS: &str = "127.0.0.1:1";
    /// Longer than anybody waits, in the time of the test.
    const HOUR: Duration = Duration::from_secs(3600);
    /// An empty frame of settings.
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

    /// A connection to a peer that has begun, and then reads without an answer.
    async fn silent(keepalive: Option<Keepalive>) -> (http2::SendRequest<Body>, Running) {
        let (io, peer) = duplex(1 << 16);
        tokio::spawn(begin_and_say_nothing(peer));
        timeout(HOUR, begin(io, keepalive, ADDRESS.parse().unwrap())).await.unwrap().unwrap()
    }

    async fn begin_and_say_nothing(mut peer: DuplexStream) {
        peer.write_all(SETTINGS).await.unwrap();
        let mut buffer = [0; 1024];
        while peer.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_drained_at_once_was_made() {
        const GO_AWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let made = async |words: &[u8]| {
            let (io, mut peer) = duplex(1 << 16);
            peer.write_all(words).await.unwrap();
            peer.shutdown().await.unwrap();
            let begun = timeout(HOUR, begin(io, None, ADDRESS.parse().unwrap())).await.unwrap();
            timeout(HOUR, begun.ok()?.1).await.ok()
        };
        assert_eq!(made(&[SETTINGS, GO_AWAY].concat()).await, Some(Ended::well(true)));
        assert_eq!(made(GO_AWAY).await, None);
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
        let answer = timeout(HOUR, sender.try_send_request(call())).await.unwrap();
        let error = answer.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), 30, "10 of silence, and 20 for the answer");
        let error = error.into_error();
        assert!(error.is_timeout(), "{error:?}");
        let ended = timeout(HOUR, running).await.unwrap().unwrap();
        assert_eq!(ended.reason, "connection timed out");
    }

    /// gRFC A94
    #[tokio::test]
    async fn a_connection_ends_for_a_reason() {
        const GO_AWAY: &[u8] = &[0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let ended = async |words: &[u8], resets: bool| {
            let (io, mut peer) = UnixStream::pair().unwrap();
            peer.write_all(&[SETTINGS, words].concat()).await.unwrap();
            let begun = begin(io, None, ADDRESS.parse().unwrap());
            let (_sender, running) = timeout(HOUR, begun).await.unwrap().unwrap();
            if resets {
                // A peer that closes with something unread resets the connection.
                peer.readable().await.unwrap();
            } else {
                let mut buffer = [0; 1024];
                assert!(peer.read(&mut buffer).await.unwrap() > 0);
            }
            drop(peer);
            timeout(HOUR, running).await.unwrap().reason
        };
        assert_eq!(ended(b"", true).await, "connection reset");
        assert_eq!(ended(b"", false).await, "unknown");
        assert_eq!(ended(GO_AWAY, true).await, "GOAWAY NO_ERROR");
        assert_eq!(ended(GO_AWAY, false).await, "GOAWAY NO_ERROR");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_is_asked_without_calls_only_if_that_is_wanted() {
        let (_sender, running) = silent(keepalive(true)).await;
        assert!(timeout(HOUR, running).await.is_ok());
        for without in [keepalive(false), None] {
            let (_sender, running) = silent(without).await;
            assert!(timeout(HOUR, running).await.is_err());
        }
        let (mut sender, running) = silent(None).await;
        let calling = sender.try_send_request(call());
        let both = async { tokio::join!(calling, running) };
        assert!(timeout(HOUR, both).await.is_err(), "nobody asks");
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_says_that_it_is_asked_too_often() {
        const GO_AWAY: &[u8] = &[0, 0, 22, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
        let ended = async |code: u8, keepalive: Option<Keepalive>| {
            let (io, mut peer) = duplex(1 << 16);
            let mut go_away = GO_AWAY.to_vec();
            go_away[16] = code;
            peer.write_all(SETTINGS).await.unwrap();
            let begun = timeout(HOUR, begin(io, keepalive, ADDRESS.parse().unwrap()));
            let (_sender, running) = begun.await.unwrap().unwrap();
            peer.write_all(&[&go_away, &b"too_many_pings"[..]].concat()).await.unwrap();
            // Servers close the connection behind their words.
            drop(peer);
            timeout(HOUR, running).await.unwrap()
        };
        // gRFC A94
        let reason = "GOAWAY ENHANCE_YOUR_CALM";
        let asked = Ended { reason, has_too_many_pings: true };
        assert_eq!(ended(11, keepalive(false)).await, asked);
        assert_eq!(ended(11, None).await, Ended { reason, has_too_many_pings: false });
        let others = [(0, "NO_ERROR"), (1, "PROTOCOL_ERROR"), (200, "INTERNAL_ERROR")];
        for (code, name) in others {
            let ended = ended(code, keepalive(false)).await;
            assert_eq!(
                (ended.reason, ended.has_too_many_pings),
                (&*format!("GOAWAY {name}"), false)
            );
        }
    }
    /// The reason is more than that it was HTTP/2, and the words of a peer are escaped.
    #[tokio::test]
    async fn it_is_told_why_a_connection_does_not_begin() {
        let reason = async |said: &[u8]| {
            let (io, mut peer) = duplex(1 << 16);
            peer.write_all(said).await.unwrap();
            let begun = timeout(HOUR, begin(io, None, ADDRESS.parse().unwrap())).await.unwrap();
            begun.err().unwrap()
        };
        // An alert of TLS.
        let why = reason(&[21, 3, 3, 0, 2, 2, 10, 0, 0, 0, 0]).await;
        assert_eq!(why, "http2 error: connection error detected: frame with invalid size");
        let go_away =
            [&[0, 0, 12, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], b"\x1b[2J"].concat();
        let why = reason(&go_away).await;
        assert!(!why.contains('\x1b'), "{why:?}");
    }
}
