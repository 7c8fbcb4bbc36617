//! The task that serves the streams to one server, for each kind of server.

use std::sync::Arc;

use crate::bootstrap::scheme::Scheme;
use crate::engine::Engine;
use crate::grpc::GrpcDriver;
use crate::poll::files::PolledFiles;
use crate::poll::rest::Rest;
use crate::poll::{PollDriver, PolledServer};
use crate::server_context::ServerContext;

/// The driver of one server.
pub(crate) enum ServerDriver {
    /// The server sends responses by itself.
    Streamed(Box<GrpcDriver>),
    /// The server is polled.
    Polled(PollDriver),
}

impl ServerDriver {
    pub(crate) fn new(context: ServerContext) -> Self {
        let id = context.id;
        let server = match context.server.scheme() {
            Ok(Scheme::Rest(uri)) => PolledServer::Rest(Box::new(Rest::new(uri, context))),
            Ok(Scheme::Files(path)) => PolledServer::Files(PolledFiles::new(path, context)),
            // A URI of no known form is an error when the driver connects.
            Ok(Scheme::Grpc) | Err(_) => {
                return Self::Streamed(Box::new(GrpcDriver::new(context)));
            }
        };
        Self::Polled(PollDriver::new(id, server))
    }

    /// Serves the streams of this server for as long as the client lives.
    pub(crate) async fn run(self, engine: Arc<Engine>) {
        match self {
            Self::Streamed(driver) => driver.run(engine).await,
            Self::Polled(driver) => driver.run(engine).await,
        }
    }
}
