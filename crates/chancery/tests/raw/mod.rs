//! A server of clusters over SotW that sends any bytes for a resource, and hears what becomes of them.

use bytes::Bytes;
use chancery_proto::frames::{Messages, framed};
use chancery_proto::wire::decode_sotw;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The server. It ends when this is dropped.
pub(crate) struct RawServer {
    pub(crate) address: String,
    pub(crate) rejected: mpsc::UnboundedReceiver<String>,
    _task: JoinSet<()>,
}

impl RawServer {
    /// Answers each first request of a type with these resources: their types, and their bodies.
    pub(crate) async fn start(resources: &[(&str, &[u8])]) -> Self {
        let listener = listen().await;
        let address = listener.local_addr().unwrap().to_string();
        let any = |(inner, body): &(&str, &[u8])| {
            let inner = format!("type.googleapis.com/{inner}");
            field(2, &[field(1, inner.as_bytes()), field(2, body)].concat())
        };
        let resources: Vec<u8> = resources.iter().flat_map(any).collect();
        let (tell, rejected) = mpsc::unbounded_channel();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((io, _)) = listener.accept().await {
                connections.spawn(connection(io, resources.clone(), tell.clone()));
            }
        });
        Self { address, rejected, _task: task }
    }
}

async fn connection(io: TcpStream, resources: Vec<u8>, tell: mpsc::UnboundedSender<String>) {
    let Ok(mut connection) = h2::server::handshake(io).await else { return };
    let mut calls = JoinSet::new();
    while let Some(Ok((request, respond))) = connection.accept().await {
        calls.spawn(call(request, respond, resources.clone(), tell.clone()));
    }
}

async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    resources: Vec<u8>,
    tell: mpsc::UnboundedSender<String>,
) {
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    let mut out: SendStream<Bytes> = respond.send_response(head, false).unwrap();
    let (mut body, mut messages) = (request.into_body(), Messages::new(usize::MAX));
    while let Some(Ok(chunk)) = body.data().await {
        messages.push(chunk);
        while let Some(message) = messages.next().unwrap() {
            let request = decode_sotw(&message).unwrap();
            if let Some(error) = request.error {
                let _ = tell.send(error.message);
            }
            if request.nonce.is_empty() {
                let url = field(4, request.type_url.as_bytes());
                let response = [field(1, b"1"), resources.clone(), url, field(5, b"1")].concat();
                let _ = out.send_data(framed(&response), false);
            }
        }
    }
}

/// A field of fewer than 128 bytes, or of fewer than 16384.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => vec![short],
        _ => vec![(content.len() & 0x7f) as u8 | 0x80, (content.len() >> 7) as u8],
    };
    [vec![number << 3 | 2], length, content.to_vec()].concat()
}

/// A free port below the range of outgoing connections.
async fn listen() -> TcpListener {
    let start = std::process::id() % 12_000;
    for step in 0..12_000 {
        let port = u16::try_from(20_000 + (start + step) % 12_000).unwrap();
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)).await {
            return listener;
        }
    }
    panic!("every port from 20000 on is taken");
}
