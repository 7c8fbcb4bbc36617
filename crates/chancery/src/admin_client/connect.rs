//! Connections to an admin interface: TCP, and TLS over it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::args::AdminAccess;

/// A connection.
pub(super) trait Connection: Read + Write {}

impl<C: Read + Write> Connection for C {}

/// The way to a server.
#[derive(Clone, Debug)]
pub(super) enum Route {
    /// HTTP at an address.
    Address(SocketAddr),
    /// HTTP at `HOST:PORT`.
    Host(String),
    /// TLS at `HOST:PORT`.
    Tls(String, Arc<ClientConfig>),
}

impl Route {
    /// Connects. Each read and each write takes this time at most.
    pub(super) fn connect(&self, time: Duration) -> anyhow::Result<Box<dyn Connection>> {
        match self {
            Self::Address(address) => Ok(Box::new(dialled(&[*address], time)?)),
            Self::Host(authority) => Ok(Box::new(dialled(&resolved(authority)?, time)?)),
            Self::Tls(authority, config) => {
                let stream = dialled(&resolved(authority)?, time)?;
                let host = authority.rsplit_once(':').map_or(&**authority, |(host, _)| host);
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let name = ServerName::try_from(host)?;
                let client = ClientConnection::new(Arc::clone(config), name)?;
                Ok(Box::new(StreamOwned::new(client, stream)))
            }
        }
    }
}

fn resolved(authority: &str) -> anyhow::Result<Vec<SocketAddr>> {
    let addresses: Vec<_> = authority.to_socket_addrs()?.collect();
    if addresses.is_empty() {
        return Err(anyhow!("the name has no address"));
    }
    Ok(addresses)
}

fn dialled(addresses: &[SocketAddr], time: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TIME) {
            Ok(stream) => {
                stream.set_read_timeout(Some(time))?;
                stream.set_write_timeout(Some(time))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// TLS as the flags say.
pub(super) fn tls(access: &AdminAccess) -> anyhow::Result<Arc<ClientConfig>> {
    let roots = match &access.admin_ca {
        Some(path) => chancery_tls::authorities(path)?,
        None => chancery_tls::system_authorities()?,
    };
    let builder = ClientConfig::builder_with_provider(chancery_tls::provider())
        .with_safe_default_protocol_versions()
        .context("TLS cannot be set up")?
        .with_root_certificates(roots);
    let config = match (&access.admin_cert, &access.admin_key) {
        (Some(cert), Some(key)) => {
            let identity = chancery_tls::identity(cert, key)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
        }
        _ => builder.with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// The time to connect.
const CONNECT_TIME: Duration = Duration::from_secs(5);
