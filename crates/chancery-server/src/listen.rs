//! The sockets on which clients connect: TCP with or without TLS, or a Unix socket.
//!
//! Not here: the files of Unix sockets (`unix_socket`); the loop that accepts connections, and TLS
//! handshakes (`acceptor`); certificates (`tls`).

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixStream};

use crate::config::Times;
use crate::tls::Tls;
use crate::unix_socket::UnixSocket;

/// A socket on which clients connect. It serves both gRPC and REST.
#[derive(Debug)]
pub struct Listener {
    socket: ListenerSocket,
    pub(crate) tls: Option<Arc<Tls>>,
}

#[derive(Debug)]
enum ListenerSocket {
    Tcp(TcpListener),
    Unix(UnixSocket),
}

/// A connection that was just accepted.
pub(crate) enum AcceptedSocket {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Listener {
    /// Listens on an address; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is not free, or not one of this machine.
    #[expect(clippy::unused_async, reason = "it works in a runtime only, which a future says")]
    pub async fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4(),
            SocketAddr::V6(_) => TcpSocket::new_v6(),
        }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(Self { socket: ListenerSocket::Tcp(socket.listen(BACKLOG)?), tls: None })
    }

    /// Listens on a Unix socket for processes of the same user: its file has the mode 0600. A
    /// socket file on which nobody listens any more is replaced, and nothing else is.
    ///
    /// # Errors
    /// When the socket cannot be made at that path, or something else is there.
    pub fn unix(path: impl Into<PathBuf>) -> io::Result<Self> {
        Self::unix_with_mode(path, 0o600)
    }

    /// Listens on a Unix socket whose file has this mode. At no time has it a wider one, whatever
    /// the umask is.
    ///
    /// # Errors
    /// When the socket cannot be made at that path, or something else is there.
    pub fn unix_with_mode(path: impl Into<PathBuf>, mode: u32) -> io::Result<Self> {
        let socket = ListenerSocket::Unix(UnixSocket::bind(path.into(), mode)?);
        Ok(Self { socket, tls: None })
    }

    /// Serves TLS on this listener.
    #[must_use]
    pub fn with_tls(mut self, tls: Arc<Tls>) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The address of a TCP listener.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => socket.local_addr().ok(),
            ListenerSocket::Unix(..) => None,
        }
    }

    /// Waits for a connection. Cancel-safe.
    pub(crate) async fn accept(&self) -> io::Result<AcceptedSocket> {
        match &self.socket {
            ListenerSocket::Tcp(socket) => {
                let (stream, address) = socket.accept().await?;
                Ok(AcceptedSocket::Tcp(stream, address))
            }
            ListenerSocket::Unix(socket) => Ok(AcceptedSocket::Unix(socket.accept().await?)),
        }
    }
}

impl std::fmt::Display for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.socket {
            ListenerSocket::Tcp(socket) => match socket.local_addr() {
                Ok(address) => write!(f, "{address}"),
                Err(_) => f.write_str("tcp"),
            },
            ListenerSocket::Unix(socket) => write!(f, "unix:{}", socket.path().display()),
        }
    }
}

impl AcceptedSocket {
    /// Sets the options of TCP: small messages go out at once, the system keeps little for a peer that
    /// does not read, and a peer that vanished is noticed (S-113).
    pub(crate) fn prepare(&self, times: &Times) {
        let Self::Tcp(stream, _) = self else { return };
        stream.set_nodelay(true).ok();
        #[cfg(target_os = "linux")]
        SockRef::from(stream).set_tcp_notsent_lowat(UNSENT).ok();
        let Some(quiet) = times.tcp_keepalive else { return };
        let probes =
            TcpKeepalive::new().with_time(quiet).with_interval(times.keepalive_timeout / 3);
        #[cfg(target_os = "linux")]
        let probes = probes.with_retries(3);
        let socket = SockRef::from(stream);
        socket.set_tcp_keepalive(&probes).ok();
        #[cfg(target_os = "linux")]
        socket.set_tcp_user_timeout(Some(quiet + times.keepalive_timeout)).ok();
    }

    pub(crate) fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(_, address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// The number of bytes that the system takes before it has sent them. By default it takes 4 MB for each
/// connection, which no limit of the server knows and which count for its control group.
const UNSENT: u32 = 256 * 1024;

/// The number of connections that may wait to be accepted: as many as the system allows. When a fleet
/// comes back, those that do not fit are tried again by their clients seconds later.
const BACKLOG: u32 = 65_535;

#[cfg(test)]
mod tests {
    use std::net::TcpStream as Client;
    use std::time::Duration;

    use super::*;

    /// The number of connections that this system lets wait.
    fn most() -> usize {
        let text = std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(128)
    }

    #[tokio::test]
    async fn as_many_connections_wait_as_the_system_allows() {
        let listener = Listener::tcp(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.address().unwrap();
        let connect = |_| Client::connect_timeout(&address, Duration::from_secs(20));
        let waiting: Result<Vec<_>, _> = (0..most().min(700)).map(connect).collect();
        assert!(waiting.is_ok(), "{waiting:?}");
    }
}
