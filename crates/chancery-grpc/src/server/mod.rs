//! Servers that a control plane configures (gRFC A36): which connections they take, and which calls.
//!
//! ```text
//!   Server::serve -> Acceptor -> connection (its filter chain) -> call (route, filters) -> the program
//!        ^
//!     driver:  watches of the listener and its routes -> Serving
//! ```
//!
//! One loop owns all of it: what the driver says is in force for the next connection that it accepts. Not here:
//! the decisions (`chancery-calls`), and what resources have to be like (`read`).

mod acceptor;
mod bounded;
mod builder;
mod call;
mod connection;
mod driver;
mod info;
mod linger;
mod notice;
mod peer;
mod route_watches;
mod security;
mod serving;
mod state;
mod tls;
mod verifier;

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_calls::serving::ArrivedConnection;
use http::{Request, Response};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::body::Body;
use tower_service::Service;

use self::acceptor::Acceptor;
pub use self::builder::{ServerBuilder, ServerError};
use self::connection::{Limits, Taken};
use self::driver::Driver;
pub use self::info::ConnectionInfo;
pub use self::state::ServingState;
use self::state::States;
use crate::audit;
use crate::read::quoted;

/// A gRPC server that is configured by a control plane.
///
/// It is bound to an address, and the control plane has a listener for that address. As long as there is none,
/// connections are closed as soon as they are made.
///
/// ```no_run
/// # async fn example<S>(orders: S) -> Result<(), Box<dyn std::error::Error>>
/// # where S: tower_service::Service<http::Request<tonic::body::Body>, Response = http::Response<tonic::body::Body>,
/// #     Error = std::convert::Infallible> + Clone + Send + 'static, S::Future: Send {
/// chancery_grpc::Server::new("0.0.0.0:50051")?.serve(orders).await?;
/// # Ok(())
/// # }
/// ```
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    start: builder::Start,
    states: States,
    limits: Limits,
    max_connections: usize,
    methods: Arc<BTreeSet<String>>,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Server {
    /// Makes a server that is bound to this address, as in `0.0.0.0:50051`, with the bootstrap of the process,
    /// which gRPC programs find by the environment variables `GRPC_XDS_BOOTSTRAP` and
    /// `GRPC_XDS_BOOTSTRAP_CONFIG`.
    ///
    /// # Errors
    /// If the address is malformed or taken, or the bootstrap is missing or cannot be used.
    pub fn new(address: &str) -> Result<Self, ServerError> {
        ServerBuilder::new(address).build()
    }

    /// Returns the address that the server is bound to.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves calls by this service until the future is dropped, which ends all calls. `tonic::service::Routes`
    /// is one, and so are a single generated server and a router of axum.
    ///
    /// Trouble with the control plane is no error: the server keeps what it has, or waits.
    ///
    /// # Errors
    /// If the listening socket cannot be used, or nothing can ever be asked of the control plane.
    pub async fn serve<S, B>(self, service: S) -> Result<(), ServerError>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.serve_with_shutdown(service, std::future::pending()).await
    }

    /// Serves calls by this service until `shutdown` ends. The server takes no connection from then on, tells
    /// its clients to go away, and ends when their calls have ended, or when the
    /// [grace](ServerBuilder::drain_grace) is over.
    ///
    /// # Errors
    /// As for [`serve`](Self::serve).
    pub async fn serve_with_shutdown<S, B>(
        self,
        service: S,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), ServerError>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut acceptor = Acceptor::new(self.listener).map_err(ServerError::Socket)?;
        let mut driver = Driver::new(self.start, self.address, self.states)?;
        let mut connections = JoinSet::new();
        let mut shutdown = std::pin::pin!(shutdown);
        let result = loop {
            tokio::select! {
                () = &mut shutdown => break Ok(()),
                event = driver.event() => if let Err(error) = driver.apply(event) {
                    break Err(error);
                },
                (stream, peer) = acceptor.accept() => {
                    while connections.try_join_next().is_some() {}
                    if connections.len() >= self.max_connections {
                        acceptor.is_full(self.max_connections);
                    } else if let Some(taken) = take(&driver, &stream, peer, &self.methods) {
                        connections.spawn(taken.run(stream, self.limits, service.clone()));
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        };
        drop(acceptor);
        driver.stop();
        // Each connection has a bound: the grace, or the time that its handshake has.
        while connections.join_next().await.is_some() {}
        audit::written(AUDIT_LOG).await;
        result
    }
}

/// The time for the last lines of the audit log, when a server ends.
const AUDIT_LOG: Duration = Duration::from_secs(1);

/// Returns what becomes of a connection; `None` if it is to be closed without a byte (C-140, C-143).
fn take(
    driver: &Driver,
    stream: &TcpStream,
    peer: SocketAddr,
    methods: &Arc<BTreeSet<String>>,
) -> Option<Taken> {
    let serving = driver.serving()?;
    let local = stream.local_addr().ok()?;
    let arrived = ArrivedConnection { local: local.ip(), peer };
    let Some(chain) = serving.choose(&arrived) else {
        tracing::debug!(%peer, %local, "no filter chain matches a connection");
        return None;
    };
    let (drained, methods) = (serving.drained(), Arc::clone(methods));
    Some(Taken { info: ConnectionInfo::new(local, peer), chain, drained, methods })
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Returns what an error of the program or of the control plane says, fit for a status.
fn told(error: &dyn fmt::Display) -> String {
    quoted(&error.to_string()).into_owned()
}
