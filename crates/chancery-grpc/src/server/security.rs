//! The security of the connections of a server: what the program chose, and what the control plane says of each
//! filter chain if the program leaves it to that (gRFC A29).

use std::sync::Arc;

use chancery_client::Bootstrap;

use super::builder::ServerError;
use super::tls::ServerTls;
use crate::certificates::{Certificates, Provider};
use crate::channel::credentials::{Credentials, Ordinary};
use crate::read::downstream::DownstreamTls;

/// The part that is the same for all filter chains of a server.
pub(super) struct ServerSecurity {
    ordinary: Security,
    is_xds: bool,
    certificates: Certificates,
}

/// The security of a connection.
#[derive(Clone)]
pub(super) enum Security {
    Plain,
    Tls(Arc<ServerTls>),
}

impl ServerSecurity {
    /// With what the program chose, and the providers of a bootstrap.
    pub(super) fn new(
        credentials: &Credentials,
        bootstrap: &Bootstrap,
    ) -> Result<Self, ServerError> {
        let ordinary = match &credentials.ordinary {
            Ordinary::Insecure => Security::Plain,
            Ordinary::Tls(files) if files.identity.is_none() => {
                return Err(ServerError::NoCertificate);
            }
            Ordinary::Tls(files) => {
                let provider = Provider::of_client(files);
                let trust = files.ca.is_some().then(|| provider.clone());
                let requires_certificate = trust.is_some();
                Security::Tls(Arc::new(ServerTls::new(provider, trust, requires_certificate)))
            }
        };
        let certificates = Certificates::new(bootstrap);
        Ok(Self { ordinary, is_xds: credentials.is_xds, certificates })
    }

    /// Returns the security of the connections to a filter chain.
    pub(super) fn of(&self, tls: Option<&DownstreamTls>) -> Security {
        let Some(tls) = tls.filter(|_| self.is_xds) else { return self.ordinary.clone() };
        let identity = self.certificates.provider(&tls.identity.instance);
        let roots = tls.roots.as_ref();
        let trust = roots.map(|roots| self.certificates.provider(&roots.instance));
        Security::Tls(Arc::new(ServerTls::new(identity, trust, tls.requires_certificate)))
    }
}
