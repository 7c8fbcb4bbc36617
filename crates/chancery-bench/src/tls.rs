//! TLS of the clients.
//!
//! The server's certificate is verified, and this cannot be switched off: a load test that accepts
//! any certificate hides that real clients would not.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::address::Server;
use super::error::Error;
use super::options::TlsFiles;

/// The TLS of all connections.
#[derive(Clone)]
pub(crate) struct TlsClient {
    pub(crate) connector: TlsConnector,
    /// The name that the certificate of the server has to bear.
    pub(crate) name: ServerName<'static>,
}

impl TlsClient {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be used, or the server's name is no valid name.
    pub(crate) fn new(files: &TlsFiles, server: &Server) -> Result<Self, Error> {
        let ca = &files.ca;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| {
                unusable(&format!("`{}` is no authority", ca.display()), &error)
            })?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable("TLS cannot be used", &error))?
            .with_root_certificates(roots);
        let mut config = match &files.identity {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let read = PrivateKeyDer::from_pem_file(key);
                let secret = read.map_err(|error| {
                    unusable(&format!("cannot read `{}`", key.display()), &error)
                })?;
                let used = builder.with_client_auth_cert(certificates(cert)?, secret);
                used.map_err(|error| unusable(&format!("cannot use `{}`", cert.display()), &error))?
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let text = files.server_name.clone().unwrap_or_else(|| host(server).to_owned());
        let name = ServerName::try_from(text.clone());
        let name = name.map_err(|_| Error::Tls(format!("`{text}` is no name of a server")))?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }
}

impl std::fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found =
        read.map_err(|error| unusable(&format!("cannot read `{}`", path.display()), &error))?;
    if found.is_empty() {
        return Err(Error::Tls(format!("`{}` holds no certificate", path.display())));
    }
    Ok(found)
}

fn unusable(what: &str, error: &dyn Display) -> Error {
    Error::Tls(format!("{what}: {error}"))
}

/// The name in an address, without the port and without the brackets of IPv6.
fn host(server: &Server) -> &str {
    let address = server.authority();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_server_is_its_host() {
        for (address, name) in
            [("xds.example:1", "xds.example"), ("[::1]:1", "::1"), ("unix:/a:1/b", "localhost")]
        {
            assert_eq!(host(&address.parse().unwrap()), name);
        }
    }
}
