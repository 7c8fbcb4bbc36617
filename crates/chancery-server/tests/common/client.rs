//! Clients made of HTTP/2 frames, or of text.

use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use chancery_proto::frames::framed;
use h2::client::{SendRequest, handshake};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::within;

/// A connection over HTTP/2.
pub(crate) struct Http2Client {
    send: SendRequest<Bytes>,
    pings: PingPong,
    /// Ends with the connection.
    pub(crate) connection: JoinHandle<Result<(), h2::Error>>,
}

/// A gRPC stream.
pub(crate) struct GrpcStream {
    send: SendStream<Bytes>,
    receive: RecvStream,
    read: BytesMut,
}

impl Http2Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let io = TcpStream::connect(address).await.unwrap();
        io.set_nodelay(true).unwrap();
        Self::over(io).await
    }

    pub(crate) async fn over(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (send, mut connection) = within(handshake(io)).await.unwrap();
        let pings = connection.ping_pong().unwrap();
        let connection = tokio::spawn(connection);
        Self { send, pings, connection }
    }

    /// Opens a stream; `Err` is the status of a refusal.
    pub(crate) async fn open(&self, path: &str) -> Result<GrpcStream, (i32, String)> {
        let request = Request::post(path)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .unwrap();
        let mut sender = within(self.send.clone().ready()).await.unwrap();
        let (response, send) = sender.send_request(request, false).unwrap();
        let (head, receive) = within(response).await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-type"], "application/grpc");
        match head.headers.get("grpc-status") {
            Some(_) => Err(status(&head.headers)),
            None => Ok(GrpcStream { send, receive, read: BytesMut::new() }),
        }
    }

    /// Asks a service that does not answer before it was asked, once.
    pub(crate) async fn call(
        &self,
        path: &str,
        message: &impl Message,
    ) -> Result<GrpcStream, (i32, String)> {
        let request = Request::post(path).header("content-type", "application/grpc");
        let mut sender = within(self.send.clone().ready()).await.unwrap();
        let (response, mut send) = sender.send_request(request.body(()).unwrap(), false).unwrap();
        send.send_data(framed(&message.encode_to_vec()), true).unwrap();
        let (head, receive) = within(response).await.unwrap().into_parts();
        match head.headers.get("grpc-status") {
            Some(_) => Err(status(&head.headers)),
            None => Ok(GrpcStream { send, receive, read: BytesMut::new() }),
        }
    }

    /// Sends a request with a body, and reads the answer.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Response<Bytes> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = within(self.send.clone().ready()).await.unwrap();
        let (response, mut send) = sender.send_request(request.body(()).unwrap(), false).unwrap();
        send.send_data(Bytes::from(body.to_owned()), true).unwrap();
        let (head, mut receive) = within(response).await.unwrap().into_parts();
        let mut all = BytesMut::new();
        while let Some(chunk) = within(receive.data()).await {
            let chunk = chunk.unwrap();
            receive.flow_control().release_capacity(chunk.len()).unwrap();
            all.extend_from_slice(&chunk);
        }
        Response::from_parts(head, all.freeze())
    }

    /// Returns true if new streams may be opened, which a GOAWAY ends.
    pub(crate) async fn accepts_streams(&mut self) -> bool {
        self.ping().await;
        let Ok(mut sender) = within(self.send.clone().ready()).await else { return false };
        let request = Request::get("/").body(()).unwrap();
        match sender.send_request(request, true) {
            Ok((response, _)) => within(response).await.is_ok(),
            Err(_) => false,
        }
    }

    pub(crate) async fn ping(&mut self) {
        within(self.pings.ping(Ping::opaque())).await.unwrap();
    }
}

impl GrpcStream {
    pub(crate) fn send(&mut self, message: &impl Message) {
        self.send_bytes(&message.encode_to_vec());
    }

    pub(crate) fn send_bytes(&mut self, message: &[u8]) {
        self.send.send_data(framed(message), false).unwrap();
    }

    /// Says that there is no more to say.
    pub(crate) fn close(&mut self) {
        self.send.send_data(Bytes::new(), true).unwrap();
    }

    /// The next message; `Err` is the status of the end.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<M, (i32, String)> {
        loop {
            if let Some(message) = self.take() {
                return Ok(M::decode(message).unwrap());
            }
            match within(self.receive.data()).await {
                Some(chunk) => {
                    let chunk = chunk.map_err(|error| (-1, error.to_string()))?;
                    self.receive.flow_control().release_capacity(chunk.len()).unwrap();
                    self.read.extend_from_slice(&chunk);
                }
                None => {
                    let trailers = within(self.receive.trailers()).await;
                    return Err(match trailers {
                        Ok(Some(trailers)) => status(&trailers),
                        other => (-1, format!("{other:?}")),
                    });
                }
            }
        }
    }

    /// Waits for the first bytes of a message, and takes no more than them.
    pub(crate) async fn peek(&mut self) {
        let chunk = within(self.receive.data()).await.unwrap().unwrap();
        self.read.extend_from_slice(&chunk);
    }

    fn take(&mut self) -> Option<Bytes> {
        let header = self.read.get(..5)?;
        assert_eq!(header[0], 0, "compressed");
        let size = u32::from_be_bytes(header[1..5].try_into().unwrap()) as usize;
        if self.read.len() < 5 + size {
            return None;
        }
        self.read.advance(5);
        Some(self.read.split_to(size).freeze())
    }
}

fn status(headers: &HeaderMap) -> (i32, String) {
    let text = |name: &str| headers.get(name).map_or("", |value| value.to_str().unwrap());
    (
        text("grpc-status").parse().unwrap(),
        text("grpc-message").replace("%20", " ").replace("%60", "`"),
    )
}

/// Sends text over HTTP/1.1 and reads the answer to its end.
pub(crate) async fn http1(
    io: impl AsyncRead + AsyncWrite + Unpin,
    head: &str,
    body: &str,
) -> String {
    let mut io = io;
    let length = body.len();
    let request =
        format!("{head}\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    within(io.write_all(request.as_bytes())).await.unwrap();
    let mut answer = String::new();
    within(io.read_to_string(&mut answer)).await.unwrap();
    answer
}
