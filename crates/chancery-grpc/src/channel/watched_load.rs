//! The reports of one server about its load that come beside calls: a stream on the connection to it (gRFC A51).
//!
//! It begins again when it ends, until the connection is lost; a server that does not have the service is not asked
//! again before the next connection. Not here: who wants reports (`chancery_calls::balancing`), and that service of a
//! server (`orca`).

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use chancery_calls::balancing::{LoadWatch, LoadWatcher};
use chancery_core::Time;
use http::header::{HeaderValue, USER_AGENT};
use http::uri::{Authority, PathAndQuery};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::body::lost;
use super::call::AGENT;
use crate::connect::{Backoff, Sender};
use crate::dice::ThreadDice;
use crate::orca::{OrcaLoadReport, OrcaLoadReportRequest, STREAM_CORE_METRICS};
use crate::read::quoted;

/// The reports of a server, for as long as this lives.
pub(super) struct WatchedLoad(AbortHandle);

/// The task that reads them.
struct Reading {
    connection: OneConnection,
    address: SocketAddr,
    request: OrcaLoadReportRequest,
    watcher: Arc<dyn LoadWatcher>,
    /// The beginning of the time of the watcher.
    began: Instant,
    backoff: Backoff,
}

/// A connection that sends calls as a client of tonic makes them.
#[derive(Clone)]
struct OneConnection {
    sender: Sender,
    authority: Authority,
}

impl WatchedLoad {
    /// Reads the reports that come on a connection.
    pub(super) fn new(
        sender: Sender,
        authority: Authority,
        address: SocketAddr,
        watch: LoadWatch,
        began: Instant,
    ) -> Self {
        let reading = Reading {
            connection: OneConnection { sender, authority },
            address,
            request: OrcaLoadReportRequest::every(watch.period),
            watcher: watch.watcher,
            began,
            backoff: Backoff::default(),
        };
        Self(tokio::spawn(reading.run()).abort_handle())
    }
}

impl Drop for WatchedLoad {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Reading {
    async fn run(mut self) {
        while !self.connection.sender.is_closed() {
            let stream_began = Instant::now();
            let ended = self.read().await;
            let (address, why) = (self.address, quoted(ended.message()).into_owned());
            if ended.code() == Code::Unimplemented {
                let what = "the server has no reports of its load beside calls";
                return tracing::warn!(%address, "{what} (`OpenRcaService`): {why}");
            }
            tracing::debug!(%address, code = ?ended.code(), "reports of load have ended: {why}");
            sleep_until(stream_began + self.backoff.failed(&mut ThreadDice)).await;
        }
    }

    /// Reads one stream to its end.
    async fn read(&mut self) -> Status {
        let mut client = Grpc::new(self.connection.clone());
        client = client.max_decoding_message_size(LONGEST_REPORT);
        let request = tonic::Request::new(self.request.clone());
        let path = PathAndQuery::from_static(STREAM_CORE_METRICS);
        let codec = ProstCodec::<_, OrcaLoadReport>::default();
        let mut reports = match client.server_streaming(request, path, codec).await {
            Ok(answer) => answer.into_inner(),
            Err(status) => return status,
        };
        loop {
            match reports.message().await {
                Ok(Some(report)) => {
                    self.backoff.succeeded();
                    self.watcher.reported(&report.into(), Time(self.began.elapsed()));
                }
                Ok(None) => return Status::ok("the server has no more to say"),
                Err(status) => return status,
            }
        }
    }
}

impl Service<Request<Body>> for OneConnection {
    type Response = Response<Incoming>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(self.sender.scheme());
        parts.authority = Some(self.authority.clone());
        let uri = Uri::from_parts(parts).map_err(|error| Status::internal(error.to_string()));
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let mut sender = self.sender.clone();
        Box::pin(async move {
            *request.uri_mut() = uri?;
            let answer = sender.try_send_request(request).await;
            answer.map_err(|error| lost(&error.into_error()))
        })
    }
}

/// The bytes of the longest report that is read. A stream with a longer one is as good as one that has broken.
const LONGEST_REPORT: usize = 64 << 10;

#[cfg(test)]
mod tests;
