//! HTTP/2 of one connection: requests, pings and GOAWAY. `h2` reads and makes the frames.
//!
//! A request becomes a stream of the connection's executor. Not here: the polling of streams
//! (`executor`), the response to one request (`stream`), and the times of pings (`keepalive`) and
//! of the end (`lifetime`).

use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::server::{Builder, Connection, SendResponse};
use h2::{Ping, PingPong, Reason, RecvStream};
use http::{Method, Request};
use tokio::io::{AsyncRead, AsyncWrite};

use super::executor::{Cork, StreamSet};
use super::responder::Responder;
use super::stream::Http2Stream;
use crate::config::Limits;
use crate::request_body::{Http2Body, RequestBody};

/// The flow-control window for requests, of a stream and of the connection, in bytes.
const WINDOW: u32 = 1 << 20;
/// The limit for the head of a request, in bytes.
const MAX_HEAD: u32 = 16 << 10;
/// The number of bytes of one stream that h2 buffers before it has to send some.
const MAX_SEND_BUFFER: usize = 64 << 10;

/// HTTP/2 of one connection.
pub(super) struct Http2<I> {
    connection: Connection<Cork<I>, Bytes>,
    pings: Option<PingPong>,
    ping: PingState,
}

/// The state of the last ping.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PingState {
    Idle,
    Sent,
    Answered,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Http2<I> {
    /// Starts HTTP/2. The client's preface is in `io` already, so this does not wait.
    ///
    /// # Errors
    /// When `io` fails.
    pub(super) async fn begin(io: Cork<I>, limits: &Limits) -> Result<Self, h2::Error> {
        let connection = Builder::new()
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .max_header_list_size(MAX_HEAD)
            .max_send_buffer_size(MAX_SEND_BUFFER)
            .max_concurrent_streams(limits.max_streams_per_connection)
            .handshake(io)
            .await?;
        Ok(Self { connection, pings: None, ping: PingState::Idle })
    }

    /// Reads, writes, and adds the requests that came to the streams. Ready when the connection is
    /// over.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        responder: &Responder,
        streams: &mut StreamSet<Http2Stream>,
    ) -> Poll<Result<(), h2::Error>> {
        if self.ping == PingState::Sent {
            self.poll_pong(cx);
        }
        while let Some(accepted) = ready!(self.connection.poll_accept(cx)) {
            let (request, reply) = accepted?;
            streams.insert(stream(responder, request, reply));
        }
        Poll::Ready(Ok(()))
    }

    /// Tells the client to open no more streams. The connection ends with its last stream.
    pub(super) fn graceful_shutdown(&mut self) {
        self.connection.graceful_shutdown();
    }

    /// Ends all streams and the connection.
    pub(super) fn abrupt_shutdown(&mut self, reason: Reason) {
        self.connection.abrupt_shutdown(reason);
    }

    /// Sends a ping to the peer.
    pub(super) fn send_ping(&mut self) {
        if self.pings.is_none() {
            self.pings = self.connection.ping_pong();
        }
        let sent = self.pings.as_mut().map(|pings| pings.send_ping(Ping::opaque()));
        if let Some(Ok(())) = sent {
            self.ping = PingState::Sent;
        }
    }

    /// Returns true, once, if the peer answered the last ping.
    pub(super) fn take_pong(&mut self) -> bool {
        let answered = self.ping == PingState::Answered;
        if answered {
            self.ping = PingState::Idle;
        }
        answered
    }

    fn poll_pong(&mut self, cx: &mut Context<'_>) {
        if let Some(pings) = &mut self.pings
            && let Poll::Ready(Ok(_)) = pings.poll_pong(cx)
        {
            self.ping = PingState::Answered;
        }
    }
}

fn stream(
    responder: &Responder,
    request: Request<RecvStream>,
    reply: SendResponse<Bytes>,
) -> Http2Stream {
    let head_only = request.method() == Method::HEAD;
    let (head, body) = request.into_parts();
    let body = Http2Body::new(&head.headers, body, &responder.context.activity);
    let response = responder
        .services
        .answer(&responder.context, Request::from_parts(head, RequestBody::Http2(body)));
    Http2Stream::new(response, reply, responder, head_only)
}
