//! The connections of a process, by address and settings: channels that need the same one share it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::subchannel::{Connection, Subchannel};
use super::{ConnectionSettings, Inbox, InboxKey};

/// The connections of a process.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashMap<Key, Weak<Connection>>>);

type Key = (SocketAddr, Arc<ConnectionSettings>);

impl Pool {
    /// Returns the connection to an address for somebody who is told of its states.
    pub(crate) fn subchannel(
        &self,
        address: SocketAddr,
        settings: &Arc<ConnectionSettings>,
        inbox: &Arc<Inbox>,
        key: InboxKey,
    ) -> Subchannel {
        Subchannel::new(self.connection(address, settings), inbox, key)
    }

    fn connection(
        &self,
        address: SocketAddr,
        settings: &Arc<ConnectionSettings>,
    ) -> Arc<Connection> {
        let key = (address, Arc::clone(settings));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.get(&key).and_then(Weak::upgrade) {
            return known;
        }
        // Connections that nobody uses are forgotten when twice as many are known as were in use.
        if all.len() >= all.capacity() {
            all.retain(|_, connection| connection.strong_count() > 0);
        }
        let connection = Connection::new(address, Arc::clone(settings));
        all.insert(key, Arc::downgrade(&connection));
        connection
    }
}
