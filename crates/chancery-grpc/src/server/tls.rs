//! TLS of a server: its settings, and the handshake.
//!
//! Certificates are asked for at each handshake, so that each uses those of now (C-124). Sessions are not
//! resumed: a session would go on with certificates that are not accepted any more. Not here: where certificates
//! are from.

use std::sync::{Arc, LazyLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::server::TlsStream;

use super::notice::Notice;
use super::verifier::ClientVerifier;
use crate::certificates::{Provider, ProviderError};

/// The TLS of connections.
pub(super) struct ServerTls {
    /// The certificate that is shown to clients.
    identity: Provider,
    /// The authorities, one of which has signed the certificate of a client; none if none is asked for.
    trust: Option<Provider>,
    /// True if a client has to show a certificate.
    requires_certificate: bool,
    /// The log hears now and then that a provider has nothing.
    failing: Notice,
}

impl ServerTls {
    pub(super) fn new(
        identity: Provider,
        trust: Option<Provider>,
        requires_certificate: bool,
    ) -> Self {
        Self { identity, trust, requires_certificate, failing: Notice::default() }
    }

    /// Makes the handshake on a connection. It fails if a provider has nothing: no connection goes on with
    /// less than is asked for.
    pub(super) async fn accept(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>, String> {
        let config = self.config().await.inspect_err(|why| {
            if self.failing.is_due() {
                tracing::warn!("no connection can be secured: {why}");
            }
        })?;
        let accepting = TlsAcceptor::from(Arc::new(config)).accept(stream);
        let stream = accepting.await.map_err(|error| format!("TLS: {error}"))?;
        match stream.get_ref().1.alpn_protocol() {
            Some(HTTP_2) => Ok(stream),
            _ => Err("TLS: the client did not agree on HTTP/2 (ALPN `h2`)".to_owned()),
        }
    }

    async fn config(&self) -> Result<ServerConfig, String> {
        let identity = self.identity.identity().await;
        let identity = identity.map_err(|error| unavailable("certificate", &error))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&CRYPTO))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match &self.trust {
            None => builder.with_no_client_auth(),
            Some(provider) => {
                let trust = provider.trust().await;
                let trust = trust.map_err(|error| unavailable("authorities", &error))?;
                let verifier = ClientVerifier::new(trust, self.requires_certificate, &CRYPTO);
                builder.with_client_cert_verifier(Arc::new(verifier))
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(identity)));
        config.alpn_protocols = vec![HTTP_2.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}

fn unavailable(part: &str, error: &ProviderError) -> String {
    format!("TLS: the {part} cannot be had: {error}")
}

/// The cryptography of all handshakes.
static CRYPTO: LazyLock<Arc<CryptoProvider>> = LazyLock::new(chancery_tls::provider);
/// HTTP/2 in the list of protocols.
const HTTP_2: &[u8] = b"h2";
