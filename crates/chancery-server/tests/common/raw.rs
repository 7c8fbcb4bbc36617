//! A client whose frames are the test's own.

use chancery_proto::frames::framed;
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::message::{SotwRequest, SotwResponse};
use super::{ADS_SOTW, CDS, Running, within};

/// A peer that reads when the test says so.
pub(crate) struct RawPeer(pub(crate) TcpStream);

impl RawPeer {
    /// Subscribes with windows that never fill, as Envoy does.
    pub(crate) async fn subscribe(server: &Running) -> Self {
        let mut peer = Self::open(server, u32::MAX >> 1).await;
        let message = SotwRequest::first(CDS, &[]).encode_to_vec();
        peer.write(&data(&framed(&message))).await;
        peer
    }

    /// Opens a stream, which has this window.
    pub(crate) async fn open(server: &Running, window: u32) -> Self {
        let io = within(TcpStream::connect(server.address)).await.unwrap();
        let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        said.extend(frame(4, 0, 0, &[&[0, 4][..], &window.to_be_bytes()].concat()));
        said.extend(frame(8, 0, 0, &[0x7f, 0xff, 0, 0]));
        said.extend(frame(1, 4, 1, &request_headers()));
        let mut peer = Self(io);
        peer.write(&said).await;
        peer
    }

    /// Subscribes, and takes no byte of the response. Returns when the response has begun.
    pub(crate) async fn stall(server: &Running) -> Self {
        let mut peer = Self::open(server, 0).await;
        let message = SotwRequest::first(CDS, &[]).encode_to_vec();
        peer.write(&data(&framed(&message))).await;
        while peer.frame().await.unwrap().0 != 1 {}
        peer
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        within(self.0.write_all(bytes)).await.unwrap();
    }

    pub(crate) async fn frame(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 9];
        within(self.0.read_exact(&mut head)).await?;
        let mut body = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        within(self.0.read_exact(&mut body)).await?;
        if head[3..5] == [6, 0] {
            // A server that says goodbye waits for the answer to a ping.
            within(self.0.write_all(&frame(6, 1, 0, &body))).await?;
        }
        Ok((head[3], body))
    }

    /// Reads one message of the stream.
    pub(crate) async fn message(&mut self) -> SotwResponse {
        let mut read = Vec::new();
        loop {
            let (kind, body) = self.frame().await.unwrap();
            if kind == 0 {
                read.extend(body);
            }
            let Some(length) = read.get(1..5) else { continue };
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            if read.len() == 5 + length {
                return SotwResponse::decode(&read[5..]).unwrap();
            }
        }
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), body].concat()
}

/// A frame with a part of the body of the request.
pub(crate) fn data(bytes: &[u8]) -> Vec<u8> {
    frame(0, 0, 1, bytes)
}

/// `POST`, `http`, the path, and the headers of gRPC, in the form that needs no table.
fn request_headers() -> Vec<u8> {
    let text = |name: u8, value: &str| {
        let length = u8::try_from(value.len()).unwrap();
        assert!(length < 127);
        [&[name, length][..], value.as_bytes()].concat()
    };
    let content_type = [&[0x0f][..], &text(0x10, "application/grpc")].concat();
    [&[0x83, 0x86][..], &text(0x04, ADS_SOTW), &text(0x01, "x"), &content_type].concat()
}
