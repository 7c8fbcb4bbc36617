//! Discovery over gRPC: one connection for each server, with one stream for all types or for each.
//!
//! A channel is a task. It connects when the machine wants a stream and there is no connection that
//! can take one, and lets the connection go with its last stream (C-039).

mod connection;
mod status;
mod stream;

use std::sync::Arc;

use chancery_core::client::{Server, ServerId};
use chancery_proto::reply::Reader;
use tokio::task::JoinSet;

use crate::dial::unavailable;
use crate::engine::{Engine, Ticket};
use crate::paths::Paths;
use crate::server::passed_on;
use crate::{Address, Alpn, Credentials, Options, XdsServer};
use connection::Connection;

/// One server, spoken to over gRPC.
pub(crate) struct Channel {
    server: Server,
    address: Result<Address, String>,
    credentials: Arc<Credentials>,
    reader: Reader,
    paths: Paths,
    options: Options,
    id: ServerId,
}

/// What every stream of a server needs.
struct Line {
    engine: Arc<Engine>,
    ticket: Ticket,
    credentials: Arc<Credentials>,
    reader: Reader,
    server: Server,
    /// What the server is called in requests.
    authority: Arc<str>,
    paths: Paths,
    limit: usize,
}

impl Channel {
    pub(crate) fn new(
        id: ServerId,
        server: Server,
        xds: &XdsServer,
        reader: Reader,
        paths: Paths,
        options: Options,
    ) -> Self {
        let address = Address::parse(&xds.uri).map_err(|error| error.to_string());
        let credentials = Arc::new(Credentials::new(xds, Alpn::Http2));
        Self { server, address, credentials, reader, paths, options, id }
    }

    /// Serves the streams of this server for as long as the client lives.
    pub(crate) async fn run(self, engine: Arc<Engine>) {
        let mut streams = JoinSet::new();
        let mut connections = JoinSet::new();
        let mut open: Option<Connection> = None;
        loop {
            let ticket = tokio::select! {
                ticket = engine.order(self.id) => ticket,
                Some(ended) = streams.join_next() => {
                    passed_on(ended);
                    if streams.is_empty() {
                        open = None;
                    }
                    continue;
                }
                Some(ended) = connections.join_next() => {
                    passed_on(ended);
                    continue;
                }
            };
            if open.as_ref().is_none_or(|connection| !connection.takes_streams()) {
                open = tokio::select! {
                                   connected = self.connect(&mut connections) => match connected {
                                       Ok(connection) => Some(connection),
                                       Err(why) => {
                engine.ended(&ticket, unavailable(why));
                None
                }
                                   },
                                   () = engine.closed(&ticket) => None,
                               };
            }
            if let Some(connection) = &open {
                streams.spawn(stream::run(self.line(&engine, ticket), connection.sender()));
            }
        }
    }

    async fn connect(&self, connections: &mut JoinSet<()>) -> Result<Connection, String> {
        let address = self.address.as_ref().map_err(Clone::clone)?;
        let connected = connection::connect(address, &self.credentials, &self.options).await;
        let (connection, driver) = connected?;
        connections.spawn(driver);
        Ok(connection)
    }

    fn line(&self, engine: &Arc<Engine>, ticket: Ticket) -> Line {
        Line {
            engine: Arc::clone(engine),
            ticket,
            credentials: Arc::clone(&self.credentials),
            reader: self.reader.clone(),
            server: self.server.clone(),
            authority: self.address.as_ref().map_or_else(|_| "localhost".into(), authority),
            paths: self.paths.clone(),
            limit: self.options.max_response_bytes,
        }
    }
}

/// A socket in the file system has no name of its own.
fn authority(address: &Address) -> Arc<str> {
    match address {
        Address::Tcp { .. } => address.to_string().into(),
        Address::Unix(_) => address.host().into(),
    }
}
