//! A reference client on a real wire: protobuf in gRPC frames on raw HTTP/2, over any byte stream.
#![allow(dead_code, clippy::unwrap_used, reason = "each test uses its part, and fails by panics")]

mod wire;

use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use chancery_core::{Resource, Snapshot, Time, TypeUrl, Variant};
use chancery_testkit::client::{Client, Fault, Verdict};
use h2::client::handshake;
use h2::{Ping, PingPong, RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, timeout};

pub(crate) fn clusters() -> TypeUrl {
    TypeUrl::new("envoy.config.cluster.v3.Cluster")
}

pub(crate) fn endpoints() -> TypeUrl {
    TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment")
}

/// A cluster or an assignment: both have their name in field 1. The revision is in a field that
/// neither has, so that the content differs.
pub(crate) fn resource(name: &str, revision: u32) -> Resource {
    Resource::new(name.parse().unwrap(), wire::named(name, revision))
}

/// Clusters and as many assignments, by name and revision.
pub(crate) fn snapshot(named: &[(&str, u32)]) -> Snapshot {
    let mut snapshot = Snapshot::new();
    for (name, revision) in named {
        snapshot.insert(&clusters(), resource(name, *revision));
        snapshot.insert(&endpoints(), resource(name, *revision));
    }
    snapshot
}

/// The resources a client holds, as text.
pub(crate) fn holds(client: &Client, type_url: &TypeUrl) -> Vec<String> {
    let held = client.held(type_url);
    held.map(|(name, holding)| format!("{name}@{}", wire::revision(&holding.resource))).collect()
}

/// The verdict that rejects revision 13.
pub(crate) fn judge(_: &TypeUrl, resource: &Resource) -> Verdict {
    match wire::revision(resource) {
        13 => Verdict::Bad("it is unlucky".to_owned()),
        _ => Verdict::Good,
    }
}

/// A gRPC stream that speaks for a reference client.
pub(crate) struct ReferenceStream {
    variant: Variant,
    send: SendStream<Bytes>,
    receive: RecvStream,
    pings: PingPong,
    read: BytesMut,
    begun: Instant,
}

/// The reason for the end of a stream.
#[derive(Debug)]
pub(crate) enum Ended {
    Lost(String),
    Broken(Fault),
}

impl ReferenceStream {
    /// Opens an aggregated stream.
    pub(crate) async fn open<I>(io: I, variant: Variant) -> Result<Self, Ended>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (send, mut connection) = within(handshake(io)).await?.map_err(lost)?;
        let pings = connection.ping_pong().ok_or_else(|| lost("no pings"))?;
        tokio::spawn(connection);
        let method = match variant {
            Variant::Sotw => "StreamAggregatedResources",
            Variant::Delta => "DeltaAggregatedResources",
        };
        let path = format!("/envoy.service.discovery.v3.AggregatedDiscoveryService/{method}");
        let request = http::Request::post(path)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(lost)?;
        let mut ready = within(send.ready()).await?.map_err(lost)?;
        let (response, send) = ready.send_request(request, false).map_err(lost)?;
        let (head, receive) = within(response).await?.map_err(lost)?.into_parts();
        if head.status != 200 || head.headers.contains_key("grpc-status") {
            return Err(lost(format!("{head:?}")));
        }
        let (read, begun) = (BytesMut::new(), Instant::now());
        Ok(Self { variant, send, receive, pings, read, begun })
    }

    /// Sends the requests that the client has to send.
    pub(crate) fn flush(&mut self, client: &mut Client) -> Result<(), Ended> {
        while let Some(request) = client.poll() {
            let message = wire::encode(&request);
            let mut frame = BytesMut::with_capacity(message.len() + 5);
            frame.put_u8(0);
            frame.put_u32(u32::try_from(message.len()).map_err(lost)?);
            frame.extend_from_slice(&message);
            self.send.send_data(frame.freeze(), false).map_err(lost)?;
        }
        Ok(())
    }

    /// Waits for a response, probes the connection meanwhile, and gives the response to the client.
    /// Returns it as text.
    pub(crate) async fn next(&mut self, client: &mut Client) -> Result<String, Ended> {
        let message = loop {
            if let Some(message) = self.message() {
                break message;
            }
            match timeout(QUIET, self.receive.data()).await {
                Err(_) => {
                    within(self.pings.ping(Ping::opaque())).await?.map_err(lost)?;
                }
                Ok(Some(chunk)) => {
                    let chunk = chunk.map_err(lost)?;
                    self.receive.flow_control().release_capacity(chunk.len()).map_err(lost)?;
                    self.read.extend_from_slice(&chunk);
                }
                Ok(None) => return Err(lost("the server ended the stream")),
            }
        };
        let response = wire::decode(self.variant, &message).map_err(lost)?;
        let now = Time(self.begun.elapsed());
        client.receive(now, &response).map_err(Ended::Broken)?;
        let names = response.entries.iter().filter_map(|entry| {
            let resource = entry.resource.as_ref()?;
            Some(format!("{}@{}", entry.name, wire::revision(resource)))
        });
        let removed = response.removed.iter().map(|name| format!("-{name}"));
        let all: Vec<_> = names.chain(removed).collect();
        Ok(format!("{} {}", response.type_url.short(), all.join(" ")))
    }

    /// The next whole message that was read.
    fn message(&mut self) -> Option<Bytes> {
        let header = self.read.get(..5)?;
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if self.read.len() < length + 5 {
            return None;
        }
        self.read.advance(5);
        Some(self.read.split_to(length).freeze())
    }
}

fn lost(why: impl ToString) -> Ended {
    Ended::Lost(why.to_string())
}

async fn within<F: Future>(future: F) -> Result<F::Output, Ended> {
    timeout(PATIENCE, future).await.map_err(|_| lost("no answer in time"))
}

/// The silence after which the connection is probed.
const QUIET: Duration = Duration::from_secs(2);
/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(3);
