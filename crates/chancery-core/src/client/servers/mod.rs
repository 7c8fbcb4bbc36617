//! The servers of a client: their streams, and the requests on them.
//!
//! ```text
//!   [Servers] --> [ServerChannel] --> [DiscoveryStream] --> [ClientSubscription] --> requests
//!                                        while it is open          ^
//!                                                  names that are wanted (cache)
//! ```
//!
//! Nothing is queued: a request is made when the wire has room for it, of the names that are wanted
//! then. Not here: which server of an authority is asked (`cache`, `machine`), and what a response
//! means (`machine`).

mod requests;
mod server;
mod stream;
mod subscription;
mod timers;

use std::collections::BTreeSet;
use std::ops::{Index, IndexMut};

pub(super) use self::server::ServerChannel;
use self::stream::{DiscoveryStream, StreamChange};
pub(super) use self::subscription::ClientSubscription;
use super::cache::ResourceCache;
use super::ids::{ServerId, StreamId};
use super::input::Effect;
use super::lifecycle::StreamEnd;
use super::setup::{Settings, Setup};
use crate::{ResourceName, Time, TypeUrl};

/// All servers of a setup.
#[derive(Debug)]
pub(super) struct Servers {
    all: Vec<ServerChannel>,
    effects: StreamEffects,
}

/// The effects on streams that are due, each once.
#[derive(Debug, Default)]
struct StreamEffects {
    open: BTreeSet<StreamId>,
    close: BTreeSet<StreamId>,
    send: BTreeSet<StreamId>,
}

impl Servers {
    pub(super) fn new(setup: &Setup) -> Self {
        let all =
            setup.servers().map(|(id, server)| ServerChannel::new(id, server.clone())).collect();
        Self { all, effects: StreamEffects::default() }
    }

    /// Returns the server of a stream; `None` for an id of another setup.
    pub(super) fn find(&self, server: ServerId) -> Option<&ServerChannel> {
        self.all.get(server.index())
    }

    /// Returns the server of a stream, if there is such a stream.
    pub(super) fn server_of(&mut self, id: &StreamId) -> Option<&mut ServerChannel> {
        let server = self.all.get_mut(id.server.index())?;
        server.stream(&id.scope).is_some().then_some(server)
    }

    /// A stream ended, or could not be opened. Returns `None` if there was none.
    pub(super) fn ended(
        &mut self,
        now: Time,
        id: &StreamId,
        settings: &Settings,
    ) -> Option<(StreamEnd, &mut DiscoveryStream)> {
        let ended = self.all.get_mut(id.server.index())?.ended(now, &id.scope, settings)?;
        self.effects.send.remove(id);
        Some(ended)
    }

    /// Servers that have had their time may be there although they say nothing.
    pub(super) fn presume_reachable(&mut self, now: Time) {
        self.all.iter_mut().for_each(|server| server.presume_reachable(now));
    }

    /// Returns the next resource that did not come in time.
    pub(super) fn next_timed_out(
        &mut self,
        now: Time,
    ) -> Option<(ServerId, TypeUrl, ResourceName)> {
        self.all.iter_mut().find_map(|server| {
            let (type_url, name) = server.next_timed_out(now)?;
            Some((server.id(), type_url, name))
        })
    }

    /// Opens the streams that are needed, closes the others in time, and says what is due.
    pub(super) fn keep_streams(&mut self, now: Time, settings: &Settings, cache: &ResourceCache) {
        for server in &mut self.all {
            for (id, change) in server.keep_streams(now, settings, cache) {
                self.effects.add(id, change);
            }
            self.effects.send.extend(server.take_send_due(now));
        }
    }

    /// Returns the next effect.
    pub(super) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.next()
    }

    /// Returns the next time at which something follows from the time alone.
    pub(super) fn deadline(&mut self) -> Option<Time> {
        self.all.iter_mut().filter_map(ServerChannel::deadline).min()
    }
}

impl StreamEffects {
    fn add(&mut self, id: StreamId, change: StreamChange) {
        match change {
            StreamChange::Open => {
                self.open.insert(id);
            }
            StreamChange::Close => {
                self.send.remove(&id);
                // The driver has not heard of a stream that it was not yet told to open.
                if !self.open.remove(&id) {
                    self.close.insert(id);
                }
            }
            StreamChange::Drop => {
                self.send.remove(&id);
            }
        }
    }

    fn next(&mut self) -> Option<Effect> {
        let close = self.close.pop_first().map(Effect::Close);
        let open = || self.open.pop_first().map(Effect::Open);
        close.or_else(open).or_else(|| self.send.pop_first().map(Effect::Send))
    }
}

/// An id is one of the setup that the machine was made of, and no server is ever removed.
impl Index<ServerId> for Servers {
    type Output = ServerChannel;

    fn index(&self, server: ServerId) -> &ServerChannel {
        &self.all[server.index()]
    }
}

impl IndexMut<ServerId> for Servers {
    fn index_mut(&mut self, server: ServerId) -> &mut ServerChannel {
        &mut self.all[server.index()]
    }
}
