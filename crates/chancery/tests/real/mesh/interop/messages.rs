//! The messages of gRPC's test service, as far as the cases use them.

use bytes::Bytes;
use prost::Message;
use tonic::Status;

/// Content of a size that matters, and with nothing in it that does.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Payload {
    /// 0: the only kind that there is.
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) body: Bytes,
}

/// The status that a call is to end with.
#[derive(Clone, PartialEq, Message)]
pub(super) struct EchoStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SimpleRequest {
    #[prost(int32, tag = "2")]
    pub(super) response_size: i32,
    #[prost(message, optional, tag = "3")]
    pub(super) payload: Option<Payload>,
    #[prost(message, optional, tag = "7")]
    pub(super) response_status: Option<EchoStatus>,
}

/// A message of a stream to the server.
#[derive(Clone, PartialEq, Message)]
pub(super) struct InputRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InputResponse {
    #[prost(int32, tag = "1")]
    pub(super) aggregated_payload_size: i32,
}

/// One of the answers that the client wants.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseParameters {
    #[prost(int32, tag = "1")]
    pub(super) size: i32,
}

/// A question for a stream of answers.
#[derive(Clone, PartialEq, Message)]
pub(super) struct OutputRequest {
    #[prost(message, repeated, tag = "2")]
    pub(super) response_parameters: Vec<ResponseParameters>,
    #[prost(message, optional, tag = "3")]
    pub(super) payload: Option<Payload>,
    #[prost(message, optional, tag = "7")]
    pub(super) response_status: Option<EchoStatus>,
}

/// An answer of every method but that of the stream to the server: its payload.
#[derive(Clone, PartialEq, Message)]
pub(super) struct WithPayload {
    #[prost(message, optional, tag = "1")]
    pub(super) payload: Option<Payload>,
}

impl Payload {
    /// Zeros.
    pub(super) fn of(size: usize) -> Self {
        Self { kind: 0, body: vec![0; size].into() }
    }
}

impl OutputRequest {
    /// Asks for one answer, with a payload of its own.
    pub(super) fn one(answer: usize, payload: usize) -> Self {
        let size = i32::try_from(answer).expect("a small size");
        let payload = Some(Payload::of(payload));
        Self { response_parameters: vec![ResponseParameters { size }], payload, ..Self::default() }
    }
}

/// Returns the bytes of a message.
pub(super) fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}

/// Returns a message that came as bytes.
pub(super) fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Status> {
    M::decode(bytes).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// The first header of a response that repeats that of the request.
pub(super) const ECHO_INITIAL: &str = "x-grpc-test-echo-initial";
/// The trailer that does.
pub(super) const ECHO_TRAILING: &str = "x-grpc-test-echo-trailing-bin";
