//! Calls that are sent again: by the policy of their route, or because no program has seen them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_testkit::TestServer;
use h2::server::SendResponse;
use http::{HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tonic::Code;
use tower_service::Service;

use super::one_route;
use super::support::ports::Port;
use super::support::{
    Answer, Backend, Resources, call_to, channel, code, message, status_alone, with, within,
};

const UNAVAILABLE: &str = "14";

/// All calls go to the cluster `x`, and are tried again up to three times.
pub(crate) fn retried_route() -> String {
    let policy = "{retry_on: unavailable, num_retries: 3, retry_back_off: {base_interval: 0.001s}}";
    format!("[{{match: {{prefix: /}}, route: {{cluster: x, retry_policy: {policy}}}}}]")
}

/// The resources that lead to one backend by these routes.
async fn server(routes: &str, backend: &Backend) -> TestServer {
    let resources = Resources::default().routes(routes).cluster("x", "");
    let resources = resources.endpoints("x", &[&[backend]]);
    TestServer::start(resources.snapshot()).await.expect("a server")
}

/// The attempts that a backend has seen.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<SeenAttempt>>>);

/// The message of an attempt, and the number of attempts before it.
type SeenAttempt = (Bytes, Option<String>);

impl Seen {
    async fn record(&self, request: Request<Incoming>) -> usize {
        let (head, body) = request.into_parts();
        let message = body.collect().await.expect("a message").to_bytes();
        let previous = head.headers.get("grpc-previous-rpc-attempts");
        let previous = previous.map(|it| it.to_str().expect("a text").to_owned());
        let mut all = self.0.lock().expect("no panic");
        all.push((message, previous));
        all.len()
    }

    fn all(&self) -> Vec<SeenAttempt> {
        self.0.lock().expect("no panic").clone()
    }
}

/// Starts a backend that answers the attempts in their order with these, and then with a message.
async fn answering(seen: &Seen, answers: fn(usize) -> Option<Response<Answer>>) -> Backend {
    let seen = seen.clone();
    Backend::serve(move |request| {
        let seen = seen.clone();
        async move {
            let attempt = seen.record(request).await;
            Ok::<_, Infallible>(answers(attempt).unwrap_or_else(|| message("done", "0")))
        }
    })
    .await
}

/// C-148, gRFC A6, gRFC A44: each attempt has the messages, and the number of those before it.
#[tokio::test]
async fn a_call_is_tried_again_by_the_policy_of_its_route() {
    let seen = Seen::default();
    let backend =
        answering(&seen, |attempt| (attempt < 3).then(|| status_alone(UNAVAILABLE))).await;
    let server = server(&retried_route(), &backend).await;
    let request = tonic::Request::new(Bytes::from_static(b"order"));
    let answer = call_to(&channel(&server), "/t/echo", request).await;
    assert_eq!(answer.as_deref().ok(), Some("done"), "{answer:?}");
    let all = seen.all();
    let numbers: Vec<_> = all.iter().map(|(_, previous)| previous.as_deref()).collect();
    assert_eq!(numbers, [None, Some("1"), Some("2")]);
    assert!(all.iter().all(|(message, _)| message.ends_with(b"order")), "{all:?}");
}

/// C-148: at most as many attempts as the policy allows; other statuses, answers that have begun and routes
/// without a policy are final.
#[tokio::test]
async fn a_call_is_not_tried_again_beyond_its_policy() {
    type Answers = fn(usize) -> Option<Response<Answer>>;
    let always: Answers = |_| Some(status_alone(UNAVAILABLE));
    let other: Answers = |_| Some(status_alone("13"));
    let begun: Answers = |_| Some(message("half", UNAVAILABLE));
    for (answers, route, attempts, expected) in [
        (always, retried_route(), 4, Code::Unavailable),
        (always, one_route("x"), 1, Code::Unavailable),
        (other, retried_route(), 1, Code::Internal),
        (begun, retried_route(), 1, Code::Unavailable),
    ] {
        let seen = Seen::default();
        let backend = answering(&seen, answers).await;
        let server = server(&route, &backend).await;
        let answer = call_to(&channel(&server), "/t/echo", with("k", "v")).await;
        assert_eq!((code(&answer), seen.all().len()), (expected, attempts), "{answer:?}");
    }
}

/// C-148, gRFC A6: a server that wants no other attempt gets none.
#[tokio::test]
async fn pushback_of_the_server_is_obeyed() {
    let seen = Seen::default();
    let backend = answering(&seen, |_| {
        let mut response = status_alone(UNAVAILABLE);
        let never = HeaderValue::from_static("-1");
        response.headers_mut().insert("grpc-retry-pushback-ms", never);
        Some(response)
    });
    let backend = backend.await;
    let server = server(&retried_route(), &backend).await;
    let answer = call_to(&channel(&server), "/t/echo", with("k", "v")).await;
    assert_eq!((code(&answer), seen.all().len()), (Code::Unavailable, 1), "{answer:?}");
}

/// C-148, gRFC A6: without a policy, a call that the server's transport refuses is sent again once.
#[tokio::test]
async fn a_refused_stream_is_sent_again() {
    for (refusals, expected) in [(1, Code::Ok), (2, Code::Unavailable)] {
        let (port, streams) = (Port::reserve(), Arc::<AtomicUsize>::default());
        let listener = TcpListener::bind(port.address()).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let counter = Arc::clone(&streams);
        let serving = tokio::spawn(async move {
            let (socket, _) = within(listener.accept()).await.expect("a connection");
            let mut connection = h2::server::handshake(socket).await.expect("a handshake");
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                if counter.fetch_add(1, Ordering::Relaxed) < refusals {
                    respond.send_reset(h2::Reason::REFUSED_STREAM);
                    continue;
                }
                let mut head = Response::new(());
                head.headers_mut()
                    .insert("content-type", HeaderValue::from_static("application/grpc"));
                let mut body = respond.send_response(head, false).expect("a response");
                body.send_data(Bytes::from_static(b"\0\0\0\0\x04done"), false).expect("a message");
                let mut trailers = http::HeaderMap::new();
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
                body.send_trailers(trailers).expect("trailers");
            }
        });
        let server = server(&one_route("x"), &Backend::at(address)).await;
        let answer = call_to(&channel(&server), "/t/echo", with("k", "v")).await;
        assert_eq!((code(&answer), streams.load(Ordering::Relaxed)), (expected, 2), "{answer:?}");
        serving.abort();
    }
}

/// The body of a request whose messages the test sends.
struct Messages(mpsc::Receiver<Bytes>);

impl http_body::Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|message| message.map(|data| Ok(Frame::data(data))))
    }
}

/// A stream that a client has begun.
type Stream = (Request<h2::RecvStream>, SendResponse<Bytes>);

/// Accepts one connection of HTTP/2 and gives its streams to the test.
fn streams() -> (Backend, mpsc::Receiver<Stream>) {
    let port = Port::reserve();
    let (give, take) = mpsc::channel(8);
    let listener = std::net::TcpListener::bind(port.address()).expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let listener = TcpListener::from_std(listener).expect("a socket");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let _port = port;
        let (socket, _) = within(listener.accept()).await.expect("a connection");
        let mut connection = h2::server::handshake(socket).await.expect("a handshake");
        while let Some(Ok(stream)) = connection.accept().await {
            give.send(stream).await.expect("the test takes it");
        }
    });
    (Backend::at(address), take)
}

fn headers(status: Option<&'static str>) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/grpc"));
    if let Some(status) = status {
        headers.insert("grpc-status", HeaderValue::from_static(status));
    }
    response
}

/// Waits until a stream is reset, and returns the reason.
async fn reset_of(mut body: h2::RecvStream) -> Option<h2::Reason> {
    loop {
        match within(body.data()).await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return error.reason(),
            None => return None,
        }
    }
}

/// C-148, gRFC A6: an attempt that has failed reads no messages any more, and its stream is reset though the request
/// is open; the next attempt has them all.
#[tokio::test]
async fn an_attempt_that_has_failed_is_reset_before_the_next() {
    let (backend, mut taken) = streams();
    let server = server(&retried_route(), &backend).await;
    let (send, receive) = mpsc::channel(8);
    let mut channel = channel(&server);
    let call = tokio::spawn(
        channel.call(Request::post("/t/echo").body(Messages(receive)).expect("a request")),
    );
    send.send("one".into()).await.expect("it is read");
    let (first, mut respond) = within(taken.recv()).await.expect("an attempt");
    let mut first = first.into_body();
    assert_eq!(within(first.data()).await.expect("a message").expect("no reset"), "one");
    respond.send_response(headers(Some(UNAVAILABLE)), true).expect("an answer");
    let (second, mut respond) = within(taken.recv()).await.expect("an attempt");
    assert_eq!(reset_of(first).await, Some(h2::Reason::CANCEL));
    // More than is kept comes while the second attempt runs, so that this is the last one.
    send.send(vec![b'x'; 300 * 1024].into()).await.expect("it is read");
    drop(send);
    let mut second = second.into_body();
    let mut all = Vec::new();
    while let Some(data) = within(second.data()).await {
        let data = data.expect("no reset");
        second.flow_control().release_capacity(data.len()).expect("it was taken");
        all.extend_from_slice(&data);
    }
    assert_eq!((all.len(), &all[..3]), (3 + 300 * 1024, &b"one"[..]));
    respond.send_response(headers(Some("0")), true).expect("an answer");
    let answer = within(call).await.expect("no panic").expect("an answer");
    assert_eq!(answer.headers()["grpc-status"], "0");
}

/// A call that the program lets go is reset, though its request is open.
#[tokio::test]
async fn a_call_that_is_let_go_is_reset() {
    let (backend, mut taken) = streams();
    let server = server(&one_route("x"), &backend).await;
    let (send, receive) = mpsc::channel(8);
    let mut channel = channel(&server);
    let call = tokio::spawn(
        channel.call(Request::post("/t/echo").body(Messages(receive)).expect("a request")),
    );
    let (request, mut respond) = within(taken.recv()).await.expect("a call");
    let _open = respond.send_response(headers(None), false).expect("an answer");
    drop(within(call).await.expect("no panic").expect("an answer"));
    assert_eq!(reset_of(request.into_body()).await, Some(h2::Reason::CANCEL));
    drop(send);
}

/// C-148, gRFC A6: an answer that is none of gRPC counts by its status of HTTP, as that of a proxy on the way.
#[tokio::test]
async fn an_answer_of_a_proxy_is_tried_again() {
    let seen = Seen::default();
    let backend = answering(&seen, |attempt| {
        let mut response = Response::new(Full::from("no backend").boxed_unsync());
        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        (attempt < 2).then_some(response)
    });
    let backend = backend.await;
    let server = server(&retried_route(), &backend).await;
    let answer = call_to(&channel(&server), "/t/echo", with("k", "v")).await;
    assert_eq!((answer.as_deref().ok(), seen.all().len()), (Some("done"), 2), "{answer:?}");
}
