//! The reasons for which a connection has no TLS in common with its peer, for people and for metrics.
//!
//! Each says which side is at fault and what to do about it. A peer that leaves without a word, as a
//! balancer does that looks if the port is open, is no failure that anybody has to read. Not here: the
//! handshake (`acceptor`), and the bound on lines about it (`log_limiter`).

use std::fmt;
use std::io;

use tokio::time::Instant;
use tokio_rustls::rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use tracing::{debug, warn};

use crate::log_limiter::{LineOrigin, PeerLine};
use crate::policy::Peer;
use crate::server_state::ServerState;

/// The reason for which a handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeFailure {
    /// The client does not speak TLS.
    NoTls,
    /// The client speaks TLS, and this port does not.
    NoTlsHere,
    /// The client has to show a certificate and shows none.
    NoCertificate,
    /// The certificate of the client is not accepted.
    Certificate(&'static str),
    /// The client does not accept the certificate of the server.
    Refused(AlertDescription),
    /// Client and server have no version, cipher or protocol in common.
    Incompatible,
    /// The client left.
    Left,
    /// The handshake took too long.
    TooLong,
    /// Anything else.
    Other,
}

impl HandshakeFailure {
    /// The reason in an error.
    pub(crate) fn of(error: &io::Error) -> Self {
        let found = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        match found {
            None => Self::Left,
            Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Self::NoTls,
            Some(Error::NoCertificatesPresented) => Self::NoCertificate,
            Some(Error::InvalidCertificate(why)) => Self::Certificate(of_certificate(why)),
            Some(Error::AlertReceived(alert)) => Self::Refused(*alert),
            Some(Error::PeerIncompatible(_) | Error::NoApplicationProtocol) => Self::Incompatible,
            Some(_) => Self::Other,
        }
    }

    /// Counts the failure, and tells of it the first time that this peer fails so.
    pub(crate) fn report(self, shared: &ServerState, peer: &Peer) {
        shared.metrics.handshake_failed(self.name());
        let origin =
            LineOrigin { peer: peer.address, proven: false, node: "", of: self.name(), detail: "" };
        let line = PeerLine::HandshakeFailed;
        if self.is_news() && shared.log_limiter.admits(line, &origin, Instant::now()) {
            warn!(%peer, "no TLS with a client: {self}");
        } else {
            debug!(%peer, "no TLS with a client: {self}");
        }
    }

    /// The name of the reason, for metrics.
    fn name(self) -> &'static str {
        match self {
            Self::NoTls => "no-tls",
            Self::NoTlsHere => "tls-to-a-port-without",
            Self::NoCertificate => "no-certificate",
            Self::Certificate(_) => "certificate",
            Self::Refused(_) => "refused-by-client",
            Self::Incompatible => "incompatible",
            Self::Left => "left",
            Self::TooLong => "too-long",
            Self::Other => "other",
        }
    }

    /// Returns true if somebody has to do something about it.
    fn is_news(self) -> bool {
        !matches!(self, Self::Left | Self::TooLong)
    }
}

fn of_certificate(why: &CertificateError) -> &'static str {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet"
        }
        CertificateError::Revoked => "is revoked",
        // The latter is of another authority with the same name.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "is of none of the authorities in `--tls-client-ca`"
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is not one for clients (extended key usage)"
        }
        CertificateError::BadEncoding => "cannot be read",
        _ => "is not accepted",
    }
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTls => f.write_str(
                "the client does not speak TLS, and this port speaks nothing else: give the client TLS, in Envoy a \
                 `transport_socket` on the cluster of the management server, in gRPC `channel_creds` of type `tls`",
            ),
            Self::NoTlsHere => f.write_str(
                "the client speaks TLS, and this port has no certificate: start the server with `--tls-cert` and \
                 `--tls-key`, or take TLS out of the bootstrap of the client",
            ),
            Self::NoCertificate => {
                f.write_str("the client shows no certificate, which `--tls-client-ca` asks for")
            }
            Self::Certificate(why) => write!(f, "the certificate of the client {why}"),
            Self::Refused(alert) => write!(
                f,
                "the client refuses the certificate of this server ({alert:?}): look at its authorities and the \
                 name that it expects"
            ),
            Self::Incompatible => {
                f.write_str("client and server have no version, cipher or protocol of TLS in common")
            }
            Self::Left => f.write_str("the client left"),
            Self::TooLong => f.write_str("it took too long"),
            Self::Other => f.write_str("the client breaks the rules of TLS"),
        }
    }
}
