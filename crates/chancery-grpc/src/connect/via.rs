//! The way on which an endpoint is reached: a socket of TCP, one of Unix, or a proxy.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::read::quoted;

/// The way on which an endpoint is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Via {
    /// TCP to its address.
    #[default]
    Tcp,
    /// The proxy that the control plane names, which is asked for its address (C-128).
    Proxy(SocketAddr),
    /// The proxy that the environment names (gRFC A1).
    Environment(Arc<HttpProxy>),
    /// The socket of Unix at this path. An abstract one has a name that begins with a zero byte.
    Unix(PathBuf),
}

/// A proxy, and the server that it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct HttpProxy {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The value of `proxy-authorization`.
    pub(crate) authorization: Option<Secret>,
    /// The host and port of the server, if the proxy has to find its address.
    pub(crate) server: Option<String>,
}

/// A text that is not told.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Secret(pub(crate) String);

impl Via {
    /// Returns the name of an endpoint that has no address here.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Tcp | Self::Proxy(_) => None,
            Self::Environment(proxy) => {
                proxy.server.as_ref().map(|server| format!("{server} by way of {proxy}"))
            }
            Self::Unix(path) => {
                let text = path.to_string_lossy();
                Some(match text.strip_prefix('\0') {
                    Some(name) => format!("unix-abstract:{}", quoted(name)),
                    None => format!("unix:{}", quoted(&text)),
                })
            }
        }
    }
}

impl fmt::Display for HttpProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "proxy [{}]:{}", self.host, self.port),
            false => write!(f, "proxy {}:{}", self.host, self.port),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(a secret)")
    }
}
