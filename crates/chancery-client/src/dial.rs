//! Connections to servers: a socket, with TLS over it if the credentials demand it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::bootstrap::Address;
use crate::credentials::Credentials;
use crate::errors::error_chain;

/// A connection, as bytes.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// A connection, or the error of making it.
pub type DialFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send + 'a>>;

/// Makes the sockets of a client. The client itself adds TLS, by the credentials of the server.
pub trait Dial: Send + Sync {
    /// Connects to a server.
    fn dial<'a>(&'a self, address: &'a Address) -> DialFuture<'a>;
}

/// The sockets of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sockets;

impl Dial for Sockets {
    fn dial<'a>(&'a self, address: &'a Address) -> DialFuture<'a> {
        Box::pin(async move {
            Ok(match address {
                Address::Tcp { host, port } => {
                    let socket = TcpStream::connect((host.as_str(), *port)).await?;
                    socket.set_nodelay(true)?;
                    Box::new(socket) as Box<dyn Io>
                }
                Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
            })
        })
    }
}

/// Connects to a server, all handshakes included.
pub(crate) async fn connect(
    dial: &Arc<dyn Dial>,
    address: &Address,
    credentials: &Credentials,
    limit: Duration,
) -> Result<Box<dyn Io>, String> {
    match timeout(limit, secured(dial, address, credentials)).await {
        Ok(connected) => connected,
        Err(_) => Err(format!("no connection within {limit:?}")),
    }
}

async fn secured(
    dial: &Arc<dyn Dial>,
    address: &Address,
    credentials: &Credentials,
) -> Result<Box<dyn Io>, String> {
    let tls = credentials.tls().await.map_err(|error| error_chain(&error))?;
    let socket = dial.dial(address).await.map_err(|error| format!("cannot connect: {error}"))?;
    let Some(config) = tls else { return Ok(socket) };
    let host = address.host().to_owned();
    let name = ServerName::try_from(host.clone())
        .map_err(|_| format!("`{host}` is no name that TLS can verify"))?;
    let stream = TlsConnector::from(config).connect(name, socket).await;
    Ok(Box::new(stream.map_err(|error| format!("TLS: {error}"))?))
}
