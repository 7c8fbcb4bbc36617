//! One call, of any method, with bytes as messages. Not here: how many calls there are (`many`).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chancery_grpc::{CallPlace, Channel, ResponseBody, WaitForReady};
use http::uri::PathAndQuery;
use http::{HeaderMap, Response};
use tokio::time::{Instant, timeout};
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::{Service, tokio_stream};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};

use super::codec::BytesCodec;
use super::data::Input;

/// The settings of calls.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    pub(super) channel: Channel,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
    pub(super) wait_for_ready: bool,
    /// The bytes of a message of an answer.
    pub(super) max_size: usize,
}

/// The end of a call.
#[derive(Clone, Debug)]
pub(super) struct CallReport {
    /// The place that it was sent to, if a server has answered.
    pub(super) place: Option<CallPlace>,
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) took: Duration,
    pub(super) headers: HeaderMap,
    pub(super) trailers: HeaderMap,
}

/// Takes the messages of an answer. It returns false if no more are wanted.
pub(super) trait Sink {
    async fn take(&mut self, message: Bytes) -> bool;
}

/// A channel that notes where a call went.
struct Noting {
    channel: Channel,
    place: Arc<Mutex<Option<CallPlace>>>,
}

impl Caller {
    /// Makes a call. All kinds of methods are streams on the wire.
    pub(super) async fn call(
        &self,
        path: &PathAndQuery,
        input: Input,
        sink: &mut impl Sink,
    ) -> CallReport {
        let began = Instant::now();
        let place = Arc::<Mutex<Option<CallPlace>>>::default();
        let channel = Noting { channel: self.channel.clone(), place: Arc::clone(&place) };
        let mut answer = Answer::default();
        let made = self.make(channel, path.clone(), input, sink, &mut answer);
        // The channel ends calls at their deadline; this is for a body that is not polled any more.
        let late = || Err(Status::deadline_exceeded(LATE));
        let ended = timeout(self.timeout.saturating_add(GRACE), made).await;
        let status = ended.unwrap_or_else(|_| late()).err().unwrap_or_else(|| Status::ok(""));
        let place = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if answer.trailers.is_empty() {
            answer.trailers = status.metadata().clone().into_headers();
        }
        CallReport {
            place,
            code: status.code(),
            message: status.message().to_owned(),
            took: began.elapsed(),
            headers: answer.headers,
            trailers: answer.trailers,
        }
    }

    async fn make(
        &self,
        channel: Noting,
        path: PathAndQuery,
        input: Input,
        sink: &mut impl Sink,
        answer: &mut Answer,
    ) -> Result<(), Status> {
        let messages: Pin<Box<dyn tokio_stream::Stream<Item = Bytes> + Send>> = match input {
            Input::Fixed(messages) => Box::pin(tokio_stream::iter(messages)),
            Input::Live(messages) => Box::pin(ReceiverStream::new(messages)),
        };
        let mut request = Request::new(messages);
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.clone());
        request.set_timeout(self.timeout);
        if self.wait_for_ready {
            request.extensions_mut().insert(WaitForReady);
        }
        let mut client = tonic::client::Grpc::new(channel).max_decoding_message_size(self.max_size);
        client.ready().await?;
        let response = client.streaming(request, path, BytesCodec).await?;
        answer.headers = response.metadata().clone().into_headers();
        let mut stream = response.into_inner();
        while let Some(message) = stream.message().await? {
            if !sink.take(message).await {
                return Err(Status::cancelled("nobody reads the answer any more"));
            }
        }
        if let Some(trailers) = stream.trailers().await? {
            answer.trailers = trailers.into_headers();
        }
        Ok(())
    }
}

/// The metadata of an answer.
#[derive(Default)]
struct Answer {
    headers: HeaderMap,
    trailers: HeaderMap,
}

impl Service<http::Request<tonic::body::Body>> for Noting {
    type Response = Response<ResponseBody>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Service::<http::Request<tonic::body::Body>>::poll_ready(&mut self.channel, cx)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let (response, place) = (self.channel.call(request), Arc::clone(&self.place));
        Box::pin(async move {
            let response = response.await?;
            *place.lock().unwrap_or_else(PoisonError::into_inner) =
                response.extensions().get::<CallPlace>().cloned();
            Ok(response)
        })
    }
}

/// The message of a call whose body was not polled.
const LATE: &str =
    "the deadline of the call is over; it waited for somebody to read what was answered";
/// The time beyond the deadline after which an answer is not waited for.
pub(super) const GRACE: Duration = Duration::from_secs(1);
