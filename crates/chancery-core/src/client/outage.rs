//! Servers that cannot be reached: when that is so (C-067), and who hears of it (C-090).
//!
//! Not here: which server is asked then (`fallback`), and when it is tried again (`backoff`).

use std::sync::Arc;
use std::time::Duration;

use super::servers::server::StreamState;
use super::{ErrorKind, Event, Machine, StreamId, WatchError};
use crate::{ErrorDetail, Time};

impl Machine {
    /// A stream ended, or could not be opened.
    pub(super) fn ended(&mut self, now: Time, id: &StreamId, error: &ErrorDetail) {
        let Some(channel) = self.servers.get_mut(id.server.index()) else { return };
        let Some(stream) = channel.streams.get_mut(&id.scope) else { return };
        if !matches!(stream.state, StreamState::Open | StreamState::Opening) {
            return;
        }
        self.effects.send.remove(id);
        let number = id.server.index() as u64;
        let is_trouble = stream.end(now, &self.setup.settings, number);
        let was_in_trouble = stream.outage.is_some();
        if is_trouble && !was_in_trouble {
            let text = format!(
                "server {} cannot be reached (node `{}`): {}",
                channel.setup.key.uri, self.setup.node.id, error.message
            );
            stream.outage = Some(Arc::new(WatchError {
                kind: ErrorKind::Unreachable,
                text: text.into(),
                server: Some(id.server),
                is_nameless: false,
            }));
        }
        let wait = stream.next_attempt().map_or(Duration::ZERO, |at| at.0.saturating_sub(now.0));
        if is_trouble && was_in_trouble {
            self.repeat_trouble(id);
        }
        let (stream, error) = (id.clone(), error.clone());
        self.events.push(Event::Ended { stream, error, is_trouble, wait });
    }

    /// C-090: watchers hear of servers that cannot be reached when there is no other to ask.
    pub(super) fn spread_trouble(&mut self) {
        for realm in self.authorities.values_mut() {
            let believed = realm.active_server().and_then(|id| self.servers.get(id.index()));
            let is_last = realm.is_at_last();
            for (type_url, shelf) in &mut realm.types {
                let trouble = believed.and_then(|channel| channel.outage_of(type_url));
                if trouble != shelf.outage.as_ref() {
                    shelf.outage = trouble.cloned();
                    shelf.set_outage(is_last, &mut self.watchers);
                }
            }
        }
    }

    /// A stream failed that had failed before.
    fn repeat_trouble(&mut self, id: &StreamId) {
        for realm in
            self.authorities.values_mut().filter(|it| it.active_server() == Some(id.server))
        {
            let is_last = realm.is_at_last();
            let shelves = realm.types.iter_mut().filter(|(type_url, _)| id.scope.carries(type_url));
            shelves.for_each(|(_, shelf)| shelf.repeat_outage(is_last, &mut self.watchers));
        }
    }
}
