//! Calls that are sent again: by the policy of their route, or because no program has seen them.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use chancery_testkit::TestServer;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tonic::Code;

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
