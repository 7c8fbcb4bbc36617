//! Calls a target through tonic-xds, over and over, and prints one line per call.
//!
//! Usage: `tonic-xds-client TARGET`; the bootstrap comes from `GRPC_XDS_BOOTSTRAP`. Bodies are raw
//! bytes, so that no message has to be generated.

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Request, Status};
use tonic_xds::{XdsChannelBuilder, XdsChannelConfig, XdsUri};

/// Messages as they are on the wire.
#[derive(Clone, Copy, Default)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("usage: tonic-xds-client TARGET")?;
    let config = XdsChannelConfig::new(XdsUri::parse(&target)?);
    let channel = XdsChannelBuilder::new(config).build_grpc_channel()?;
    let mut grpc = tonic::client::Grpc::new(channel);
    let path = PathAndQuery::from_static("/hello.Greeter/SayHello");
    loop {
        let answer = match grpc.ready().await {
            Ok(()) => {
                let mut request = Request::new(Bytes::from_static(b"tonic"));
                request.set_timeout(Duration::from_secs(2));
                grpc.unary(request, path.clone(), BytesCodec).await
            }
            Err(fault) => Err(Status::unavailable(fault.to_string())),
        };
        match answer {
            Ok(reply) => println!("{target}: {}", String::from_utf8_lossy(reply.get_ref())),
            Err(status) => println!("{target}: error {:?} {}", status.code(), status.message()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
