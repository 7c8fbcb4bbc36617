//! The body of any request, in either version of HTTP.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use crate::activity::ConnectionActivity;

/// The body of any request.
pub(crate) enum RequestBody {
    /// The body of a request over HTTP/1.1.
    Http1(Incoming),
    /// The body of a request over HTTP/2.
    Http2(Http2Body),
}

/// The body of a request over HTTP/2. The peer may send as many bytes again as soon as they are read.
pub(crate) struct Http2Body {
    stream: RecvStream,
    /// The number of bytes to come, if the client announced a length. h2 holds the client to it.
    announced: Option<u64>,
    activity: Arc<ConnectionActivity>,
}

/// The client left, or broke the rules of HTTP.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestBodyError {
    #[error(transparent)]
    Http1(#[from] hyper::Error),
    #[error(transparent)]
    Http2(#[from] h2::Error),
}

impl Http2Body {
    pub(crate) fn new(
        headers: &HeaderMap,
        stream: RecvStream,
        activity: &Arc<ConnectionActivity>,
    ) -> Self {
        let announced = headers.get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|it| it.to_str().ok()?.parse().ok());
        activity.unread.opened(stream.stream_id().as_u32());
        Self { stream, announced, activity: Arc::clone(activity) }
    }

    /// The number of the stream on its connection.
    fn number(&self) -> u32 {
        self.stream.stream_id().as_u32()
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        match ready!(self.stream.poll_data(cx)) {
            Some(Ok(bytes)) => {
                // This fails when the stream is gone; the next read says so.
                self.stream.flow_control().release_capacity(bytes.len()).ok();
                self.activity.unread.taken(self.number(), bytes.len());
                self.announced = self.announced.map(|all| all.saturating_sub(bytes.len() as u64));
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Some(Err(error)) => Poll::Ready(failed(error)),
            None => match ready!(self.stream.poll_trailers(cx)) {
                Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
                Err(error) => Poll::Ready(failed(error)),
            },
        }
    }
}

impl Drop for Http2Body {
    fn drop(&mut self) {
        self.activity.unread.closed(self.number());
    }
}

/// A client that resets a stream without an error has read enough, which is no error here.
fn failed(error: h2::Error) -> Option<Result<Frame<Bytes>, h2::Error>> {
    (error.reason() != Some(Reason::NO_ERROR)).then_some(Err(error))
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RequestBodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, RequestBodyError>>> {
        match self.get_mut() {
            Self::Http1(body) => Pin::new(body)
                .poll_frame(cx)
                .map(|frame| frame.map(|it| it.map_err(RequestBodyError::Http1))),
            Self::Http2(body) => {
                body.poll_frame(cx).map(|frame| frame.map(|it| it.map_err(RequestBodyError::Http2)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(body) => {
                body.announced.map_or_else(SizeHint::default, SizeHint::with_exact)
            }
        }
    }
}
