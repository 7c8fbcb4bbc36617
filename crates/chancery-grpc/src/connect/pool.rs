//! The connections of a process, by address: channels that need the same one share it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::subchannel::{Connection, Subchannel};
use super::{Inbox, InboxKey};

/// The connections of a process.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashMap<SocketAddr, Weak<Connection>>>);

impl Pool {
    /// Returns the connection to an address for somebody who is told of its states.
    pub(crate) fn subchannel(
        &self,
        address: SocketAddr,
        inbox: &Arc<Inbox>,
        key: InboxKey,
    ) -> Subchannel {
        Subchannel::new(self.connection(address), inbox, key)
    }

    fn connection(&self, address: SocketAddr) -> Arc<Connection> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&address).and_then(Weak::upgrade) {
            return known;
        }
        // Connections that nobody uses are forgotten when twice as many are known as were in use.
        if all.len() >= all.capacity() {
            all.retain(|_, connection| connection.strong_count() > 0);
        }
        let connection = Connection::new(address);
        all.insert(address, Arc::downgrade(&connection));
        connection
    }
}
