//! gRPC's test service for the server of `chancery-grpc`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::server::{Grpc, StreamingService, UnaryService};
use tonic::{Code, Status, Streaming};

use super::messages::{
    ECHO_INITIAL, ECHO_TRAILING, EchoStatus, InputRequest, InputResponse, OutputRequest, Payload,
    SimpleRequest, WithPayload, decode, encode,
};
use crate::mesh::codec::BytesCodec;

/// The test service.
#[derive(Clone, Copy)]
pub(super) struct TestService;

type Answering<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

impl Service<Request<Body>> for TestService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            let echoed = request.headers().get(ECHO_TRAILING).cloned();
            let mut grpc = Grpc::new(BytesCodec);
            let response = match request.uri().path() {
                "/grpc.testing.TestService/EmptyCall" => grpc.unary(EmptyCall, request).await,
                "/grpc.testing.TestService/UnaryCall" => grpc.unary(UnaryCall, request).await,
                "/grpc.testing.TestService/StreamingInputCall" => {
                    grpc.client_streaming(InputCall, request).await
                }
                "/grpc.testing.TestService/StreamingOutputCall"
                | "/grpc.testing.TestService/FullDuplexCall" => {
                    grpc.streaming(OutputCall, request).await
                }
                _ => Status::unimplemented("the test service has no such method").into_http(),
            };
            Ok(response.map(|body| match echoed {
                Some(value) => with_trailer(body, [(ECHO_TRAILING, value)]),
                None => body,
            }))
        })
    }
}

/// Adds trailers to those of a response that has some.
fn with_trailer<const N: usize>(body: Body, added: [(&'static str, http::HeaderValue); N]) -> Body {
    Body::new(body.map_frame(move |frame| match frame.into_trailers() {
        Ok(mut trailers) => {
            let added = added.clone().into_iter();
            let added = added.map(|(name, value)| (http::HeaderName::from_static(name), value));
            trailers.extend(added.collect::<HeaderMap>());
            hyper::body::Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }))
}

struct EmptyCall;

impl UnaryService<Bytes> for EmptyCall {
    type Response = Bytes;
    type Future = Answering<tonic::Response<Bytes>>;

    fn call(&mut self, _: tonic::Request<Bytes>) -> Self::Future {
        Box::pin(async { Ok(tonic::Response::new(Bytes::new())) })
    }
}

struct UnaryCall;

impl UnaryService<Bytes> for UnaryCall {
    type Response = Bytes;
    type Future = Answering<tonic::Response<Bytes>>;

    fn call(&mut self, request: tonic::Request<Bytes>) -> Self::Future {
        Box::pin(async move {
            let initial = request.metadata().get(ECHO_INITIAL).cloned();
            let question: SimpleRequest = decode(request.into_inner())?;
            asked(question.response_status)?;
            let answer = WithPayload { payload: Some(payload(question.response_size)?) };
            let mut response = tonic::Response::new(encode(&answer));
            if let Some(initial) = initial {
                response.metadata_mut().insert(ECHO_INITIAL, initial);
            }
            Ok(response)
        })
    }
}

struct InputCall;

impl tonic::server::ClientStreamingService<Bytes> for InputCall {
    type Response = Bytes;
    type Future = Answering<tonic::Response<Bytes>>;

    fn call(&mut self, request: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let mut messages = request.into_inner();
            let mut aggregated_payload_size = 0;
            while let Some(message) = messages.message().await? {
                let size = decode::<InputRequest>(message)?.payload.unwrap_or_default().body.len();
                aggregated_payload_size += i32::try_from(size).map_err(too_large)?;
            }
            let answer = InputResponse { aggregated_payload_size };
            Ok(tonic::Response::new(encode(&answer)))
        })
    }
}

struct OutputCall;

impl StreamingService<Bytes> for OutputCall {
    type Response = Bytes;
    type ResponseStream = ReceiverStream<Result<Bytes, Status>>;
    type Future = Answering<tonic::Response<Self::ResponseStream>>;

    fn call(&mut self, request: tonic::Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let initial = request.metadata().get(ECHO_INITIAL).cloned();
            let (sender, answers) = mpsc::channel(1);
            // It ends with the call: the questions end then, or nobody reads the answers.
            tokio::spawn(async move {
                if let Err(status) = answer_all(request.into_inner(), &sender).await {
                    let _ = sender.send(Err(status)).await;
                }
            });
            let mut response = tonic::Response::new(ReceiverStream::new(answers));
            if let Some(initial) = initial {
                response.metadata_mut().insert(ECHO_INITIAL, initial);
            }
            Ok(response)
        })
    }
}

/// Gives each question its answers.
async fn answer_all(
    mut questions: Streaming<Bytes>,
    sender: &mpsc::Sender<Result<Bytes, Status>>,
) -> Result<(), Status> {
    while let Some(question) = questions.message().await? {
        let question: OutputRequest = decode(question)?;
        asked(question.response_status)?;
        for wanted in question.response_parameters {
            let answer = WithPayload { payload: Some(payload(wanted.size)?) };
            let gone = |_| Status::cancelled("the client is gone");
            sender.send(Ok(encode(&answer))).await.map_err(gone)?;
        }
    }
    Ok(())
}

/// Fails if the client wants that.
fn asked(status: Option<EchoStatus>) -> Result<(), Status> {
    match status {
        Some(EchoStatus { code, message }) if code != 0 => {
            Err(Status::new(Code::from_i32(code), message))
        }
        _ => Ok(()),
    }
}

fn payload(size: i32) -> Result<Payload, Status> {
    Ok(Payload::of(usize::try_from(size).map_err(too_large)?))
}

fn too_large(error: std::num::TryFromIntError) -> Status {
    Status::invalid_argument(error.to_string())
}
