//! The binding of addresses: the server starts only if every address can be bound.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use chancery_server::{Listener, Tls, TlsFiles};
use chancery_tls::TlsError;
use tracing::{info, warn};

use crate::config::{self, AdminAddress, Config, ListenAddress};
use crate::exit::Failure;

/// The listeners of discovery, and the certificates they use.
pub(crate) struct Listeners {
    /// The listeners, one for each address.
    pub(crate) all: Vec<Listener>,
    /// The certificates, if TLS is configured.
    pub(crate) tls: Option<Arc<Tls>>,
}

/// Binds every address of gRPC and REST.
pub(crate) async fn bind(config: &Config) -> Result<Listeners, Failure> {
    if config.listen.is_empty() {
        return Err(Failure::negative(anyhow!("`listen` is empty: there is nowhere to serve")));
    }
    let tls = match &config.tls {
        Some(tls) => Some(certificates(tls.clone()).await?),
        None => None,
    };
    let mut all = Vec::new();
    for listen in &config.listen {
        let bound = match listen {
            ListenAddress::Tcp(address) => Listener::tcp(*address).await,
            ListenAddress::Unix(path) => Listener::unix_with_mode(path, config.unix_mode.0),
        };
        let bound = bound.map_err(|error| refused(error, &listen.to_string(), "--listen"))?;
        let secure = matches!(listen, ListenAddress::Tcp(_)).then(|| tls.clone()).flatten();
        all.push(match secure {
            Some(tls) => bound.with_tls(tls),
            None => bound,
        });
    }
    warn_of_strangers(config);
    Ok(Listeners { all, tls })
}

/// Says, once, which doors are open to everybody.
fn warn_of_strangers(config: &Config) {
    for listen in &config.listen {
        if let ListenAddress::Tcp(address) = listen
            && config.tls.is_none()
            && !address.ip().to_canonical().is_loopback()
        {
            warn!(
                "{address} is beyond loopback and without TLS: anybody on the way can read and \
                 change what clients are sent; set `tls`"
            );
        }
    }
    if config.secrets_anywhere {
        warn!("`secrets-anywhere` is set: secrets are sent to any client, known or not");
    }
}

/// Binds the address of the admin interface, unless it is `off`.
pub(crate) fn bind_admin(config: &Config) -> Result<Option<TcpListener>, Failure> {
    let AdminAddress::On(address) = config.admin else { return Ok(None) };
    let bound = TcpListener::bind(address);
    let listener = bound.map_err(|error| refused(error, &address.to_string(), "--admin"))?;
    if let Ok(address) = listener.local_addr() {
        info!("admin interface on {address}");
        if !address.ip().is_loopback() {
            warn!("the admin interface is not on loopback: its probes and metrics have no login");
        }
        if config.admin_tokens.is_some() && config.admin_tls.is_none() {
            warn!(
                "`admin-tokens` without `admin-tls`: tokens are taken from proxies on this machine alone"
            );
        }
    }
    Ok(Some(listener))
}

/// The failure for certificates of the admin interface that cannot be used.
pub(crate) fn no_admin_tls(error: TlsError) -> Failure {
    Failure::from(anyhow::Error::from(error).context("cannot serve TLS on the admin interface"))
}

/// Reads the certificates, on a thread of its own because that may block.
async fn certificates(tls: config::TlsTable) -> Result<Arc<Tls>, Failure> {
    let config::TlsTable { cert, key, client_ca, client_crl } = tls;
    if client_ca.is_none() && !client_crl.is_empty() {
        let needs =
            "`tls.client-crl` needs `tls.client-ca`: without it, clients show no certificate";
        return Err(Failure::negative(anyhow!(needs)));
    }
    let files = TlsFiles { cert, key, client_ca, client_crl };
    let loading = tokio::task::spawn_blocking(|| Tls::load(files));
    let loaded = loading.await.context("the certificates were not read")?;
    Ok(loaded.context("cannot serve TLS")?)
}

/// The failure for an address that cannot be bound, with a hint if one is known.
fn refused(error: io::Error, address: &str, flag: &str) -> Failure {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            Some(format!("another process listens there; `{flag}` takes another address"))
        }
        io::ErrorKind::AddrNotAvailable => {
            Some(format!("this machine has no such address; `{flag}` takes another one"))
        }
        _ => None,
    };
    let error = anyhow::Error::from(error).context(format!("cannot listen on `{address}`"));
    let failure = Failure::broken(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
