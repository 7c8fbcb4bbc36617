//! The body of any request, of whichever version of HTTP.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::{HeaderMap, header};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

/// The body of any request.
pub(crate) enum RequestBody {
    /// Of HTTP/1.1.
    One(Incoming),
    /// Of HTTP/2.
    Two(Pieces),
}

/// The body of a request over HTTP/2. What was read is room for more at once.
pub(crate) struct Pieces {
    stream: RecvStream,
    /// How many bytes are to come, if the client said it. That it keeps its word is seen to by h2.
    announced: Option<u64>,
}

/// The client went away, or broke the rules of HTTP.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error(transparent)]
    One(#[from] hyper::Error),
    #[error(transparent)]
    Two(#[from] h2::Error),
}

impl Pieces {
    pub(crate) fn new(headers: &HeaderMap, stream: RecvStream) -> Self {
        let announced = headers.get(header::CONTENT_LENGTH);
        let announced = announced.and_then(|it| it.to_str().ok()?.parse().ok());
        Self { stream, announced }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        match ready!(self.stream.poll_data(cx)) {
            Some(Ok(bytes)) => {
                // It fails when the stream is gone, which the next read says.
                self.stream.flow_control().release_capacity(bytes.len()).ok();
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

/// A client that resets a stream without an error has only heard enough.
fn failed(error: h2::Error) -> Option<Result<Frame<Bytes>, h2::Error>> {
    (error.reason() != Some(Reason::NO_ERROR)).then_some(Err(error))
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        match self.get_mut() {
            Self::One(body) => {
                Pin::new(body).poll_frame(cx).map(|frame| frame.map(|it| it.map_err(Broken::One)))
            }
            Self::Two(body) => {
                body.poll_frame(cx).map(|frame| frame.map(|it| it.map_err(Broken::Two)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::One(body) => body.is_end_stream(),
            Self::Two(body) => body.stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::One(body) => body.size_hint(),
            Self::Two(body) => body.announced.map_or_else(SizeHint::default, SizeHint::with_exact),
        }
    }
}
