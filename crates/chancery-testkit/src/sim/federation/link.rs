//! One stream of the client: the wire, and the server's machine at its other end.
//!
//! A response is made when the wire has room, and read when it has arrived. Not here: the content
//! of the server, and whether it can be reached (`host`), the delays of one direction
//! (`sim::lane`), and the client (`federation`).

use std::sync::Arc;
use std::time::Duration;

use chancery_core::client::{
    self, HeartbeatResource, InvalidResource, ReceivedResource, ResponseItem, StreamId,
};
use chancery_core::server::{Event, Input, Response, ResponseEntry, Settings};
use chancery_core::{Request, Resource, ResourceName, Snapshot, Time, TypeUrl, Variant, server};

use super::double::Draft;
use super::host::is_bad;
use crate::client::Fault;
use crate::compared_machine::ComparedMachine;
use crate::sim::lane::Lane;

/// A stream that the client was told to open.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) state: LinkState,
    /// True if the client may have something to say.
    pub(super) due: bool,
    /// The time at which the wire takes the next request.
    pub(super) writes_from: Time,
    pub(super) up: Lane<Request>,
    pub(super) down: Lane<Response>,
    server: ComparedMachine,
    identified: bool,
    /// The number of responses that the server sent.
    pub(super) sent: usize,
    /// True if the client received one.
    pub(super) heard: bool,
    /// The time at which it ends, and the reason.
    pub(super) ends: Option<(Time, &'static str)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkState {
    /// It is known then whether there is a stream.
    Opening(Time),
    Open,
}

impl Link {
    pub(super) fn new(at: Time, variant: Variant, id: &StreamId, settings: &Arc<Settings>) -> Self {
        Self {
            state: LinkState::Opening(at),
            due: false,
            writes_from: at,
            up: Lane::new(),
            down: Lane::new(),
            server: ComparedMachine::new(variant, id.scope.clone(), Arc::clone(settings)),
            identified: false,
            sent: 0,
            heard: false,
            ends: None,
        }
    }

    /// The next request that has arrived is read by the server. Returns true if there was one.
    pub(super) fn serve(&mut self, now: Time, snapshot: &Arc<Snapshot>) -> Result<bool, Fault> {
        let Some(request) = self.up.receive(now) else { return Ok(false) };
        let events = self.server.handle(now, Input::Request(request)).map_err(broken)?;
        if let Some(fault) = self.server.fault() {
            return Err(Fault(fault.to_owned()));
        }
        if events.iter().any(|it| matches!(it, Event::Identified(_) | Event::Anonymous)) {
            self.identified = true;
            self.publish(now, snapshot)?;
        }
        Ok(true)
    }

    /// Gives the server what it has from now on.
    pub(super) fn publish(&mut self, now: Time, snapshot: &Arc<Snapshot>) -> Result<(), Fault> {
        if !self.identified {
            return Ok(());
        }
        let events = self.server.handle(now, Input::Snapshot(Arc::clone(snapshot)));
        events.map(drop).map_err(broken)
    }

    /// The next response of the server, if there is room for one, and what it said before that.
    pub(super) fn next_response(
        &mut self,
        now: Time,
        window: usize,
        delay: Duration,
        draft: Option<Draft>,
    ) -> Option<(Response, Option<Response>)> {
        if self.down.len() >= window {
            return None;
        }
        let response = self.server.poll(now)?;
        let draft = draft.map(|draft| draft.of(&response));
        for response in draft.iter().chain([&response]) {
            self.down.send(now, delay, response.clone());
            self.sent += 1;
        }
        Some((response, draft))
    }

    /// Returns what the server knows to be wanted of a type: everything or not, and which names.
    pub(super) fn interest(&self, type_url: &TypeUrl) -> (bool, Vec<String>) {
        match self.server.machine().wanted(type_url) {
            Some(wanted) => (wanted.everything(), wanted.names().map(str::to_owned).collect()),
            None => (false, Vec::new()),
        }
    }

    /// Returns the time at which something happens at the server's end. `reads` says whether it
    /// does anything.
    pub(super) fn wake(&self, window: usize, reads: bool, is_read: bool) -> Option<Time> {
        if let LinkState::Opening(at) = self.state {
            return Some(at);
        }
        let has_room = self.down.len() < window && self.ends.is_none();
        let times = [
            self.ends.map(|(at, _)| at),
            self.due.then_some(self.writes_from),
            self.up.arrival().filter(|_| reads),
            self.server.deadline().filter(|_| reads && has_room),
            self.down.arrival().filter(|_| is_read),
        ];
        times.into_iter().flatten().min()
    }
}

fn broken(violation: server::Violation) -> Fault {
    Fault(format!("the client broke the protocol: {violation}"))
}

/// A response as a client reads it.
pub(super) fn read(response: Response) -> client::Response {
    let has_wrappers = response.variant == Variant::Delta || response.wrapped;
    client::Response {
        variant: response.variant,
        resources: response.entries.iter().map(|entry| item(&entry, has_wrappers)).collect(),
        type_url: response.type_url,
        version: response.version,
        nonce: response.nonce,
        removed: response.removed,
        errors: response.errors,
    }
}

fn item(entry: &ResponseEntry, has_wrapper: bool) -> Result<ResponseItem, InvalidResource> {
    let unread =
        |fault: chancery_core::InvalidName| InvalidResource { name: None, why: fault.to_string() };
    let name = ResourceName::read(&entry.name).map_err(unread)?;
    let Some(resource) = entry.resource.as_ref() else {
        return Ok(ResponseItem::Heartbeat(HeartbeatResource {
            name,
            aliases: Vec::new(),
            version: "".into(),
            ttl: None,
        }));
    };
    let version = resource.version().to_string();
    let ttl = resource.ttl().filter(|_| entry.ttl);
    if entry.heartbeat {
        return Ok(ResponseItem::Heartbeat(HeartbeatResource {
            name,
            aliases: Vec::new(),
            version: version.into(),
            ttl,
        }));
    }
    if is_bad(resource.body()) {
        return Err(InvalidResource { name: Some(name), why: "it is bad".to_owned() });
    }
    let read = Resource::new(name, resource.body().clone()).with_ttl(ttl);
    let read = if has_wrapper { read.with_version(&version) } else { read };
    Ok(ResponseItem::Resource(ReceivedResource { resource: Arc::new(read), decoded: None }))
}
