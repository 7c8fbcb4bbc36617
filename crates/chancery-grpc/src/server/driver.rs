//! The driver of a server: it watches the listener and the routes that it names, and says what is in force.
//!
//! ```text
//!   no listener --listener--> waits for its routes --all answered--> in force
//!                                     ^                                 |
//!                                     +---------another listener--------+   (the old one stays until then)
//! ```
//!
//! Not here: connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use chancery_calls::Failure;
use chancery_client::resource::Received;
use chancery_client::watch::WatchError;
use chancery_client::{Clients, Event, Watch};

use super::builder::{ServerError, Start};
use super::route_watches::{RouteEvent, RouteWatches};
use super::security::ServerSecurity;
use super::serving::Serving;
use super::state::{ServingState, States};
use crate::read::listeners::RouteSource;
use crate::read::server_listeners::ServerListener;
use crate::read::surroundings::decode_for_servers;

/// The driver of a server.
pub(super) struct Driver {
    address: SocketAddr,
    states: States,
    security: ServerSecurity,
    /// The clients of its bootstrap, which are told of as long as it serves.
    _clients: Arc<Clients>,
    listener: Watch<ServerListener>,
    routes: RouteWatches,
    /// A listener that waits for its routes (C-145).
    pending: Option<Pending>,
    serving: Option<Serving>,
}

struct Pending {
    listener: Arc<ServerListener>,
    body: Bytes,
    /// The names of routes that the control plane has not answered for.
    missing: BTreeSet<String>,
}

/// Something that the control plane has said.
pub(super) enum DriverEvent {
    Listener(Option<Event<ServerListener>>),
    Routes(RouteEvent),
}

impl Driver {
    /// Begins to watch the listener of a server at this address.
    pub(super) fn new(
        start: Start,
        address: SocketAddr,
        states: States,
    ) -> Result<Self, ServerError> {
        let client = start.client()?;
        decode_for_servers(&client, start.surroundings());
        let listener = client.watch(start.listener());
        let routes = RouteWatches::new(client);
        let Start { security, clients, .. } = start;
        Ok(Self {
            address,
            states,
            security,
            _clients: clients,
            listener,
            routes,
            pending: None,
            serving: None,
        })
    }

    /// Returns the listener that is in force.
    pub(super) fn serving(&self) -> Option<&Serving> {
        self.serving.as_ref()
    }

    /// Waits for what the control plane says. Dropping the future loses nothing.
    pub(super) async fn event(&mut self) -> DriverEvent {
        tokio::select! {
            event = self.listener.next() => DriverEvent::Listener(event),
            event = self.routes.event() => DriverEvent::Routes(event),
        }
    }

    /// Does what the control plane says.
    pub(super) fn apply(&mut self, event: DriverEvent) -> Result<(), ServerError> {
        match event {
            DriverEvent::Routes(event) => self.take_routes(event),
            DriverEvent::Listener(Some(Event::Changed { value, .. })) => match value {
                Ok(received) => self.take_listener(received),
                Err(error) => self.refuse(&error.text),
            },
            DriverEvent::Listener(Some(Event::Ambient { error: Some(error), .. })) => {
                let address = self.address;
                tracing::warn!(%address, "the last listener stays in use: {}", error.text);
            }
            DriverEvent::Listener(Some(Event::Ambient { error: None, .. } | Event::Complete)) => {}
            DriverEvent::Listener(Some(Event::Failed { error })) => return self.end(error),
            DriverEvent::Listener(None) => {
                let ended = WatchError::broken("the client of the control plane has ended");
                return self.end(Arc::new(ended));
            }
        }
        Ok(())
    }

    /// Ends what is in force, so that connections are drained.
    pub(super) fn stop(&mut self) {
        self.refuse("the server is shutting down");
    }

    fn end(&mut self, error: Arc<WatchError>) -> Result<(), ServerError> {
        self.refuse(&error.text);
        Err(ServerError::Watch(error))
    }

    /// There is no listener that can be used: connections are closed, and calls end as they would (C-140).
    fn refuse(&mut self, why: &str) {
        (self.pending, self.serving) = (None, None);
        self.routes.want(&BTreeSet::new());
        self.states.set(self.address, ServingState::NotServing(why.into()));
    }

    fn take_listener(&mut self, received: Received<ServerListener>) {
        let listener = received.value;
        if !listener.is_for(self.address) {
            let (bound, asked) = (self.address, listener.address);
            let why = format!("the server is bound to {bound}, and its listener is for {asked}");
            return self.refuse(&why);
        }
        let body = received.resource.body().clone();
        if self.serving.as_ref().is_some_and(|serving| serving.body == body) {
            self.pending = None;
            return self.watch_routes();
        }
        let names = listener.chains().iter().filter_map(|chain| match &chain.routes {
            RouteSource::Rds(name) => Some(name.clone()),
            RouteSource::Inline(_) => None,
        });
        let missing = names.filter(|name| self.routes.newest(name).is_none()).collect();
        self.pending = Some(Pending { listener, body, missing });
        self.watch_routes();
        self.switch();
    }

    fn take_routes(&mut self, event: RouteEvent) {
        let Some((name, routes)) = self.routes.apply(event) else { return };
        if let Some(serving) = &self.serving {
            serving.update(&name, &routes);
        }
        if let Some(pending) = &mut self.pending {
            pending.missing.remove(&*name);
        }
        self.switch();
    }

    /// Brings the listener that waits into force, if it has all routes. The one before ends after that, so
    /// that no connection finds none.
    fn switch(&mut self) {
        let Some(pending) = self.pending.take_if(|pending| pending.missing.is_empty()) else {
            return;
        };
        let unknown = || Failure::unavailable("the routes are not known");
        let newest =
            |name: &str| self.routes.newest(name).cloned().unwrap_or_else(|| Err(unknown()));
        let serving = Serving::new(pending.listener, pending.body, &self.security, newest);
        self.serving = Some(serving);
        self.watch_routes();
        self.states.set(self.address, ServingState::Serving);
    }

    /// Watches the routes of the listener that is in force, and of the one that waits.
    fn watch_routes(&mut self) {
        let pending = self.pending.iter().flat_map(|pending| pending.listener.chains());
        let pending = pending.filter_map(|chain| match &chain.routes {
            RouteSource::Rds(name) => Some(name.as_str()),
            RouteSource::Inline(_) => None,
        });
        let serving = self.serving.iter().flat_map(Serving::route_names);
        let names = pending.chain(serving).collect();
        self.routes.want(&names);
    }
}
