//! Calls that others make of the client. Connections are accepted, and each call is given to the
//! function that answers it. The number of connections, of calls on each and the length of a
//! message are bounded.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::ErrorDetail;
use h2::RecvStream;
use h2::server::{Builder, SendResponse};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use super::messages::{MessageReader, MessageWriter};
use super::status;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallLimits {
    /// The number of connections; further ones wait.
    pub(crate) connections: usize,
    /// The number of calls on one connection.
    pub(crate) calls: u32,
    /// The length of a message, in bytes.
    pub(crate) message_bytes: usize,
}

/// A call that has not been answered yet.
pub(crate) struct IncomingCall {
    path: String,
    requests: MessageReader,
    respond: SendResponse<Bytes>,
}

impl IncomingCall {
    /// Returns the path of the method.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Ends the call with an error, and without a message.
    pub(crate) fn refuse(mut self, error: &ErrorDetail) {
        let mut head = head();
        head.headers_mut().extend(status::trailers(error));
        // An error means that the caller has gone, so it is ignored.
        let _ = self.respond.send_response(head, true);
    }

    /// Begins the answer. `None` means that the caller has gone.
    pub(crate) fn accept(mut self) -> Option<(MessageReader, MessageWriter)> {
        let out = self.respond.send_response(head(), false).ok()?;
        Some((self.requests, MessageWriter::new(out)))
    }
}

/// Accepts connections and has their calls answered, for as long as the future runs.
pub(crate) async fn serve<F>(
    listener: TcpListener,
    limits: CallLimits,
    answer: impl Fn(IncomingCall) -> F + Clone + Send + 'static,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        let is_full = connections.len() >= limits.connections;
        tokio::select! {
            Some(ended) = connections.join_next() => log_panic(ended),
            accepted = listener.accept(), if !is_full => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection(socket, limits, answer.clone()));
                }
                Err(error) => {
                    warn!("cannot accept a connection: {error}");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
}

/// Serves one connection to its end.
async fn connection<F>(
    socket: TcpStream,
    limits: CallLimits,
    answer: impl Fn(IncomingCall) -> F + Send,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut builder = Builder::new();
    builder.max_concurrent_streams(limits.calls).max_header_list_size(HEADERS);
    let begun = timeout(HANDSHAKE, builder.handshake::<_, Bytes>(socket)).await;
    let Ok(Ok(mut connection)) = begun else { return };
    let mut calls = JoinSet::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    if let Some(call) = incoming(request, respond, limits.message_bytes) {
                        calls.spawn(answer(call));
                    }
                }
                Some(Err(error)) => return debug!("a connection ended: {error}"),
                None => return,
            },
            Some(ended) = calls.join_next() => log_panic(ended),
        }
    }
}

/// Returns the call. One that is no call of gRPC is answered here instead.
fn incoming(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    limit: usize,
) -> Option<IncomingCall> {
    let content_type = request.headers().get("content-type").map(HeaderValue::as_bytes);
    let is_grpc = content_type.is_some_and(|it| it.starts_with(b"application/grpc"));
    if request.method() != Method::POST || !is_grpc {
        let mut head = Response::new(());
        *head.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let _ = respond.send_response(head, true);
        return None;
    }
    let path = request.uri().path().to_owned();
    let requests = MessageReader::new(request.into_body(), limit);
    Some(IncomingCall { path, requests, respond })
}

fn head() -> Response<()> {
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    head
}

/// Logs that a call panicked, which breaks no other call.
fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        warn!("a call was not answered: {error}");
    }
}

/// The time that a connection may take to begin.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The wait after a connection could not be accepted, usually because no file descriptor was left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The limit for the headers of a call, in bytes.
const HEADERS: u32 = 16 * 1024;
