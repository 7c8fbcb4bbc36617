//! The connections of one listener, from their acceptance to their end.
//!
//! Connections and handshakes are bounded for the server as a whole: a connection past the limit is
//! closed at once, and a handshake waits for its turn. Not here: the sockets (`listen`), the
//! certificates (`tls`), and all that happens on a connection (`connection`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::budget::{MemoryCharge, MemoryShortage, Permit};
use crate::connection::{self, ConnectionFuture};
use crate::handshake_failure::HandshakeFailure;
use crate::listen::{AcceptedSocket, Listener};
use crate::log_limiter::{LineOrigin, PeerLine};
use crate::places::Places;
use crate::policy::Peer;
use crate::server_state::ServerState;
use crate::service::Services;
use crate::tls::{Tls, TlsState};
use crate::turns::Line;

/// Accepts the connections of one listener.
pub(crate) struct Acceptor {
    pub(crate) services: Arc<Services>,
    pub(crate) tls: Option<Arc<Tls>>,
    /// The places for handshakes of the whole server.
    pub(crate) handshakes: Places,
    pub(crate) stop: CancellationToken,
}

impl Acceptor {
    /// Accepts connections until the server stops, and then waits for their end.
    pub(crate) async fn run(self, listener: Listener) {
        let acceptor = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut followed =
            std::pin::pin!(reload_on_change(acceptor.tls.clone(), &acceptor.services.shared));
        loop {
            tokio::select! {
                biased;
                () = acceptor.stop.cancelled() => break,
                Some(_) = connections.join_next() => {}
                () = &mut followed => {}
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => acceptor.admit(accepted, &mut connections),
                    Err(error) => pause_after(&error, &acceptor.services.shared).await,
                },
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    fn admit(self: &Arc<Self>, accepted: AcceptedSocket, connections: &mut JoinSet<()>) {
        let taken = ConnectionPermit::take(&self.services.shared, accepted.address());
        let Some((permit, charge)) = taken else {
            debug!("a connection was closed: there is no room for it");
            return;
        };
        accepted.prepare(&self.services.shared.config.times);
        let acceptor = Arc::clone(self);
        connections.spawn(async move {
            let _permit = permit;
            // Boxed, so that the connection's task keeps no room for a handshake.
            let opening = Box::pin(async move { acceptor.open(accepted, charge).await });
            if let Some(serving) = opening.await {
                serving.await;
            }
        });
    }

    /// Waits for the first bytes of a client, after the handshake if there is one.
    async fn open(
        &self,
        accepted: AcceptedSocket,
        charge: MemoryCharge,
    ) -> Option<ConnectionFuture> {
        let (begun, address) = (Instant::now(), accepted.address());
        let peer = Peer { address, tls: false, certificates: Vec::new() };
        let Self { services, stop, .. } = self;
        match (accepted, &self.tls) {
            (AcceptedSocket::Tcp(io, _), None) => {
                connection::open(io, Arc::new(peer), services, stop, begun, charge).await
            }
            (AcceptedSocket::Unix(io), None) => {
                connection::open(io, Arc::new(peer), services, stop, begun, charge).await
            }
            (AcceptedSocket::Tcp(io, _), Some(tls)) => {
                self.open_tls(io, tls, peer, begun, charge).await
            }
            (AcceptedSocket::Unix(io), Some(tls)) => {
                self.open_tls(io, tls, peer, begun, charge).await
            }
        }
    }

    /// Opens a connection over TLS. One whose peer was verified ends when its certificate is
    /// accepted no more.
    async fn open_tls<I>(
        &self,
        io: I,
        tls: &Tls,
        mut peer: Peer,
        begun: Instant,
        charge: MemoryCharge,
    ) -> Option<ConnectionFuture>
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let state = tls.state();
        let io = self.shake_hands(io, &state, &mut peer).await?;
        let (peer, stop) = (Arc::new(peer), self.stop.child_token());
        let verified = tls.verified(&state, &peer, &stop);
        let chain = self.charge_chain(&peer).ok()?;
        let serving = connection::open(io, peer, &self.services, &stop, begun, charge).await?;
        if verified.is_none() && chain.is_none() {
            return Some(serving);
        }
        Some(Box::pin(async move {
            let _held = (verified, chain);
            serving.await;
        }))
    }

    /// Charges the certificates that a client showed, unless they are few: they are kept until the
    /// connection ends, here and by the library for TLS.
    fn charge_chain(&self, peer: &Peer) -> Result<Option<MemoryCharge>, MemoryShortage> {
        let shown = peer.certificates.iter().map(Vec::len).sum::<usize>();
        if 2 * shown <= CHAIN_BYTES {
            return Ok(None);
        }
        let shared = &self.services.shared;
        let charge = shared.charge(&shared.budget.share_of(peer), 2 * shown);
        charge.map(Some).inspect_err(|shortage| debug!(%peer, "closed: {shortage}"))
    }

    /// Does the TLS handshake within its time, and notes the certificates of the peer.
    async fn shake_hands<I>(
        &self,
        io: I,
        tls: &TlsState,
        peer: &mut Peer,
    ) -> Option<tokio_rustls::server::TlsStream<I>>
    where
        I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    {
        let shared = &self.services.shared;
        let handshake = async {
            let place = self.handshakes.take(&shared.budget.share_of(peer), Line::End).await;
            let mut handshake = std::pin::pin!(tls.acceptor().accept(io));
            match timeout(HANDSHAKE_HOLD, &mut handshake).await {
                Ok(done) => done,
                Err(_) => {
                    drop(place);
                    handshake.await
                }
            }
        };
        let failure = match timeout(shared.config.times.handshake_timeout, handshake).await {
            Ok(Ok(stream)) => {
                let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
                peer.tls = true;
                peer.certificates = shown.iter().map(|shown| shown.to_vec()).collect();
                return Some(stream);
            }
            Ok(Err(error)) => {
                debug!(%peer, "TLS handshake failed: {error}");
                HandshakeFailure::of(&error)
            }
            Err(_) => HandshakeFailure::TooLong,
        };
        failure.report(shared, peer);
        None
    }
}

/// A permit for one connection, given back when it is dropped.
struct ConnectionPermit {
    shared: Arc<ServerState>,
    #[expect(dead_code, reason = "it is held, and given back when it is dropped")]
    permit: Permit,
}

impl ConnectionPermit {
    /// Takes a permit, and the memory that any connection needs. The certificate of the peer is not
    /// known yet, so its address counts.
    fn take(
        shared: &Arc<ServerState>,
        address: Option<SocketAddr>,
    ) -> Option<(Self, MemoryCharge)> {
        let unknown = Peer { address, tls: false, certificates: Vec::new() };
        let share = shared.budget.share_of(&unknown);
        let permit = share.connection().ok();
        let taken = permit.zip(MemoryCharge::new(&share, CONNECTION_BYTES).ok());
        if taken.is_none() {
            shared.metrics.connections_refused.inc();
        }
        let (permit, charge) = taken?;
        shared.metrics.connections.inc();
        Some((Self { shared: Arc::clone(shared), permit }, charge))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.shared.metrics.connections.dec();
    }
}

/// Reloads the certificates of a listener when they change, if it has any. Never ends.
async fn reload_on_change(tls: Option<Arc<Tls>>, shared: &ServerState) {
    match tls {
        Some(tls) => tls.reload_on_change(shared.config.times.tls_reload).await,
        None => std::future::pending().await,
    }
}

/// Waits a moment after a connection could not be accepted. That fails when there are no file
/// descriptors left; connections that end give some back.
async fn pause_after(error: &std::io::Error, shared: &ServerState) {
    let reason = error.to_string();
    let origin = LineOrigin { peer: None, proven: true, node: "", of: "", detail: &reason };
    if shared.log_limiter.admits(PeerLine::NotConnected, &origin, Instant::now()) {
        warn!("cannot accept a connection: {reason}");
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
}

/// The number of bytes that a connection without streams charges: its buffers, and those of HTTP and
/// TLS, and the certificates of a client that shows few.
const CONNECTION_BYTES: usize = 16 * 1024;

/// The number of bytes of these certificates.
const CHAIN_BYTES: usize = 4 * 1024;

/// The time for which a handshake keeps its place: many times what one takes whose peer answers at
/// once. A handshake that waits for its peer needs no CPU, so its place goes to another one.
const HANDSHAKE_HOLD: Duration = Duration::from_millis(200);
