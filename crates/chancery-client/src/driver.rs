//! One server of a client, whatever it is: the task that serves the streams the machine wants of it.

use std::sync::Arc;

use chancery_core::client::{self, ServerId};
use chancery_proto::reply::Reader;

use crate::bootstrap::XdsServer;
use crate::bootstrap::scheme::Scheme;
use crate::engine::Engine;
use crate::grpc;
use crate::options::Options;
use crate::poll::files::Files;
use crate::poll::rest::Rest;
use crate::poll::{PollDriver, PolledServer};
use crate::service_paths::ServicePaths;

/// One server.
pub(crate) enum ServerDriver {
    /// It speaks by itself.
    Streamed(Box<grpc::GrpcDriver>),
    /// It is asked again and again.
    Polled(PollDriver),
}

impl ServerDriver {
    pub(crate) fn new(
        id: ServerId,
        server: client::ServerSetup,
        xds: &XdsServer,
        reader: Reader,
        paths: ServicePaths,
        options: Options,
    ) -> Self {
        let source = match xds.scheme() {
            Ok(Scheme::Rest(uri)) => {
                PolledServer::Rest(Box::new(Rest::new(uri, xds, reader, paths, options)))
            }
            Ok(Scheme::Files(path)) => PolledServer::Files(Files::new(path, reader, &options)),
            // That a URI says nowhere is told when it is connected to.
            Ok(Scheme::Grpc) | Err(_) => {
                let driver = grpc::GrpcDriver::new(id, server, xds, reader, paths, options);
                return Self::Streamed(Box::new(driver));
            }
        };
        Self::Polled(PollDriver::new(id, source))
    }

    /// Serves the streams of this server for as long as the client lives.
    pub(crate) async fn run(self, engine: Arc<Engine>) {
        match self {
            Self::Streamed(driver) => driver.run(engine).await,
            Self::Polled(driver) => driver.run(engine).await,
        }
    }
}
