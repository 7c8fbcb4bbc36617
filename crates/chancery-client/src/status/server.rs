//! CSDS: whoever asks is told what a client holds, once or as often as they ask (C-136).
//!
//! It is request and answer, on a stream too; nobody is told of changes. Connections, calls on each
//! of them, and the length of a question are bounded, and an answer is sent as far as there is room
//! for it.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use chancery_core::ErrorDetail;
use chancery_proto::frames::{Messages, framed};
use chancery_proto::wire::{ClientConfig, decode_client_status_request, encode_client_status};
use h2::server::{Builder, SendResponse};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

/// Answers questions about clients on an address, until it is dropped.
///
/// An answer shows what a program is configured with, though not its secrets: an address beyond
/// loopback is for those who may see that.
///
/// ```no_run
/// use chancery_client::{Bootstrap, Client, Options, StatusServer};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::new(&Bootstrap::discover(None)?, Options::default())?;
/// let shown = client.clone();
/// let server =
///     StatusServer::start("127.0.0.1:15099".parse()?, move || vec![shown.status()]).await?;
/// println!("grpcdebug {} xds status", server.address());
/// # Ok(())
/// # }
/// ```
pub struct StatusServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

type StatusSource = dyn Fn() -> Vec<ClientConfig> + Send + Sync;

/// The methods there are.
#[derive(Clone, Copy, PartialEq)]
enum StatusMethod {
    Once,
    Often,
}

const FETCH: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus";
const STREAM: &str = "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus";

/// How many connections there may be; others wait.
const CONNECTIONS: usize = 32;
/// How many calls there may be on one.
const CALLS: u32 = 8;
/// How long a question may be.
const QUESTION: usize = 64 * 1024;
/// How long a connection may take to begin.
const BEGINNING: Duration = Duration::from_secs(10);
/// How long to wait after a connection could not be accepted, for want of files as a rule.
const BREATH: Duration = Duration::from_millis(100);

impl StatusServer {
    /// Listens on an address; port 0 is any free one. `clients` is asked for each answer.
    ///
    /// # Errors
    /// If nobody can listen there.
    pub async fn start(
        at: SocketAddr,
        clients: impl Fn() -> Vec<ClientConfig> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind(at).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(listen(listener, Arc::new(clients)));
        Ok(Self { address, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for StatusServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for StatusServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusServer").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn listen(listener: TcpListener, source: Arc<StatusSource>) {
    let mut connections = JoinSet::new();
    loop {
        let is_full = connections.len() >= CONNECTIONS;
        tokio::select! {
            Some(ended) = connections.join_next() => noted(ended),
            accepted = listener.accept(), if !is_full => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(serve(socket, Arc::clone(&source)));
                }
                Err(error) => {
                    warn!("cannot accept a connection that asks for the status: {error}");
                    sleep(BREATH).await;
                }
            },
        }
    }
}

/// A question that breaks its answer breaks no other.
fn noted(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        warn!("a question about the status was not answered: {error}");
    }
}

async fn serve(socket: TcpStream, source: Arc<StatusSource>) {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(CALLS).max_header_list_size(16 * 1024);
    let begun = timeout(BEGINNING, builder.handshake::<_, Bytes>(socket)).await;
    let Ok(Ok(mut connection)) = begun else { return };
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let call = answer(request, respond, Arc::clone(&source));
                    calls.spawn(call);
                }
                Some(Err(error)) => return debug!("a connection about the status ended: {error}"),
                None => return,
            },
            Some(ended) = calls.join_next() => noted(ended),
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    source: Arc<StatusSource>,
) {
    let way = match accepted(&request) {
        Ok(way) => way,
        Err(head) => {
            // Nobody is left to be told if this cannot be.
            respond.send_response(head, true).ok();
            return;
        }
    };
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let Ok(mut out) = respond.send_response(head, false) else { return };
    let mut questions = StatusRequests::new(request.into_body());
    if let Ok(outcome) = converse(way, &mut questions, &mut out, &*source).await {
        out.send_trailers(trailers(&outcome)).ok();
    }
}

/// Which method is called; else what is said to that.
fn accepted(request: &Request<RecvStream>) -> Result<StatusMethod, Response<()>> {
    let mut head = Response::new(());
    let content_type = request.headers().get("content-type").map(HeaderValue::as_bytes);
    let is_grpc = content_type.is_some_and(|it| it.starts_with(b"application/grpc"));
    if request.method() != Method::POST || !is_grpc {
        *head.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(head);
    }
    match request.uri().path() {
        FETCH => Ok(StatusMethod::Once),
        STREAM => Ok(StatusMethod::Often),
        _ => {
            let why = "this is the status of a client, and nothing else";
            *head.headers_mut() = trailers(&status(ErrorDetail::UNIMPLEMENTED, why));
            let content_type = HeaderValue::from_static("application/grpc");
            head.headers_mut().insert("content-type", content_type);
            Err(head)
        }
    }
}

/// Answers questions until there is none any more: how the call ends. An error says that nobody is
/// there to be told so.
async fn converse(
    way: StatusMethod,
    questions: &mut StatusRequests,
    out: &mut SendStream<Bytes>,
    source: &StatusSource,
) -> Result<ErrorDetail, h2::Error> {
    loop {
        let question = match questions.next().await? {
            Ok(Some(question)) => question,
            Ok(None) if way == StatusMethod::Often => return Ok(ErrorDetail::default()),
            Ok(None) => return Ok(status(ErrorDetail::INTERNAL, "there is no question")),
            Err(why) => return Ok(status(ErrorDetail::INTERNAL, &why)),
        };
        let question = match decode_client_status_request(&question) {
            Ok(question) => question,
            Err(error) => return Ok(status(ErrorDetail::INTERNAL, &error.to_string())),
        };
        if question.has_matchers {
            let why = "`node_matchers` choose among clients; this is one, and knows no other";
            return Ok(status(ErrorDetail::INVALID_ARGUMENT, why));
        }
        let mut clients = source();
        if question.exclude_contents {
            let all = clients.iter_mut().flat_map(|client| &mut client.generic_xds_configs);
            all.for_each(|resource| resource.xds_config = None);
        }
        send(out, framed(&encode_client_status(&clients))).await?;
        if way == StatusMethod::Once {
            return Ok(ErrorDetail::default());
        }
    }
}

/// Sends as much at a time as there is room for.
async fn send(out: &mut SendStream<Bytes>, mut bytes: Bytes) -> Result<(), h2::Error> {
    while !bytes.is_empty() {
        out.reserve_capacity(bytes.len());
        let Some(room) = poll_fn(|cx| out.poll_capacity(cx)).await else {
            return Err(h2::Reason::CANCEL.into());
        };
        let chunk = bytes.split_to(room?.min(bytes.len()));
        out.send_data(chunk, false)?;
    }
    Ok(())
}

/// The messages of a call.
struct StatusRequests {
    body: RecvStream,
    messages: Messages,
}

impl StatusRequests {
    fn new(body: RecvStream) -> Self {
        Self { body, messages: Messages::new(QUESTION) }
    }

    /// The next question, or why there is none that can be read.
    async fn next(&mut self) -> Result<Result<Option<Bytes>, String>, h2::Error> {
        loop {
            match self.messages.next() {
                Ok(Some(message)) => return Ok(Ok(Some(message))),
                Ok(None) => {}
                Err(error) => return Ok(Err(error.to_string())),
            }
            let Some(chunk) = self.body.data().await else {
                let is_whole = self.messages.is_between();
                let cut = || Err("a question ends in its middle".to_owned());
                return Ok(if is_whole { Ok(None) } else { cut() });
            };
            let chunk = chunk?;
            let _ = self.body.flow_control().release_capacity(chunk.len());
            self.messages.push(chunk);
        }
    }
}

fn status(code: i32, why: &str) -> ErrorDetail {
    ErrorDetail { code, message: why.to_owned() }
}

fn trailers(status: &ErrorDetail) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.code.into());
    if !status.message.is_empty()
        && let Ok(message) = HeaderValue::from_str(&status.message)
    {
        trailers.insert("grpc-message", message);
    }
    trailers
}
