//! Discovery and load reports over gRPC.
//!
//! For discovery, each server has one connection, with one stream for all types or one for each.
//! Its driver is a task. It connects when the machine wants a stream and no open connection takes
//! another one, and closes the connection with its last stream (C-039). Load reports have a
//! connection of their own ([`report_stream`]).

mod report_stream;
mod stream;

use std::pin::pin;
use std::sync::Arc;

use tokio::task::JoinSet;

use self::stream::StreamTask;
use crate::calls::client::Caller;
use crate::calls::connection::Http2Connection;
use crate::engine::{Engine, StreamHandle};
use crate::errors::unavailable;
use crate::server_context::ServerContext;
use crate::tasks::pass_panic_on;
pub(crate) use report_stream::ReportStream;

/// The driver of one gRPC server.
pub(crate) struct GrpcDriver {
    context: Arc<ServerContext>,
    caller: Arc<Caller>,
}

impl GrpcDriver {
    pub(crate) fn new(context: ServerContext) -> Self {
        let caller = Arc::new(Caller::new(&context.server, context.options.clone()));
        Self { context: Arc::new(context), caller }
    }

    /// Serves the streams of this server for as long as the client lives.
    pub(crate) async fn run(self, engine: Arc<Engine>) {
        let mut streams = JoinSet::new();
        let mut connections = JoinSet::new();
        let mut open: Option<Http2Connection> = None;
        loop {
            let handle = tokio::select! {
                handle = engine.stream_to_open(self.context.id) => handle,
                Some(ended) = streams.join_next() => {
                    pass_panic_on(ended);
                    if streams.is_empty() {
                        open = None;
                    }
                    continue;
                }
                Some(ended) = connections.join_next() => {
                    pass_panic_on(ended);
                    continue;
                }
            };
            let mut waiting = vec![handle];
            if open.as_ref().is_none_or(|connection| !connection.takes_streams()) {
                open = self.connect(&engine, &mut waiting, &mut connections).await;
            }
            for handle in waiting {
                if let Some(connection) = &open {
                    streams.spawn(self.stream(&engine, handle).run(connection.sender()));
                }
            }
        }
    }

    /// Makes a connection for the streams that wait for it, and for those that the machine wants
    /// meanwhile. It stops if all of them are closed. An error ends all of them together, so that
    /// they do not wait for one connection after the other.
    async fn connect(
        &self,
        engine: &Engine,
        waiting: &mut Vec<StreamHandle>,
        connections: &mut JoinSet<()>,
    ) -> Option<Http2Connection> {
        let mut connect = pin!(self.caller.connect());
        let connected = loop {
            let first = waiting.first()?;
            tokio::select! {
                connected = &mut connect => break connected,
                () = engine.closed(first) => drop(waiting.remove(0)),
                handle = engine.stream_to_open(self.context.id) => waiting.push(handle),
            }
        };
        match connected {
            Ok((connection, driver)) => {
                connections.spawn(driver);
                Some(connection)
            }
            Err(why) => {
                for handle in waiting.drain(..) {
                    engine.ended(&handle, unavailable(why.clone()));
                }
                None
            }
        }
    }

    fn stream(&self, engine: &Arc<Engine>, handle: StreamHandle) -> StreamTask {
        StreamTask {
            engine: Arc::clone(engine),
            handle,
            caller: Arc::clone(&self.caller),
            context: Arc::clone(&self.context),
        }
    }
}
