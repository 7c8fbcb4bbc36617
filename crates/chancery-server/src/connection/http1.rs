//! HTTP/1.1 of one connection, served by hyper: for polls over REST, and for browsers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, Connection};
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::executor::Cork;
use super::responder::Responder;
use crate::body::ServerBody;
use crate::config::Times;
use crate::request_body::RequestBody;
use crate::service::{ResponseFuture, ServiceResponse};

/// The number of bytes of a head, and of a response, that HTTP/1.1 gathers: as many as a connection
/// is charged for, and as a head over HTTP/2 may have.
pub(crate) const HTTP1_BUFFER: usize = 16 * 1024;

/// HTTP/1.1 of one connection.
pub(super) struct Http1<I: AsyncRead + AsyncWrite + Unpin>(Connection<TokioIo<Cork<I>>, Responder>);

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Http1<I> {
    pub(super) fn new(io: Cork<I>, responder: Responder, times: &Times) -> Self {
        let mut builder = Builder::new();
        // The time counts from the end of the last request, so it holds for idle clients too.
        builder.timer(TokioTimer::new()).header_read_timeout(times.idle_timeout);
        builder.max_buf_size(HTTP1_BUFFER);
        Self(builder.serve_connection(TokioIo::new(io), responder))
    }

    /// Ready when the connection is over.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        Pin::new(&mut self.0).poll(cx)
    }

    pub(super) fn graceful_shutdown(&mut self) {
        Pin::new(&mut self.0).graceful_shutdown();
    }
}

impl Service<Request<Incoming>> for Responder {
    type Response = Response<ServerBody>;
    type Error = Infallible;
    type Future = Http1Response;

    fn call(&self, request: Request<Incoming>) -> Http1Response {
        let answer = self.services.answer(&self.context, request.map(RequestBody::Http1));
        Http1Response(match answer {
            ServiceResponse::Ready(response) => Box::pin(std::future::ready(response)),
            ServiceResponse::Pending(later) => later,
        })
    }
}

/// A response in the form that hyper takes.
pub(super) struct Http1Response(ResponseFuture);

impl Future for Http1Response {
    type Output = Result<Response<ServerBody>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}
