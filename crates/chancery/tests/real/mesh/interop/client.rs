//! gRPC's interop cases over a channel of `chancery-grpc`.

use std::time::Duration;

use bytes::Bytes;
use chancery_grpc::{Channel, WaitForReady};
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::metadata::{AsciiMetadataValue, BinaryMetadataValue, MetadataMap};
use tonic::{Code, Request, Response, Status, Streaming};

use super::messages::{
    ECHO_INITIAL, ECHO_TRAILING, EchoStatus, InputRequest, InputResponse, OutputRequest, Payload,
    ResponseParameters, SimpleRequest, WithPayload, decode, encode,
};
use crate::mesh::codec::BytesCodec;

const REQUEST_SIZES: [usize; 4] = [27_182, 8, 1_828, 45_904];
const RESPONSE_SIZES: [usize; 4] = [31_415, 9, 2_653, 58_979];
const INITIAL: &str = "test_initial_metadata_value";
const TRAILING: &[u8] = &[0xab, 0xab, 0xab];
const SPECIAL: &str =
    "\t\ntest with whitespace\r\nand Unicode BMP \u{263a} and non-BMP \u{1f608}\t\n";

/// A client of the test service.
pub(super) struct Client(pub(super) Channel);

/// A call with messages in both directions.
struct Duplex {
    questions: mpsc::Sender<Bytes>,
    answers: Response<Streaming<Bytes>>,
}

impl Client {
    /// Runs the case of this name.
    pub(super) async fn run(&self, case: &str) -> Result<(), Status> {
        match case {
            "empty_unary" => self.empty_unary().await,
            "large_unary" => self.large_unary().await,
            "client_streaming" => self.client_streaming().await,
            "server_streaming" => self.server_streaming().await,
            "ping_pong" => self.ping_pong().await,
            "empty_stream" => self.empty_stream().await,
            "cancel_after_begin" => self.cancel_after_begin().await,
            "cancel_after_first_response" => self.cancel_after_first_response().await,
            "timeout_on_sleeping_server" => self.timeout_on_sleeping_server().await,
            "custom_metadata" => self.custom_metadata().await,
            "status_code_and_message" => self.status_code_and_message().await,
            "special_status_message" => self.special_status_message().await,
            "unimplemented_method" => self.unimplemented("TestService").await,
            "unimplemented_service" => self.unimplemented("UnimplementedService").await,
            other => panic!("no case {other}"),
        }
    }

    async fn empty_unary(&self) -> Result<(), Status> {
        let answer = self.unary("TestService/EmptyCall", Request::new(Bytes::new())).await?;
        assert!(answer.get_ref().is_empty());
        Ok(())
    }

    async fn large_unary(&self) -> Result<(), Status> {
        let question = SimpleRequest {
            response_size: 314_159,
            payload: Some(Payload::of(271_828)),
            response_status: None,
        };
        let question = Request::new(encode(&question));
        let answer = self.unary("TestService/UnaryCall", question).await?;
        has_payload(answer.into_inner(), 314_159)
    }

    async fn client_streaming(&self) -> Result<(), Status> {
        let (sender, questions) = mpsc::channel(1);
        let sending = async move {
            for size in REQUEST_SIZES {
                let question = InputRequest { payload: Some(Payload::of(size)) };
                sender.send(encode(&question)).await.expect("the call reads them");
            }
        };
        let answering = self.input(Request::new(questions));
        let ((), answer) = tokio::join!(sending, answering);
        let answer: InputResponse = decode(answer?)?;
        assert_eq!(answer.aggregated_payload_size, 74_922);
        Ok(())
    }

    async fn server_streaming(&self) -> Result<(), Status> {
        let sizes = [31_415, 9, 2_653, 58_979].map(|size| ResponseParameters { size });
        let question = OutputRequest { response_parameters: sizes.into(), ..Default::default() };
        let mut grpc = self.grpc().await?;
        let path = path("TestService/StreamingOutputCall");
        let question = patient(Request::new(encode(&question)));
        let mut answers = grpc.server_streaming(question, path, BytesCodec).await?.into_inner();
        for size in RESPONSE_SIZES {
            has_payload(answers.message().await?.expect("an answer"), size)?;
        }
        assert!(answers.message().await?.is_none());
        Ok(())
    }

    async fn ping_pong(&self) -> Result<(), Status> {
        let mut sizes = REQUEST_SIZES.into_iter().zip(RESPONSE_SIZES);
        let (question, mut size) = sizes.next().expect("there are some");
        let first = OutputRequest::one(size, question);
        let Duplex { questions, answers } = self.duplex(Request::new(()), &first).await?;
        let mut answers = answers.into_inner();
        loop {
            has_payload(answers.message().await?.expect("an answer"), size)?;
            let Some((question, answer)) = sizes.next() else { break };
            size = answer;
            questions.send(encode(&OutputRequest::one(answer, question))).await.expect("it runs");
        }
        drop(questions);
        assert!(answers.message().await?.is_none());
        Ok(())
    }

    async fn empty_stream(&self) -> Result<(), Status> {
        let (sender, questions) = mpsc::channel(1);
        drop(sender);
        let answers = self.duplex_of(Request::new(questions)).await?;
        assert!(answers.into_inner().message().await?.is_none());
        Ok(())
    }

    async fn cancel_after_begin(&self) -> Result<(), Status> {
        let (_sender, questions) = mpsc::channel(1);
        let mut request = Request::new(questions);
        let handle = request.cancellation_handle();
        let canceling = async { handle.cancel() };
        let (answer, ()) = tokio::join!(biased; self.input(request), canceling);
        ends_with(answer, Code::Cancelled);
        Ok(())
    }

    async fn cancel_after_first_response(&self) -> Result<(), Status> {
        let mut request = Request::new(());
        let handle = request.cancellation_handle();
        let first = OutputRequest::one(31_415, 27_182);
        let Duplex { questions: _questions, answers } = self.duplex(request, &first).await?;
        let mut answers = answers.into_inner();
        has_payload(answers.message().await?.expect("an answer"), 31_415)?;
        handle.cancel();
        ends_with(answers.message().await, Code::Cancelled);
        Ok(())
    }

    async fn timeout_on_sleeping_server(&self) -> Result<(), Status> {
        let (sender, questions) = mpsc::channel(1);
        let question = OutputRequest { payload: Some(Payload::of(27_182)), ..Default::default() };
        sender.send(encode(&question)).await.expect("there is room");
        let mut request = Request::new(questions);
        request.set_timeout(Duration::from_millis(1));
        // The deadline is over before the answer begins, or after that.
        match self.duplex_of(request).await {
            Ok(answers) => {
                ends_with(answers.into_inner().message().await, Code::DeadlineExceeded);
            }
            Err(status) => assert_eq!(status.code(), Code::DeadlineExceeded, "{status}"),
        }
        Ok(())
    }

    async fn custom_metadata(&self) -> Result<(), Status> {
        let question = SimpleRequest {
            response_size: 1,
            payload: Some(Payload::of(1)),
            response_status: None,
        };
        let question = with_metadata(Request::new(encode(&question)));
        let answer = self.unary("TestService/UnaryCall", question).await?;
        // A unary answer has its headers and its trailers together.
        has_initial(answer.metadata());
        has_trailing(answer.metadata());
        has_payload(answer.into_inner(), 1)?;

        let request = with_metadata(Request::new(()));
        let Duplex { questions, answers } = self.duplex(request, &OutputRequest::one(1, 1)).await?;
        has_initial(answers.metadata());
        let mut answers = answers.into_inner();
        has_payload(answers.message().await?.expect("an answer"), 1)?;
        drop(questions);
        assert!(answers.message().await?.is_none());
        has_trailing(&answers.trailers().await?.expect("trailers"));
        Ok(())
    }

    async fn status_code_and_message(&self) -> Result<(), Status> {
        let asked = EchoStatus { code: 2, message: "test status message".to_owned() };
        self.ends_as_asked(asked.clone()).await;
        let first = OutputRequest { response_status: Some(asked.clone()), ..Default::default() };
        let answered = async {
            let Duplex { questions, answers } = self.duplex(Request::new(()), &first).await?;
            drop(questions);
            answers.into_inner().message().await
        };
        let status = ends_with(answered.await, Code::Unknown);
        assert_eq!(status.message(), asked.message);
        Ok(())
    }

    async fn special_status_message(&self) -> Result<(), Status> {
        self.ends_as_asked(EchoStatus { code: 2, message: SPECIAL.to_owned() }).await;
        Ok(())
    }

    async fn unimplemented(&self, service: &str) -> Result<(), Status> {
        let method = format!("{service}/UnimplementedCall");
        let answer = self.unary(&method, Request::new(Bytes::new())).await;
        ends_with(answer, Code::Unimplemented);
        Ok(())
    }

    /// Makes a unary call that is to end with this status, which is one of the code 2.
    async fn ends_as_asked(&self, asked: EchoStatus) {
        let message = asked.message.clone();
        let question = SimpleRequest { response_status: Some(asked), ..Default::default() };
        let answer = self.unary("TestService/UnaryCall", Request::new(encode(&question))).await;
        assert_eq!(ends_with(answer, Code::Unknown).message(), message);
    }

    async fn grpc(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone());
        grpc.ready().await?;
        Ok(grpc)
    }

    async fn unary(
        &self,
        method: &str,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Status> {
        self.grpc().await?.unary(patient(request), path(method), BytesCodec).await
    }

    async fn input(&self, request: Request<mpsc::Receiver<Bytes>>) -> Result<Bytes, Status> {
        let request = patient(request.map(ReceiverStream::new));
        let path = path("TestService/StreamingInputCall");
        let answer = self.grpc().await?.client_streaming(request, path, BytesCodec).await?;
        Ok(answer.into_inner())
    }

    /// Begins a call with a question. A server may answer nothing, not even with headers, before it has one.
    async fn duplex(&self, request: Request<()>, first: &OutputRequest) -> Result<Duplex, Status> {
        let (questions, receiver) = mpsc::channel(1);
        questions.send(encode(first)).await.expect("there is room");
        let answers = self.duplex_of(request.map(|()| receiver)).await?;
        Ok(Duplex { questions, answers })
    }

    async fn duplex_of(
        &self,
        request: Request<mpsc::Receiver<Bytes>>,
    ) -> Result<Response<Streaming<Bytes>>, Status> {
        let request = patient(request.map(ReceiverStream::new));
        let path = path("TestService/FullDuplexCall");
        self.grpc().await?.streaming(request, path, BytesCodec).await
    }
}

/// Lets a call wait for a server that begins to serve late.
fn patient<T>(mut request: Request<T>) -> Request<T> {
    request.extensions_mut().insert(WaitForReady);
    request
}

fn path(method: &str) -> PathAndQuery {
    format!("/grpc.testing.{method}").parse().expect("a path")
}

fn with_metadata<T>(mut request: Request<T>) -> Request<T> {
    let metadata = request.metadata_mut();
    metadata.insert(ECHO_INITIAL, AsciiMetadataValue::from_static(INITIAL));
    metadata.insert_bin(ECHO_TRAILING, BinaryMetadataValue::from_bytes(TRAILING));
    request
}

fn has_initial(metadata: &MetadataMap) {
    let all: Vec<_> = metadata.get_all(ECHO_INITIAL).iter().collect();
    assert_eq!(all, [INITIAL], "{metadata:?}");
}

fn has_trailing(metadata: &MetadataMap) {
    let all = metadata.get_all_bin(ECHO_TRAILING).iter();
    let all: Vec<_> = all.map(|value| value.to_bytes().expect("base64")).collect();
    assert_eq!(all, [TRAILING], "{metadata:?}");
}

fn has_payload(answer: Bytes, size: usize) -> Result<(), Status> {
    let payload = decode::<WithPayload>(answer)?.payload.expect("a payload");
    assert_eq!((payload.kind, payload.body.len()), (0, size));
    assert!(payload.body.iter().all(|byte| *byte == 0));
    Ok(())
}

#[track_caller]
fn ends_with<T>(answer: Result<T, Status>, code: Code) -> Status {
    let Err(status) = answer else { panic!("an answer in place of {code:?}") };
    assert_eq!(status.code(), code, "{status}");
    status
}
