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
}

/// Ends the tasks of the client, which nobody uses any more.
impl Drop for Session {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}
