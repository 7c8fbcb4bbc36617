//! Calls over HTTP/2 by `h2`: legal HTTP/2, in hostile or in innocent hands.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use bytes::{Buf, Bytes, BytesMut};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::message::{Delta, Sotw, framed};
use super::raw::Write;
use super::{ADS_DELTA, ADS_SOTW, dial};

/// The window of a client that reads, and of one that takes no byte.
pub(crate) const READS: u32 = 16 << 20;
pub(crate) const STALLS: u32 = 0;

/// The longest that a server may take for a connection or for room for a stream.
const ROOM: Duration = Duration::from_secs(30);
/// The time without any room after which a server counts as one that takes no more of a message.
const STALL: Duration = Duration::from_secs(5);
/// The bytes of a message that are handed over at once.
const CHUNK: usize = 64 * 1024;

/// A connection. It ends when this is dropped.
pub(crate) struct Http2 {
    send: SendRequest<Bytes>,
    task: JoinHandle<()>,
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A request, and whatever has come of its answer.
pub(crate) struct Call {
    send: SendStream<Bytes>,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    read: BytesMut,
}

impl Http2 {
    pub(crate) async fn connect(from: Ipv4Addr, to: SocketAddr, window: u32) -> Result<Self> {
        let dialled = timeout(ROOM, dial(from, to, true)).await;
        Self::over(dialled.context("no connection in time")??, window).await
    }

    pub(crate) async fn over(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        window: u32,
    ) -> Result<Self> {
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(READS);
        // The default is 100 until the server says more.
        builder.initial_max_send_streams(1000).max_concurrent_reset_streams(0);
        let (send, connection) = builder.handshake(io).await?;
        let task = tokio::spawn(async move {
            // Those who wait for its streams learn of its end by themselves.
            connection.await.ok();
        });
        Ok(Self { send, task })
    }

    /// Opens a gRPC stream.
    pub(crate) async fn stream(&self, path: &str) -> Result<Call> {
        let request =
            Request::post(path).header("content-type", "application/grpc").header("te", "trailers");
        self.call(request.body(())?, false).await
    }

    /// Opens an aggregated stream of the state of the world, and sends its first request.
    pub(crate) async fn sotw(&self, request: &Sotw) -> Result<Call> {
        self.asks(ADS_SOTW, framed(&request.encode())).await
    }

    /// Opens an aggregated delta stream, and sends its first request.
    pub(crate) async fn delta(&self, request: &Delta) -> Result<Call> {
        self.asks(ADS_DELTA, framed(&request.encode())).await
    }

    /// Opens a gRPC stream and sends these bytes on it.
    pub(crate) async fn asks(&self, path: &str, bytes: Bytes) -> Result<Call> {
        let mut call = self.stream(path).await?;
        call.send_bytes(bytes)?;
        Ok(call)
    }

    /// Sends a poll over REST.
    pub(crate) async fn poll(&self, path: &str, json: Bytes) -> Result<Call> {
        let request = Request::post(path).header("content-type", "application/json");
        let mut call = self.call(request.body(())?, false).await?;
        call.send.send_data(json, true)?;
        Ok(call)
    }

    async fn call(&self, request: Request<()>, end: bool) -> Result<Call> {
        let ready = timeout(ROOM, self.send.clone().ready()).await;
        let mut sender = ready.context("no room for a stream in time")??;
        let (response, send) = sender.send_request(request, end)?;
        Ok(Call { send, response: Some(response), body: None, read: BytesMut::new() })
    }
}

impl Call {
    pub(crate) fn send(&mut self, message: &[u8]) -> Result<()> {
        self.send_bytes(framed(message))
    }

    /// Sends bytes that may be half of a message. They are sent as the server gives room, and are
    /// not copied meanwhile.
    pub(crate) fn send_bytes(&mut self, bytes: Bytes) -> Result<()> {
        Ok(self.send.send_data(bytes, false)?)
    }

    /// Sends a message as the server gives room for it, so that the attacker keeps nothing of it.
    pub(crate) async fn taken(&mut self, message: &[u8]) -> Write {
        self.pours(&mut framed(message)).await
    }

    /// Sends bytes as the server gives room for them. What it has not taken stays in `rest`.
    pub(crate) async fn pours(&mut self, rest: &mut Bytes) -> Write {
        while !rest.is_empty() {
            self.send.reserve_capacity(rest.len().min(CHUNK));
            let room = poll_fn(|cx| self.send.poll_capacity(cx));
            let room = match timeout(STALL, room).await {
                Ok(Some(Ok(room))) => room.min(rest.len()),
                Ok(_) => return Write::Closed,
                Err(_) => return Write::Stalled,
            };
            if self.send.send_data(rest.split_to(room), false).is_err() {
                return Write::Closed;
            }
        }
        Write::Taken
    }

    pub(crate) fn reset(&mut self) {
        self.send.send_reset(h2::Reason::CANCEL);
    }

    /// Waits for the next message; an error is the status with which the stream ended.
    pub(crate) async fn message(&mut self) -> Result<Bytes> {
        loop {
            if let Some(message) = self.take() {
                return Ok(message);
            }
            if !self.more().await? {
                return Err(anyhow!("{}", self.trailers().await));
            }
        }
    }

    /// Waits for a message, but not for longer than this.
    pub(crate) async fn message_within(&mut self, most: Duration) -> Result<Bytes> {
        timeout(most, self.message()).await.with_context(|| format!("nothing in {most:?}"))?
    }

    /// Reads the answer to a poll to its end: its status and its size.
    pub(crate) async fn whole(&mut self) -> Result<(u16, usize)> {
        let mut size = 0;
        let status = self.head().await?;
        while self.more().await? {
            size += self.read.len();
            self.read.clear();
        }
        Ok((status, size))
    }

    /// Reads pieces of the answer until they are so many bytes, and keeps them.
    pub(crate) async fn takes(&mut self, bytes: usize) -> Result<()> {
        let before = self.read.len();
        while self.read.len() < before + bytes {
            ensure!(self.more().await?, "the answer has ended");
        }
        Ok(())
    }

    /// Waits for the head of the answer, and returns its HTTP status.
    pub(crate) async fn head(&mut self) -> Result<u16> {
        let response = self.response.take().context("its head was read before")?;
        let (head, body) = response.await?.into_parts();
        if let Some(status) = status(&head.headers) {
            return Err(anyhow!("{status}"));
        }
        self.body = Some(body);
        Ok(head.status.as_u16())
    }

    /// Reads one piece of the answer, and returns false at its end.
    async fn more(&mut self) -> Result<bool> {
        if self.body.is_none() {
            self.head().await?;
        }
        let body = self.body.as_mut().context("the head was read")?;
        let Some(chunk) = body.data().await else { return Ok(false) };
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        self.read.extend_from_slice(&chunk);
        Ok(true)
    }

    fn take(&mut self) -> Option<Bytes> {
        let head = self.read.get(1..5)?;
        let size = u32::from_be_bytes(head.try_into().ok()?) as usize;
        if self.read.len() < 5 + size {
            return None;
        }
        self.read.advance(5);
        Some(self.read.split_to(size).freeze())
    }

    async fn trailers(&mut self) -> String {
        let Some(body) = self.body.as_mut() else { return "ended".to_owned() };
        match body.trailers().await {
            Ok(Some(trailers)) => status(&trailers).unwrap_or_else(|| "ended".to_owned()),
            Ok(None) => "ended".to_owned(),
            Err(fault) => fault.to_string(),
        }
    }

    /// The status with which the stream ends, or `open` if it does not end in this time. Messages
    /// are read and dropped.
    pub(crate) async fn end(&mut self, most: Duration) -> String {
        let ends = async {
            loop {
                if let Err(fault) = self.message().await {
                    return fault.to_string();
                }
            }
        };
        timeout(most, ends).await.unwrap_or_else(|_| "open".to_owned())
    }
}

/// The status in headers, with the beginning of its text.
fn status(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let code: usize = text("grpc-status")?.parse().unwrap_or(2);
    let name = CODES.get(code).unwrap_or(&"UNKNOWN");
    let message = text("grpc-message").unwrap_or_default().replace("%20", " ").replace("%60", "`");
    let message: String = message.chars().take(90).collect();
    Some(if message.is_empty() { (*name).to_owned() } else { format!("{name}: {message}") })
}

const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];
