//! Channels: what a program makes calls with.
//!
//! ```text
//!   call:    Channel -> call (wait, decide) -> filters -> attempts (pick) -> Sender -> ResponseBody
//!   driver:  XdsConfigWatch -> targets -> trees of clusters -> published
//!   direct:  names of DNS, or addresses -> one tree -> published
//! ```
//!
//! A call reads values that the driver published, without a lock, and waits for the next ones if they
//! have no answer for it yet. Not here: the decisions (`chancery-calls`).

mod attempts;
mod awaited;
mod body;
mod builder;
mod call;
mod cluster;
pub(crate) mod credentials;
pub(crate) mod deadline;
mod direct;
mod dns;
mod driver;
mod environment_proxy;
mod explain;
mod explanation;
mod filters;
mod leaves;
mod load;
mod ordinary_target;
mod outdated;
mod pick;
mod place;
mod published;
mod replay;
mod security;
mod senders;
mod sessions;
mod shared;
mod targets;
mod watched_load;
mod ways;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chancery_client::Clients;
use http::{HeaderMap, Request, Response};
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

pub use self::body::ResponseBody;
pub(crate) use self::builder::options;
pub use self::builder::{ChannelBuilder, ChannelError, ChannelPolicy};
pub use self::call::WaitForReady;
pub use self::credentials::Credentials;
pub use self::explanation::{
    CallExplanation, ExplainedCluster, ExplainedFilter, ExplainedOutcome, ExplainedPlace,
    ExplainedRoute, PassedRoute,
};
pub use self::place::CallPlace;
use self::shared::Shared;
use crate::metrics;

/// A channel to the service of a target: `xds:///orders`, or one without a control plane, as in
/// `dns:///orders.example:443` or `https://orders.example`. Cloning it is cheap, and clones share everything.
///
/// It is a [`Service`] of HTTP requests, which generated clients of tonic take:
///
/// ```no_run
/// # async fn example() -> Result<(), chancery_grpc::ChannelError> {
/// let channel = chancery_grpc::Channel::new("xds:///orders:8080")?;
/// let mut client = tonic::client::Grpc::new(channel);
/// # let _ = &mut client;
/// # Ok(())
/// # }
/// ```
///
/// Calls wait until the control plane has said where they go, and while connections are made; they
/// fail at once when that has failed, unless they are marked with [`WaitForReady`].
#[derive(Clone)]
pub struct Channel(Arc<Handle>);

/// The channel, until its last clone is dropped.
struct Handle {
    shared: Arc<Shared>,
    driver: AbortHandle,
    /// The clients of its bootstrap, which are told of as long as it is used.
    _clients: Option<Arc<Clients>>,
}

impl Channel {
    /// Makes a channel, to an `xds:` target with the bootstrap of the process, which gRPC programs find by the
    /// environment variables `GRPC_XDS_BOOTSTRAP` and `GRPC_XDS_BOOTSTRAP_CONFIG`.
    ///
    /// # Errors
    /// If the target is malformed, or says not how connections are secured, or the bootstrap is missing or cannot
    /// be used.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    pub fn new(target: &str) -> Result<Self, ChannelError> {
        ChannelBuilder::new(target).build()
    }

    /// Explains the way that a call of this method, as `/orders.v1.Orders/Get`, with these headers would take.
    /// It waits as a call does until there is a configuration, and until connections that are being made are
    /// there or have failed, for as long as `limit` and not much more.
    ///
    /// It makes no call: nothing is sent and nothing is connected, and no turn of an endpoint is used up. Parts
    /// of the calls that routes or clusters share or drop by chance have their chances in the text; of weighted
    /// clusters the explanation follows one, as the dice say. Attempts after the
    /// first are not a part of it.
    pub async fn explain(
        &self,
        method: &str,
        headers: &HeaderMap,
        limit: Duration,
    ) -> CallExplanation {
        explain::explain(&self.0.shared, method, headers, limit).await
    }

    fn of(shared: Arc<Shared>, driver: AbortHandle, clients: Option<Arc<Clients>>) -> Self {
        Self(Arc::new(Handle { shared, driver, _clients: clients }))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl<B> Service<Request<B>> for Channel
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<ResponseBody>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    /// A channel always takes another call: the call waits by itself.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The call keeps the channel, so that it goes on when the program drops it.
        let (handle, request) = (Arc::clone(&self.0), request.map(Body::new));
        match metrics::recorder() {
            None => Box::pin(call::call(handle, request, None)),
            Some(_) => Box::pin(call::measured(handle, request)),
        }
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("authority", &self.0.shared.authority)
            .finish_non_exhaustive()
    }
}
