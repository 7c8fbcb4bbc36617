//! The call that a server asks about: its headers, its connection, its peer.

use std::borrow::Cow;
use std::net::SocketAddr;

use http::HeaderMap;

use crate::matching::HeaderKey;

/// A call that has arrived.
#[derive(Clone, Copy, Debug)]
pub struct ArrivedCall<'a> {
    /// `:method`, which is POST.
    pub method: &'a str,
    /// `:authority`, or `host` if there was none.
    pub authority: &'a str,
    /// `:path`, as `/orders.v1.Orders/Get`.
    pub path: &'a str,
    /// The metadata, as it arrived.
    pub headers: &'a HeaderMap,
    /// The server's end of the connection.
    pub local: SocketAddr,
    /// The peer's end of the connection.
    pub peer: SocketAddr,
    /// The proof of who the peer is.
    pub identity: PeerIdentity<'a>,
}

/// The proof of who a peer is.
#[derive(Clone, Copy, Debug)]
pub enum PeerIdentity<'a> {
    /// The connection is not TLS.
    Plain,
    /// The connection is TLS, with a certificate of the peer if it has sent one.
    Tls(Option<PeerCertificate<'a>>),
}

/// The names in the certificate of a peer.
#[derive(Clone, Copy, Debug)]
pub struct PeerCertificate<'a> {
    /// The alternative names that are URIs.
    pub uris: &'a [String],
    /// The alternative names that are of DNS.
    pub dns_names: &'a [String],
    /// The distinguished name of the subject, as RFC 2253 writes it.
    pub subject: &'a str,
}

/// Headers that are about a connection and not about a call (RFC 7230, 6.1).
const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

impl ArrivedCall<'_> {
    /// The value of a header, several joined by commas. The content type is that of the client, and binary
    /// headers are as they are on the wire; headers of the connection count as absent.
    pub(super) fn header(&self, key: &HeaderKey) -> Option<Cow<'_, [u8]>> {
        let pseudo = match key.as_str() {
            ":method" => self.method,
            ":authority" => self.authority,
            ":path" => self.path,
            name if HOP_BY_HOP.contains(&name) => return None,
            _ => return key.received_value(self.headers),
        };
        Some(Cow::Borrowed(pseudo.as_bytes()))
    }
}
