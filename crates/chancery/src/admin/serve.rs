//! The connections of the admin interface, on a thread of their own.
//!
//! Operators and probes ask when the server is busy or under attack, so nothing that clients do may
//! keep an answer from them: the interface has its own thread, its own number of connections and its
//! own times. If there are too many connections, a new one takes the place of the oldest one of the
//! peer that has the most: most answers take milliseconds, and a peer that opens connections without
//! end takes only its own places. Connections take turns: one that asks many times in one write is
//! answered once in each. Not here: the answers (`admin`).

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener as BoundListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use chancery_server::shared_address;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Admin, Caller, Channel, Lifetime, answer};

/// Answers requests on a thread of its own until `stop` is cancelled, over so many connections at
/// the same time. One more takes the place of the oldest one of the peer that has the most.
///
/// # Errors
/// When the thread cannot be started.
pub(crate) fn start(
    listener: BoundListener,
    admin: Arc<Admin>,
    most: usize,
    stop: CancellationToken,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    SockRef::from(&listener).listen(BACKLOG)?;
    let (told, started) = mpsc::channel();
    let thread = thread::Builder::new().name("admin".to_owned());
    thread.spawn(move || {
        // The thread makes its runtime itself: one cannot be dropped by a task of another one.
        let begun = begin(listener);
        let (begun, result) = match begun {
            Ok(begun) => (Some(begun), Ok(())),
            Err(error) => (None, Err(error)),
        };
        if told.send(result).is_ok()
            && let Some((runtime, listener)) = begun
        {
            runtime.block_on(serve(listener, admin, most, stop));
        }
    })?;
    started.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
}

fn begin(listener: BoundListener) -> io::Result<(Runtime, TcpListener)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(async { TcpListener::from_std(listener) })?;
    Ok((runtime, listener))
}

async fn serve(listener: TcpListener, admin: Arc<Admin>, most: usize, stop: CancellationToken) {
    let mut connections = Connections::new(most);
    // It ends with the runtime of this thread.
    if let Some(tls) = admin.tls.clone() {
        tokio::spawn(tls.follow());
    }
    let mut failing = false;
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.running.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                failing = false;
                connections.add(peer.ip(), stream, Arc::clone(&admin));
                // Those who wait come in one after the other, and each is heard before the next:
                // otherwise a burst would take the places of connections that nobody looked at.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                // One line says it until it works again: there are ten attempts in a second.
                if !std::mem::replace(&mut failing, true) {
                    warn!(%error, "the admin interface cannot accept a connection");
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The connections, as far as they are not over.
struct Connections {
    running: JoinSet<()>,
    oldest_first: VecDeque<(IpAddr, AbortHandle)>,
    most: usize,
}

impl Connections {
    fn new(most: usize) -> Self {
        Self { running: JoinSet::new(), oldest_first: VecDeque::new(), most }
    }

    fn add(&mut self, peer: IpAddr, stream: TcpStream, admin: Arc<Admin>) {
        self.oldest_first.retain(|(_, connection)| !connection.is_finished());
        if self.oldest_first.len() >= self.most
            && let Some((_, oldest)) = self.in_the_way().and_then(|at| self.oldest_first.remove(at))
        {
            oldest.abort();
        }
        let connection = self.running.spawn(async move {
            let lifetime = Arc::<Lifetime>::default();
            tokio::select! {
                () = encrypted_or_not(stream, peer, admin, &lifetime) => {}
                () = lifetime.is_over() => {}
            }
        });
        self.oldest_first.push_back((shared_address(peer), connection));
    }

    /// The place of the oldest connection of the peer that has the most.
    fn in_the_way(&self) -> Option<usize> {
        let mut held = HashMap::<IpAddr, usize>::new();
        for (peer, _) in &self.oldest_first {
            *held.entry(*peer).or_default() += 1;
        }
        let most = held.values().max()?;
        self.oldest_first.iter().position(|(peer, _)| held.get(peer) == Some(most))
    }
}

/// Serves a connection: what begins as a TLS handshake is one, if there is a certificate.
async fn encrypted_or_not(
    stream: TcpStream,
    peer: IpAddr,
    admin: Arc<Admin>,
    lifetime: &Arc<Lifetime>,
) {
    let Some(tls) = &admin.tls else {
        return connection(stream, (peer, Channel::Plain), admin, lifetime).await;
    };
    let mut first = [0];
    let looked = tokio::time::timeout(HEADER_TIMEOUT, stream.peek(&mut first)).await;
    if !matches!(looked, Ok(Ok(1))) {
        return;
    }
    if first != [TLS_HANDSHAKE] {
        return connection(stream, (peer, Channel::Plain), admin, lifetime).await;
    }
    let accepting = tokio::time::timeout(HEADER_TIMEOUT, tls.acceptor().accept(stream));
    let stream = match accepting.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return debug!(%error, "a TLS handshake of an admin connection failed"),
        Err(_) => return debug!("a TLS handshake of an admin connection took too long"),
    };
    let channel = match stream.get_ref().1.peer_certificates() {
        Some(_) => Channel::Certified,
        None => Channel::Tls,
    };
    connection(stream, (peer, channel), admin, lifetime).await;
}

async fn connection(
    io: impl AsyncRead + AsyncWrite + Unpin,
    (peer, channel): (IpAddr, Channel),
    admin: Arc<Admin>,
    lifetime: &Arc<Lifetime>,
) {
    let was_answered = AtomicBool::new(false);
    let service = service_fn(|request: Request<Incoming>| {
        let (admin, lifetime) = (Arc::clone(&admin), Arc::clone(lifetime));
        let waits = was_answered.swap(true, Ordering::Relaxed);
        async move {
            // The library for HTTP would answer many requests of one write before it lets others in.
            if waits {
                tokio::task::yield_now().await;
            }
            let caller = Caller { peer, channel, lifetime };
            Ok::<_, Infallible>(answer(&admin, &caller, request).await)
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(io), service)
        .await;
    if let Err(error) = served {
        debug!(%error, "an admin connection broke");
    }
}

/// The number of connections at the same time where enough files may be open.
pub(crate) const MAX_CONNECTIONS: usize = 64;

/// The number of connections that wait to be accepted, which the system bounds too: with the 128 that
/// a listener has otherwise, a burst makes a probe dial again after a second.
const BACKLOG: i32 = 65_535;

/// The first byte of a TLS handshake, with which no request begins.
const TLS_HANDSHAKE: u8 = 0x16;

/// The number of bytes of a request line with its headers.
const MAX_HEADER_BYTES: usize = 16 * 1024;

/// The time a client may take to send its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause after a failed accept: most fail because there are no free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpStream as Dialled};
    use std::pin::pin;
    use std::task::Poll;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpSocket, TcpStream as Client};

    use super::*;
    use crate::admin::tests::{TIME, admin};

    const REQUEST: &str = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";

    /// A connection whose request has arrived before anybody accepts it.
    fn asking(listener: &BoundListener) -> Dialled {
        let mut stream = Dialled::connect(listener.local_addr().unwrap()).unwrap();
        stream.write_all(REQUEST.as_bytes()).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    }

    #[tokio::test]
    async fn who_has_asked_is_answered_however_many_come_at_once() {
        let listener = BoundListener::bind("127.0.0.1:0").unwrap();
        let asking: Vec<_> = (0..120).map(|_| asking(&listener)).collect();
        listener.set_nonblocking(true).unwrap();
        let listener = TcpListener::from_std(listener).unwrap();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve(listener, admin(), 64, stop.clone()));
        for (number, stream) in asking.into_iter().enumerate() {
            let mut answer = String::new();
            let mut stream = TcpStream::from_std(stream).unwrap();
            let read = tokio::time::timeout(TIME, stream.read_to_string(&mut answer)).await;
            assert!(answer.ends_with("ok\n"), "{number}: {read:?} {answer:?}");
        }
        stop.cancel();
        tokio::time::timeout(TIME, serving).await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn who_asks_many_times_in_one_write_is_answered_once_in_each_turn() {
        let (mut client, io) = tokio::io::duplex(1 << 20);
        let ask = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(ask.repeat(20).as_bytes()).await.unwrap();
        let lifetime = Arc::default();
        let mut served =
            pin!(connection(io, (Ipv4Addr::LOCALHOST.into(), Channel::Plain), admin(), &lifetime));
        let (mut answers, mut turns, mut buffer) = (0, 0, vec![0; 1 << 16]);
        while answers < 20 {
            turns += 1;
            assert!(turns < 1_000, "{answers} answers");
            let read = poll_fn(|cx| {
                assert!(served.as_mut().poll(cx).is_pending());
                Poll::Ready(pin!(client.read(&mut buffer)).poll(cx))
            });
            let read = match read.await {
                Poll::Ready(read) => read.unwrap(),
                Poll::Pending => 0,
            };
            let one = str::from_utf8(&buffer[..read]).unwrap().matches("HTTP/1.1 200").count();
            assert!(one <= 1, "{one} answers in one turn");
            answers += one;
        }
    }

    /// A connection from an address of its own, which is accepted.
    async fn dialled(listener: &TcpListener, from: Ipv4Addr) -> (IpAddr, TcpStream, Client) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let connected = socket.connect(listener.local_addr().unwrap());
        let (client, accepted) =
            tokio::time::timeout(TIME, async { tokio::join!(connected, listener.accept()) })
                .await
                .unwrap();
        let (stream, peer) = accepted.unwrap();
        (peer.ip(), stream, client.unwrap())
    }

    #[tokio::test]
    async fn who_opens_connections_without_end_takes_no_place_of_another_peer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (own, other) = (Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2));
        let mut connections = Connections::new(8);
        let mut others = Vec::new();
        let (peer, stream, mut asking) = dialled(&listener, own).await;
        connections.add(peer, stream, admin());
        for _ in 0..40 {
            let (peer, stream, client) = dialled(&listener, other).await;
            connections.add(peer, stream, admin());
            others.push(client);
        }
        asking.write_all(REQUEST.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = tokio::time::timeout(TIME, asking.read_to_string(&mut answer)).await;
        assert!(answer.ends_with("ok\n"), "{read:?} {answer:?}");
        let mut first = others.swap_remove(0);
        let read = tokio::time::timeout(TIME, first.read(&mut [0])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "the oldest one of the other peer has to go");
    }
}
