//! The end of a connection that calls are sent by.

use http::uri::Scheme;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http2};
use tonic::body::Body;

/// Sends calls on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    inner: http2::SendRequest<Body>,
    scheme: Scheme,
}

impl Sender {
    pub(super) fn new(inner: http2::SendRequest<Body>, scheme: Scheme) -> Self {
        Self { inner, scheme }
    }

    /// Returns true if the connection takes no calls any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Returns the scheme of the calls on the connection.
    pub(crate) fn scheme(&self) -> Scheme {
        self.scheme.clone()
    }

    /// Sends a call. One that no server has seen comes back with the error.
    pub(crate) fn try_send_request(
        &mut self,
        request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>> + use<> {
        self.inner.try_send_request(request)
    }
}
