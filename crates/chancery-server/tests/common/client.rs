//! Clients made of HTTP/2 frames, or of text.

use std::net::SocketAddr;

use bytes::{Buf, Bytes, BytesMut};
use chancery_proto::frames::framed;
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Ping, PingPong, RecvStream, SendStream};
use http::{HeaderMap, Method, Request, Response};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
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

    /// Connects from another address of this machine, such as `127.0.0.2`.
    pub(crate) async fn connect_from(from: [u8; 4], address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        Self::over(socket.connect(address).await.unwrap()).await
    }

    pub(crate) async fn over(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self::with_window(io, 65_535).await
    }

    /// A connection on which the server may send that many bytes before the client has read any.
    pub(crate) async fn with_window(
        io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        window: u32,
    ) -> Self {
        let mut builder = Builder::new();
        builder.initial_window_size(window).initial_connection_window_size(window);
        let (send, mut connection) = within(builder.handshake(io)).await.unwrap();
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

    /// Calls a service and sends it nothing. The call is open until the answer is dropped.
    pub(crate) async fn begin(&self, path: &str) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::post(path).header("content-type", "application/grpc");
        let mut sender = within(self.send.clone().ready()).await.unwrap();
        sender.send_request(request.body(()).unwrap(), false).unwrap()
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

    /// Sends the beginning of a message: its stated length, and as many bytes of it.
    pub(crate) fn send_part(&mut self, length: u32, bytes: usize) {
        let mut part = BytesMut::zeroed(5 + bytes);
        part[1..5].copy_from_slice(&length.to_be_bytes());
        self.send.send_data(part.freeze(), false).unwrap();
    }

    /// Waits for the end of the stream without making room for a byte.
    pub(crate) async fn reset_unread(&mut self) -> Option<h2::Reason> {
        loop {
            match within(self.receive.data()).await {
                Some(Ok(_)) => {}
                Some(Err(error)) => return error.reason(),
                None => return None,
            }
        }
    }

    /// Reads some of a message, and makes room for as much.
    pub(crate) async fn read_some(&mut self) {
        let chunk = within(self.receive.data()).await.unwrap().unwrap();
        self.receive.flow_control().release_capacity(chunk.len()).unwrap();
        self.read.extend_from_slice(&chunk);
    }

    /// Reads some of a message, and makes room for one byte; `Err` is the reason of the end.
    pub(crate) async fn read_a_byte(&mut self) -> Result<(), Option<h2::Reason>> {
        match within(self.receive.data()).await {
            Some(Ok(chunk)) => {
                let room = chunk.len().min(1);
                self.receive.flow_control().release_capacity(room).map_err(|it| it.reason())
            }
            Some(Err(error)) => Err(error.reason()),
            None => Err(None),
        }
    }

    /// Says that there is no more to say.
    pub(crate) fn close(&mut self) {
        self.send.send_data(Bytes::new(), true).unwrap();
    }

    /// The next message; `Err` is the status of the end.
    pub(crate) async fn next<M: Message + Default>(&mut self) -> Result<M, (i32, String)> {
        self.next_bytes().await.map(|message| M::decode(message).unwrap())
    }

    /// The bytes of the next message; `Err` is the status of the end.
    pub(crate) async fn next_bytes(&mut self) -> Result<Bytes, (i32, String)> {
        loop {
            if let Some(message) = self.take() {
                return Ok(message);
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
