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

    /// Sends a call under the scheme of the connection. A call that no server has seen comes back with the error.
    pub(crate) fn try_send_request(
        &mut self,
        mut request: Request<Body>,
    ) -> impl Future<Output = Result<Response<Incoming>, TrySendError<Request<Body>>>> + use<> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        // A call without an authority is sent as it is: a scheme alone makes no URI.
        if parts.authority.is_some() {
            parts.scheme = Some(self.scheme.clone());
        }
        if let Ok(uri) = parts.try_into() {
            *request.uri_mut() = uri;
        }
        self.inner.try_send_request(request)
    }
}
