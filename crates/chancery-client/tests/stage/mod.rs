//! A server that a test plays itself, message by message, over HTTP/2: in memory, where time can be
//! paused, or on loopback.
#![allow(dead_code, reason = "each test uses some of it")]

pub(crate) mod message;
pub(crate) mod theatre;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use chancery_client::bootstrap::Address;
use chancery_client::dial::{Dial, DialFuture, Io};
use chancery_proto::frames::{Messages, framed};
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

pub(crate) use crate::within::within;
#[allow(unused_imports, reason = "each test uses some of it")]
pub(crate) use message::{field, response, response_of};

/// The other end of the connections of a client that dials by the other half.
pub(crate) struct Door(mpsc::Receiver<(String, DuplexStream)>);

struct Lines(mpsc::Sender<(String, DuplexStream)>);

/// Connections in memory. Nobody listens any more once the door is gone.
pub(crate) fn door() -> (Door, Arc<dyn Dial>) {
    let (send, receive) = mpsc::channel(64);
    (Door(receive), Arc::new(Lines(send)))
}

impl Dial for Lines {
    fn dial<'a>(&'a self, address: &'a Address) -> DialFuture<'a> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(1 << 20);
            let refused = |_| io::Error::from(io::ErrorKind::ConnectionRefused);
            self.0.send((address.to_string(), far)).await.map_err(refused)?;
            Ok(Box::new(near) as Box<dyn Io>)
        })
    }
}

impl Door {
    /// The next connection, and whom it was meant for.
    pub(crate) async fn next(&mut self) -> (String, DuplexStream) {
        within(self.0.recv()).await.expect("a client that may dial")
    }

    /// The same at any time, unless nobody can dial any more.
    pub(crate) async fn try_next(&mut self) -> Option<(String, DuplexStream)> {
        self.0.recv().await
    }

    /// The addresses that were dialled and not let in.
    pub(crate) fn waiting(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.0.try_recv().ok()).map(|(address, _)| address).collect()
    }

    /// The next connection, as a server has it.
    pub(crate) async fn peer(&mut self) -> Peer {
        Peer::over(self.next().await.1)
    }
}

/// One connection. It is cut when this is dropped.
pub(crate) struct Peer {
    calls: mpsc::Receiver<Call>,
    retired: Arc<Notify>,
    _tasks: JoinSet<()>,
}

/// As HTTP/2 begins.
const WINDOW: u32 = 65_535;

/// One call of gRPC.
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    body: RecvStream,
    messages: Messages,
    respond: SendResponse<Bytes>,
    out: Option<SendStream<Bytes>>,
}

impl Peer {
    pub(crate) fn over(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self::with_window(io, WINDOW)
    }

    /// The same, with room for so many bytes that were not asked for by the test.
    pub(crate) fn with_window(
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        window: u32,
    ) -> Self {
        let mut settings = h2::server::Builder::new();
        settings.initial_window_size(window);
        Self::with(settings, io)
    }

    /// One that has settings of HTTP/2.
    pub(crate) fn with(
        settings: h2::server::Builder,
        io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        let (send, calls) = mpsc::channel(64);
        let mut tasks = JoinSet::new();
        let retired = Arc::new(Notify::new());
        let age = Arc::clone(&retired);
        tasks.spawn(async move {
            let Ok(mut connection) = settings.handshake(io).await else { return };
            loop {
                let accepted = tokio::select! {
                    accepted = connection.accept() => accepted,
                    () = age.notified() => {
                        connection.graceful_shutdown();
                        continue;
                    }
                };
                let Some(Ok((request, respond))) = accepted else { return };
                let (head, body) = request.into_parts();
                let call = Call {
                    path: head.uri.path().to_owned(),
                    headers: head.headers,
                    body,
                    messages: Messages::new(usize::MAX),
                    respond,
                    out: None,
                };
                let _ = send.send(call).await;
            }
        });
        Self { calls, retired, _tasks: tasks }
    }

    /// Takes no more calls (GOAWAY), and ends when those there are have.
    pub(crate) fn retire(&self) {
        self.retired.notify_one();
    }

    /// The next call; `None` once the connection is over.
    pub(crate) async fn call(&mut self) -> Option<Call> {
        within(self.call_at_any_time()).await
    }

    /// The same for a server that waits for as long as it lives.
    pub(crate) async fn call_at_any_time(&mut self) -> Option<Call> {
        self.calls.recv().await
    }
}

impl Call {
    /// The next message of the client; `None` once it has said all, or has gone.
    pub(crate) async fn heard(&mut self) -> Option<Bytes> {
        within(self.heard_at_any_time()).await
    }

    /// The same for a server that waits for as long as it lives.
    pub(crate) async fn heard_at_any_time(&mut self) -> Option<Bytes> {
        loop {
            if let Some(message) = self.messages.next().expect("messages of gRPC") {
                return Some(message);
            }
            let chunk = self.body.data().await?.ok()?;
            let _ = self.body.flow_control().release_capacity(chunk.len());
            self.messages.push(chunk);
        }
    }

    /// Sends headers, unless they were.
    pub(crate) fn open(&mut self) -> &mut SendStream<Bytes> {
        let respond = &mut self.respond;
        self.out.get_or_insert_with(|| {
            let mut head = Response::new(());
            let content = HeaderValue::from_static("application/grpc");
            head.headers_mut().insert("content-type", content);
            *head.status_mut() = StatusCode::OK;
            respond.send_response(head, false).expect("a call that is open")
        })
    }

    /// Sends a message. A client that has gone does not hear it.
    pub(crate) fn say(&mut self, message: &[u8]) {
        let _ = self.open().send_data(framed(message), false);
    }

    /// Begins a message and says less than half of it.
    pub(crate) fn say_half(&mut self, message: &[u8]) {
        let begun = framed(message).slice(..message.len() / 2);
        let _ = self.open().send_data(begun, false);
    }

    /// Ends the call before it has begun: trailers, and nothing else.
    pub(crate) fn refuse(mut self, code: i32) {
        let mut head = Response::new(());
        let content = HeaderValue::from_static("application/grpc");
        head.headers_mut().insert("content-type", content);
        head.headers_mut().insert("grpc-status", code.into());
        let _ = self.respond.send_response(head, true);
    }

    /// Ends the call.
    pub(crate) fn end(mut self, code: i32) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", code.into());
        let _ = self.open().send_trailers(trailers);
    }
}

/// A free port below the range of outgoing connections.
pub(crate) async fn listen() -> TcpListener {
    let start = std::process::id() % 12_000;
    for step in 0..12_000 {
        let port = u16::try_from(20_000 + (start + step) % 12_000).expect("a small number");
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return listener;
        }
    }
    panic!("every port from 20000 on is taken");
}
