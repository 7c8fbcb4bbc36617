//! The credentials of one server while a client runs.
//!
//! The plain data of a bootstrap become a TLS configuration for each connection and headers for
//! each stream. Call credentials never go over an insecure connection. Not here: the plain data
//! (`credentials`), the files (`tls`, `token`), and the plugins of a program (`plugin`).

use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tokio_rustls::rustls::ClientConfig;

use super::plugin::{CallPlugin, ChannelPlugin, PluginCredentials, PluginFuture};
use super::tls::ReloadingTls;
use super::token::TokenFile;
use super::{CallCredentials, ChannelCredentials, CredentialsError};

/// The credentials of one server, kept for as long as the server is used. Making them reads no
/// file: a client may start before its files exist.
#[derive(Debug)]
pub struct Credentials {
    server: String,
    channel: LiveChannel,
    calls: Vec<LiveCall>,
    alpn: Alpn,
}

/// The protocols that are offered over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// HTTP/2 alone, for gRPC.
    Http2,
    /// HTTP/1.1 alone, for REST.
    Http1,
    /// HTTP/2 or HTTP/1.1.
    Any,
}

#[derive(Debug)]
enum LiveChannel {
    Insecure,
    Tls(ReloadingTls),
    Plugin(PluginCredentials<dyn ChannelPlugin>),
}

#[derive(Debug)]
enum LiveCall {
    Token(TokenFile),
    Plugin(PluginCredentials<dyn CallPlugin>),
}

impl Credentials {
    /// Makes the credentials of a server.
    pub(crate) fn new(
        server: &str,
        channel: &ChannelCredentials,
        calls: &[CallCredentials],
        alpn: Alpn,
    ) -> Self {
        let call = |call: &CallCredentials| match call {
            CallCredentials::JwtTokenFile(path) => LiveCall::Token(TokenFile::new(path.clone())),
            CallCredentials::Plugin(plugged) => LiveCall::Plugin(plugged.clone()),
        };
        Self {
            server: server.to_owned(),
            channel: match channel {
                ChannelCredentials::Insecure => LiveChannel::Insecure,
                ChannelCredentials::Tls(files) => {
                    LiveChannel::Tls(ReloadingTls::new(files.clone()))
                }
                ChannelCredentials::Plugin(plugged) => LiveChannel::Plugin(plugged.clone()),
            },
            calls: calls.iter().map(call).collect(),
            alpn,
        }
    }

    /// Returns the TLS configuration of the next connection; `None` means that it is not encrypted.
    /// Call it before each connection, because files may have been replaced (C-008).
    ///
    /// # Errors
    /// If neither the files as they are now nor those that were read before can be used.
    pub async fn tls(&self) -> Result<Option<Arc<ClientConfig>>, CredentialsError> {
        let config = match &self.channel {
            LiveChannel::Insecure => return Ok(None),
            LiveChannel::Tls(tls) => tls.config().await.map_err(Arc::new)?,
            LiveChannel::Plugin(plugged) => named(plugged.kind(), plugged.plugin().tls()).await?,
        };
        // The clone is cheap: its large parts and its sessions are shared.
        let mut config = ClientConfig::clone(&config);
        config.alpn_protocols = self.alpn.protocols();
        Ok(Some(Arc::new(config)))
    }

    /// Returns the headers of the next stream. Call it before each stream, because tokens expire.
    ///
    /// `now` is the time of day, because tokens expire by it.
    ///
    /// # Errors
    /// If there is no token, or if it would go over an insecure connection.
    pub async fn metadata(&self, now: SystemTime) -> Result<HeaderMap, CredentialsError> {
        let mut headers = match &self.channel {
            LiveChannel::Insecure if !self.calls.is_empty() => {
                return Err(CredentialsError::Insecure { server: self.server.clone() });
            }
            LiveChannel::Insecure | LiveChannel::Tls(_) => HeaderMap::new(),
            LiveChannel::Plugin(plugged) => {
                named(plugged.kind(), plugged.plugin().metadata(now)).await?
            }
        };
        for call in &self.calls {
            match call {
                LiveCall::Token(file) => {
                    headers.append(AUTHORIZATION, file.header(now).await?);
                }
                LiveCall::Plugin(plugged) => {
                    let more = named(plugged.kind(), plugged.plugin().metadata(now)).await?;
                    more.iter().for_each(|(name, value)| {
                        headers.append(name, value.clone());
                    });
                }
            }
        }
        headers.values_mut().for_each(|value| value.set_sensitive(true));
        Ok(headers)
    }
}

impl Alpn {
    fn protocols(self) -> Vec<Vec<u8>> {
        let protocols: &[&[u8]] = match self {
            Self::Http2 => &[b"h2"],
            Self::Http1 => &[b"http/1.1"],
            Self::Any => &[b"h2", b"http/1.1"],
        };
        protocols.iter().map(|protocol| protocol.to_vec()).collect()
    }
}

/// Returns the error of a plugin with the name of the plugin.
async fn named<T>(kind: &str, pending: PluginFuture<'_, T>) -> Result<T, CredentialsError> {
    let error = |source| CredentialsError::Plugin { kind: kind.to_owned(), source };
    pending.await.map_err(|source| error(Arc::from(source)))
}
