//! Channels: what a program makes calls with.
//!
//! ```text
//!   call:    Channel -> call (wait, decide, pick) -> Sender -> ResponseBody
//!   driver:  XdsConfigWatch -> targets -> trees of clusters -> published
//!   direct:  names of DNS, or addresses -> one tree -> published
//! ```
//!
//! A call reads values that the driver published, without a lock, and waits for the next ones if they
//! have no answer for it yet. Not here: the decisions (`chancery-calls`).

mod body;
mod builder;
mod call;
mod cluster;
pub(crate) mod credentials;
pub(crate) mod deadline;
mod direct;
mod dns;
mod driver;
mod load;
mod ordinary_target;
mod published;
mod security;
mod shared;
mod targets;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use tokio::task::AbortHandle;
use tonic::Status;
use tonic::body::Body;
use tower_service::Service;

pub use self::body::ResponseBody;
pub(crate) use self::builder::options;
pub use self::builder::{ChannelBuilder, ChannelError, ChannelPolicy};
pub use self::call::WaitForReady;
pub use self::credentials::Credentials;
use self::shared::Shared;

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

    fn of(shared: Arc<Shared>, driver: AbortHandle) -> Self {
        Self(Arc::new(Handle { shared, driver }))
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
        let handle = Arc::clone(&self.0);
        let request = request.map(Body::new);
        // The call keeps the channel, so that it goes on when the program drops it.
        Box::pin(async move { call::call(Arc::clone(&handle.shared), request).await })
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel")
            .field("authority", &self.0.shared.authority)
            .finish_non_exhaustive()
    }
}
