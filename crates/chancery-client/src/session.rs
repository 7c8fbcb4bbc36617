//! The session: all that the clones of a client, its watches and its load counters share. The
//! client lives for as long as one of them does.

use std::sync::Arc;

use chancery_core::client::ServerId;
use tokio::task::JoinHandle;

use crate::engine::Engine;
use crate::report_driver::ReportDrivers;
use crate::resource::Decoders;

/// One client, shared by all who use it.
pub(crate) struct Session {
    pub(crate) engine: Arc<Engine>,
    pub(crate) decoders: Arc<Decoders>,
    pub(crate) report_drivers: ReportDrivers,
    /// The task that owns all others.
    pub(crate) keeper: JoinHandle<()>,
}

impl Session {
    /// Returns the URI of a server; empty if the client has no such server.
    pub(crate) fn uri(&self, server: ServerId) -> Arc<str> {
        self.engine.inspect(|machine| {
            let found = machine.setup().find(server);
            found.map_or_else(|| "".into(), |server| Arc::clone(&server.key.uri))
        })
    }

    /// Has everything sent that servers have not got yet, and then the streams ended.
    pub(crate) fn begin_close(&self) {
        self.engine.begin_close();
        self.report_drivers.begin_close();
    }

    /// Waits until there are no streams.
    pub(crate) async fn streams_ended(&self) {
        tokio::join!(self.engine.streams_ended(), self.report_drivers.streams_ended());
    }
}

/// Ends the tasks of the client, which nobody uses any more.
impl Drop for Session {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}
