//! The end of a connection that calls are sent by.

use http::uri::{Authority, Scheme};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use tonic::body::Body;

use super::tls::PeerCertificate;

/// Sends calls on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    inner: http2::SendRequest<Body>,
    scheme: Scheme,
    /// The certificate of the server, if it has to be for the authority of each call.
    certificate: Option<PeerCertificate>,
}

impl Sender {
    pub(super) fn new(
        inner: http2::SendRequest<Body>,
        scheme: Scheme,
        certificate: Option<PeerCertificate>,
    ) -> Self {
        Self { inner, scheme, certificate }
    }

    /// Returns the end of a connection that a test has made, in the clear.
    #[cfg(test)]
    pub(crate) fn of_test(inner: http2::SendRequest<Body>) -> Self {
        Self::new(inner, Scheme::HTTP, None)
    }

    /// Returns true if the connection takes no calls any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Returns the scheme of the calls on the connection.
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme.clone()
    }

    /// Returns true if a call with this authority may be sent, which is another one than that of the channel
    /// (C-127). That of the channel was checked in the handshake.
    pub(crate) fn is_for(&self, authority: &Authority) -> bool {
        self.certificate.as_ref().is_none_or(|certificate| certificate.is_for(authority))
    }

    /// Sends a call. One that no server has seen comes back with the error.
    pub(crate) fn try_send_request(
        &mut self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>> + use<> {
        self.inner.try_send_request(request)
    }
}
