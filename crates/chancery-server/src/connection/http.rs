//! HTTP of one connection, in either version.

use std::task::{Context, Poll};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite};

use super::executor::{Cork, StreamSet};
use super::first_bytes::HttpVersion;
use super::http1::Http1;
use super::http2::Http2;
use super::responder::Responder;
use super::stream::Http2Stream;

/// HTTP in the version that the client speaks.
pub(super) enum Http<I: AsyncRead + AsyncWrite + Unpin + 'static> {
    Http1(Box<Http1<I>>),
    Http2(Box<Http2<I>>),
}

/// The end of a connection, with the reason.
pub(super) type HttpResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl<I: AsyncRead + AsyncWrite + Unpin + Send + 'static> Http<I> {
    pub(super) async fn begin(
        version: HttpVersion,
        io: Cork<I>,
        responder: &Responder,
    ) -> Result<Self, h2::Error> {
        let config = &responder.services.shared.config;
        Ok(match version {
            HttpVersion::Http1 => {
                Self::Http1(Box::new(Http1::new(io, responder.clone(), &config.times)))
            }
            HttpVersion::Http2 => Self::Http2(Box::new(Http2::begin(io, &config.limits).await?)),
        })
    }

    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        responder: &Responder,
        streams: &mut StreamSet<Http2Stream>,
    ) -> Poll<HttpResult> {
        match self {
            Self::Http1(http) => http.poll(cx).map_err(Into::into),
            Self::Http2(http) => http.poll(cx, responder, streams).map_err(Into::into),
        }
    }

    pub(super) fn graceful_shutdown(&mut self) {
        match self {
            Self::Http1(http) => http.graceful_shutdown(),
            Self::Http2(http) => http.graceful_shutdown(),
        }
    }

    /// Sends a ping over HTTP/2. HTTP/1.1 has no ping, so its peers are never given up.
    pub(super) fn send_ping(&mut self) {
        if let Self::Http2(http) = self {
            http.send_ping();
        }
    }

    pub(super) fn take_pong(&mut self) -> bool {
        match self {
            Self::Http1(_) => false,
            Self::Http2(http) => http.take_pong(),
        }
    }

    pub(super) fn abrupt_shutdown(&mut self, reason: Reason) {
        if let Self::Http2(http) = self {
            http.abrupt_shutdown(reason);
        }
    }
}
