//! gRPC servers on loopback that say who they are, and fail as the path of a call asks them to.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::{BufMut, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::runtime;
use crate::support::ports::Port;

/// The names of the backends.
pub(super) const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The backends, until this is dropped.
pub(super) struct Backends {
    ports: Vec<Port>,
    /// A port where nobody listens.
    pub(super) nobody: Port,
    attempts: Attempts,
    _runtime: Runtime,
}

/// The number of attempts that were seen of the calls of each batch.
type Attempts = Arc<Mutex<BTreeMap<String, usize>>>;

/// The body of an answer.
pub(super) type Answer = UnsyncBoxBody<Bytes, Infallible>;

impl Backends {
    pub(super) fn start() -> Self {
        let runtime = runtime();
        let attempts = Attempts::default();
        let ports = NAMES.map(|name| {
            let port = Port::reserve();
            let listener = runtime.block_on(TcpListener::bind(port.address())).expect("a port");
            runtime.spawn(accept(listener, name, Arc::clone(&attempts)));
            port
        });
        Self { ports: ports.into(), nobody: Port::reserve(), attempts, _runtime: runtime }
    }

    /// The port of the backend of this name.
    pub(super) fn port(&self, name: &str) -> u16 {
        let at = NAMES.iter().position(|it| *it == name).expect("a backend");
        self.ports[at].number()
    }

    /// The number of attempts that backends have seen of the calls of a batch.
    pub(super) fn attempts(&self, batch: &str) -> usize {
        self.attempts.lock().expect("no panic").get(batch).copied().unwrap_or_default()
    }
}

async fn accept(listener: TcpListener, name: &'static str, attempts: Attempts) {
    while let Ok((socket, _)) = listener.accept().await {
        let attempts = Arc::clone(&attempts);
        let service = service_fn(move |request| answer(name, Arc::clone(&attempts), request));
        let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(builder.serve_connection(TokioIo::new(socket), service));
    }
}

/// Answers with `NAME AUTHORITY PREVIOUS`, where PREVIOUS is the number of attempts before this one. The path
/// `/t/slow` is never answered, `/t/code/N` fails with a code, `/t/fails/NAME` fails at this backend, `/t/flaky/N` fails in the first N attempts, and
/// `/t/pushback` asks for no other attempt.
async fn answer(
    name: &str,
    attempts: Attempts,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    let (head, body) = request.into_parts();
    let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(batch) = text("call") {
        *attempts.lock().expect("no panic").entry(batch.to_owned()).or_default() += 1;
    }
    let path = head.uri.path();
    if path == "/t/slow" {
        std::future::pending::<()>().await;
    }
    // A client that goes away is not answered.
    let _ = body.collect().await;
    let previous = text("grpc-previous-rpc-attempts").unwrap_or("0");
    if let Some(code) = path.strip_prefix("/t/code/") {
        return Ok(alone(&[("grpc-status", code)]));
    }
    if path.strip_prefix("/t/fails/") == Some(name) {
        return Ok(alone(&[("grpc-status", "13")]));
    }
    if let Some(failures) = path.strip_prefix("/t/flaky/") {
        let number = |text: &str| text.parse::<u32>().unwrap_or_default();
        if number(previous) < number(failures) {
            return Ok(alone(&[("grpc-status", "14")]));
        }
    }
    if path == "/t/pushback" {
        return Ok(alone(&[("grpc-status", "14"), ("grpc-retry-pushback-ms", "-1")]));
    }
    let authority = head.uri.authority().map(ToString::to_string).unwrap_or_default();
    Ok(message(&format!("{name} {authority} {previous}")))
}

/// An answer with one message.
pub(super) fn message(text: &str) -> Response<Answer> {
    let mut message = vec![0];
    message.put_u32(u32::try_from(text.len()).expect("a short text"));
    message.put_slice(text.as_bytes());
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let body = Full::new(Bytes::from(message)).with_trailers(async move { Some(Ok(trailers)) });
    response(body.boxed_unsync())
}

/// An answer of headers alone.
fn alone(headers: &[(&'static str, &str)]) -> Response<Answer> {
    let mut response = response(Full::default().boxed_unsync());
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).expect("a header");
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}

fn response(body: Answer) -> Response<Answer> {
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, grpc);
    response
}
