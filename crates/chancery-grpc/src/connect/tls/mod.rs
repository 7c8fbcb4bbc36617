//! TLS to an endpoint: its settings, and the handshake (C-121, C-123, C-126).
//!
//! Certificates are asked for at each handshake, so that each uses those of now. Sessions are not resumed:
//! a session would go on with a certificate that is not used any more. Not here: where certificates are from.

mod names;
mod peer;
mod verifier;

use std::io;
use std::sync::{Arc, LazyLock};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::sign::SingleCertAndKey;
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, OtherError};

pub(crate) use self::names::PeerNames;
pub(super) use self::peer::PeerCertificate;
use self::verifier::Verifier;
use crate::certificates::{Provider, ProviderError};
use crate::read::quoted;

/// The TLS of connections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tls {
    /// The authorities, one of which has signed the certificate of the peer.
    pub(crate) trust: Provider,
    /// The certificate that is shown to the peer, if it asks for one.
    pub(crate) identity: Option<Provider>,
    /// The names for which the certificate of the peer has to be.
    pub(crate) names: PeerNames,
    /// The name that is asked for (SNI). It is not sent if it is an IP address.
    pub(crate) server_name: Option<Arc<str>>,
}

/// The next handshake, with the certificates that it uses.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    server_name: ServerName<'static>,
    /// True if the certificate of the peer has to be for the host, and so for the authority of each call.
    is_by_host: bool,
}

impl Tls {
    /// Prepares a handshake. It fails if a provider has nothing: no connection is made then, and none goes
    /// on without a certificate (C-121).
    pub(super) async fn prepare(&self) -> Result<Handshake, String> {
        let server_name = self.server_name.as_deref().map(server_name).transpose()?;
        let trust = self.trust.trust().await.map_err(|error| unavailable("authorities", &error))?;
        let identity = match &self.identity {
            Some(provider) => {
                let identity = provider.identity().await;
                Some(identity.map_err(|error| unavailable("certificate", &error))?)
            }
            None => None,
        };
        let verifier = Verifier::new(trust, self.names.clone(), &CRYPTO);
        let builder = ClientConfig::builder_with_provider(Arc::clone(&CRYPTO))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match identity {
            Some(identity) => {
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity)))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![HTTP_2.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = server_name.is_some();
        // Without a name none is sent and none is compared; the library wants one all the same.
        let server_name = server_name.unwrap_or_else(|| ServerName::from(UNNAMED));
        let is_by_host = matches!(self.names, PeerNames::Host(_));
        Ok(Handshake { config: Arc::new(config), server_name, is_by_host })
    }
}

impl Handshake {
    /// Makes the handshake on a connection. The peer has to agree on HTTP/2. If its certificate has to be for the
    /// authority of calls, it is returned too.
    pub(super) async fn make<T>(
        self,
        io: T,
    ) -> Result<(TlsStream<T>, Option<PeerCertificate>), String>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let connecting = TlsConnector::from(self.config).connect(self.server_name, io);
        let stream = connecting.await.map_err(|error| format!("TLS: {}", reason(&error)))?;
        let session = stream.get_ref().1;
        if session.alpn_protocol() != Some(HTTP_2) {
            return Err("TLS: the server did not agree on HTTP/2 (ALPN `h2`)".to_owned());
        }
        if !self.is_by_host {
            return Ok((stream, None));
        }
        let shown = session.peer_certificates().and_then(|chain| chain.first());
        let shown = shown.ok_or("TLS: the server has shown no certificate")?;
        let certificate = PeerCertificate::new(shown);
        Ok((stream, Some(certificate)))
    }
}

/// Returns the reason why a handshake failed. The library shows those of this project as a programmer would.
fn reason(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<Error>());
    match cause {
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(reason)))) => {
            reason.to_string()
        }
        _ => error.to_string(),
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, String> {
    let read = ServerName::try_from(name.to_owned());
    read.map_err(|_| format!("TLS: `{}` is no name of a server", quoted(name)))
}

fn unavailable(part: &str, error: &ProviderError) -> String {
    format!("TLS: the {part} cannot be had: {error}")
}

/// The cryptography of all handshakes.
static CRYPTO: LazyLock<Arc<CryptoProvider>> = LazyLock::new(chancery_tls::provider);
/// HTTP/2 in the list of protocols.
const HTTP_2: &[u8] = b"h2";
const UNNAMED: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
