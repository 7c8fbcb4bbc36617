//! The address of the server under load, and connections to it.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tokio::net::{TcpSocket, TcpStream, UnixStream, lookup_host};

/// The address of a server, as it is given: `HOST:PORT` or `unix:PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// A host and a port: `127.0.0.1:18000`, `xds.example:18000`.
    Tcp(String),
    /// The path of a Unix socket: `unix:/run/xds.sock`.
    Unix(PathBuf),
}

/// The address of a server after its name was looked up.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Server {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let port = text.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>()));
        match port {
            Some((host, Ok(_))) if !host.is_empty() && !host.contains('/') => {
                Ok(Self::Tcp(text.to_owned()))
            }
            _ => Err(format!("`{text}` is no server; write `HOST:PORT` or `unix:/PATH`")),
        }
    }
}

impl Display for Server {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(text) => f.write_str(text),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Server {
    /// Looks up the name.
    ///
    /// # Errors
    /// The name is not known.
    pub(crate) async fn resolve(&self) -> io::Result<Address> {
        match self {
            Self::Unix(path) => Ok(Address::Unix(path.clone())),
            Self::Tcp(text) => {
                let none = || io::Error::from(io::ErrorKind::NotFound);
                lookup_host(text).await?.next().map(Address::Tcp).ok_or_else(none)
            }
        }
    }

    /// The `:authority` of requests to the server.
    pub(crate) fn authority(&self) -> &str {
        match self {
            Self::Tcp(text) => text,
            Self::Unix(_) => "localhost",
        }
    }
}

/// Connects over TCP. A slow reader asks for a small buffer, because the kernel reads into it at
/// full speed.
pub(crate) async fn tcp(address: SocketAddr, slow: bool) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    if slow {
        socket.set_recv_buffer_size(SLOW_BUFFER)?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connects over a Unix socket.
pub(crate) async fn unix(path: &PathBuf) -> io::Result<UnixStream> {
    UnixStream::connect(path).await
}

const SLOW_BUFFER: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_read_and_printed_the_same() {
        for text in ["127.0.0.1:18000", "[::1]:18000", "localhost:1", "unix:/run/x.sock"] {
            assert_eq!(text.parse::<Server>().unwrap().to_string(), text);
        }
        for text in ["", "localhost", ":1", "unix:", "http://a:1", "a:b"] {
            assert!(text.parse::<Server>().is_err(), "{text}");
        }
    }
}
