//! The metrics of one call that has arrived at a server (gRFC A66).

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;
use tonic::Code;

use super::call::name_of;
use super::names::{METHOD, SERVER_DURATION, SERVER_RECEIVED, SERVER_SENT, SERVER_STARTED, STATUS};
use super::sizes::{CountedBody, SizeCounter, Sizes};
use super::{MetricsRecorder, recorder};

/// Measures a call that has arrived. It is there only if somebody has asked for metrics.
#[derive(Debug)]
pub(crate) struct ServerMeter {
    recorder: &'static dyn MetricsRecorder,
    method: String,
    began: Instant,
    sizes: Arc<Sizes>,
    /// The code that it has ended with; a call that is dropped is cancelled.
    code: Code,
}

/// The body of an answer, which is measured until it ends.
pub(crate) struct MeasuredAnswer<B> {
    inner: CountedBody<B>,
    /// `None` once the call has ended.
    meter: Option<ServerMeter>,
}

impl ServerMeter {
    /// A call has arrived. Paths that the program has not named are one method, because clients choose them.
    pub(crate) fn begin(path: &str, methods: &BTreeSet<String>) -> Option<Self> {
        let recorder = recorder()?;
        let path = path.strip_prefix('/').unwrap_or(path);
        let method = if methods.contains(path) { path } else { "other" };
        recorder.add(&SERVER_STARTED, 1, &[(METHOD, method)]);
        Some(Self {
            recorder,
            method: method.to_owned(),
            began: Instant::now(),
            sizes: Arc::default(),
            code: Code::Cancelled,
        })
    }

    /// Counts the messages of the request.
    pub(crate) fn request<B>(&self, body: B) -> CountedBody<B> {
        CountedBody::new(body, SizeCounter::of_received(&self.sizes))
    }

    /// Measures the answer until it ends.
    pub(crate) fn answer<B: Body<Data = Bytes> + Unpin>(
        self,
        response: Response<B>,
    ) -> Response<MeasuredAnswer<B>> {
        let (head, body) = response.into_parts();
        let counter = SizeCounter::of_sent(&self.sizes);
        let mut body = MeasuredAnswer { inner: CountedBody::new(body, counter), meter: Some(self) };
        body.hear(&head.headers);
        body.end_without_status();
        Response::from_parts(head, body)
    }

    fn ended(mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for ServerMeter {
    fn drop(&mut self) {
        let Self { recorder, method, began, sizes, code } = self;
        let labels = [(METHOD, method.as_str()), (STATUS, name_of(*code))];
        recorder.observe(&SERVER_DURATION, began.elapsed().as_secs_f64(), &labels);
        sizes.observe(*recorder, [&SERVER_SENT, &SERVER_RECEIVED], &labels);
    }
}

impl<B> MeasuredAnswer<B> {
    /// The call ends with these headers or trailers, if they have a status.
    fn hear(&mut self, headers: &HeaderMap) {
        if let Some(status) = headers.get("grpc-status")
            && let Some(meter) = self.meter.take()
        {
            meter.ended(Code::from_bytes(status.as_bytes()));
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> MeasuredAnswer<B> {
    /// An answer that ends without a status is none of gRPC. Nobody asks it for more.
    fn end_without_status(&mut self) {
        if self.inner.is_end_stream()
            && let Some(meter) = self.meter.take()
        {
            meter.ended(Code::Unknown);
        }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for MeasuredAnswer<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.hear(trailers);
                }
                self.end_without_status();
            }
            // The program has broken the stream, or ends it without a status.
            Poll::Ready(Some(Err(_)) | None) => {
                if let Some(meter) = self.meter.take() {
                    meter.ended(Code::Unknown);
                }
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
