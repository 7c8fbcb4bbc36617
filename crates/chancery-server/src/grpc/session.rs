//! One stream: its machine, who it belongs to, and what is told about it.
//!
//! The protocol is decided by [`chancery_core::ads::Server`] alone. Here bytes become its inputs,
//! its responses become bytes, and its events become logs, metrics and calls of the policy.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use chancery_core::{
    Event, Input, Node, Request, Response, Scope, Time, TypeUrl, Variant, Violation, ads,
};
use chancery_proto::wire;
use tokio::time::Instant;
use tonic::Status;
use tracing::{debug, warn};

use super::framing::{Frames, frame};
use crate::metrics::{StreamLabels, TypeLabels, observe};
use crate::policy::{Client, Peer};
use crate::shared::{Shared, Slot};
use crate::store::{State, Watch};
use crate::{Happened, StreamEvent};

/// One stream.
pub(crate) struct Session {
    slot: Slot,
    id: u64,
    peer: Arc<Peer>,
    variant: Variant,
    /// The one type the stream is for; `None` if it is aggregated.
    only: Option<TypeUrl>,
    machine: ads::Server,
    started: Instant,
    identity: Identity,
    watch: Option<Watch>,
    /// When what the client should see was published.
    published: Option<Instant>,
    epoch: u64,
    types: BTreeMap<TypeUrl, Times>,
    answered: bool,
    /// With which status the server ended it.
    ended: Option<i32>,
}

/// Who the client is, as the machine says.
enum Identity {
    Unheard,
    Anonymous,
    Known(Arc<Node>),
}

/// What is measured about one type.
#[derive(Default)]
struct Times {
    /// When it was asked for, until it is answered.
    asked: Option<Instant>,
    /// When what was sent last had been published, until it is accepted.
    published: Option<Instant>,
    warned_of_size: bool,
}

impl Session {
    pub(crate) fn open(
        slot: Slot,
        peer: Arc<Peer>,
        variant: Variant,
        only: Option<TypeUrl>,
    ) -> Self {
        let shared = slot.shared();
        let scope = only.clone().map_or(Scope::Aggregated, Scope::Only);
        let session = Self {
            id: shared.next_stream(),
            machine: ads::Server::new(variant, scope, shared.settings(&peer)),
            slot,
            peer,
            variant,
            only,
            started: Instant::now(),
            identity: Identity::Unheard,
            watch: None,
            published: None,
            epoch: 0,
            types: BTreeMap::new(),
            answered: false,
            ended: None,
        };
        let labels = session.labels();
        let metrics = &session.shared().metrics;
        metrics.streams.get_or_create(&labels).inc();
        metrics.streams_opened.get_or_create(&labels).inc();
        session.observe(Happened::Connected { variant, type_url: session.only.as_ref() });
        session
    }

    /// Takes one message of the client.
    ///
    /// # Errors
    /// With the status to end the stream with.
    pub(crate) fn receive(&mut self, message: &Bytes) -> Result<(), Status> {
        let request = match self.variant {
            Variant::Sotw => wire::decode_sotw(message).map(Request::Sotw),
            Variant::Delta => wire::decode_delta(message).map(Request::Delta),
        };
        let request = request.map_err(|error| Status::invalid_argument(error.to_string()))?;
        self.handle(Input::Request(request))
    }

    /// Takes what its group should see, if that is news.
    ///
    /// # Errors
    /// With the status to end the stream with.
    pub(crate) fn poll_group(&mut self, cx: &mut Context<'_>) -> Result<(), Status> {
        while let Some(watch) = &mut self.watch {
            let Poll::Ready(state) = watch.poll_state(cx) else { break };
            self.see(state)?;
        }
        Ok(())
    }

    /// Adds the next response, if there is one; `false` if not.
    pub(crate) fn respond(&mut self, out: &mut Frames) -> bool {
        let Some(response) = self.machine.poll(self.now()) else { return false };
        let shared = self.shared();
        let entries = shared.cache.entries(&response);
        let tail = wire::encode_tail(&response, &shared.config.control_plane);
        frame(&entries, &tail, out);
        self.answered = true;
        self.sent(&response, entries.len() + tail.len());
        true
    }

    /// When to ask for responses again if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.machine.deadline().map(|time| self.started + time.0)
    }

    /// Whether the client got anything yet (S-112).
    pub(crate) fn is_answered(&self) -> bool {
        self.answered
    }

    /// Says with which status the stream is ended.
    pub(crate) fn ends(&mut self, status: &Status) {
        self.ended = Some(status.code() as i32);
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.slot.shared()
    }

    fn handle(&mut self, input: Input) -> Result<(), Status> {
        let events = self.machine.handle(self.now(), input).map_err(|violation| {
            warn!(node = self.node_id(), peer = %self.peer, "stream closed: {violation}");
            status_of(&violation)
        })?;
        events.into_iter().try_for_each(|event| self.happened(event))
    }

    fn happened(&mut self, event: Event) -> Result<(), Status> {
        match event {
            Event::Identified(node) | Event::ParametersChanged(node) => {
                self.identity = Identity::Known(node);
                self.choose_group()
            }
            Event::Anonymous => {
                self.identity = Identity::Anonymous;
                self.choose_group()
            }
            Event::IdentityIgnored { claimed } => {
                warn!(
                    node = self.node_id(),
                    claimed, "another identity on the same stream: ignored"
                );
                Ok(())
            }
            told => {
                self.tell(&told);
                Ok(())
            }
        }
    }

    /// Asks the policy, and follows the group it names.
    fn choose_group(&mut self) -> Result<(), Status> {
        let client = Client { node: self.node(), peer: &self.peer };
        let group = self.shared().policy.group(&client).map_err(|refusal| {
            warn!(node = self.node_id(), peer = %self.peer, "client refused: {refusal}");
            Status::from(refusal)
        })?;
        if self.watch.as_ref().is_none_or(|watch| *watch.group() != group) {
            debug!(stream = self.id, node = self.node_id(), %group, "grouped");
            self.watch = Some(self.shared().store.watch(group));
            self.observe(Happened::Grouped);
        }
        Ok(())
    }

    /// Without a snapshot the client waits, or keeps what it has.
    fn see(&mut self, state: State) -> Result<(), Status> {
        if state.epoch != std::mem::replace(&mut self.epoch, state.epoch) {
            let before = self.watch.as_ref().map(|watch| watch.group().clone());
            self.choose_group()?;
            if self.watch.as_ref().map(Watch::group) != before.as_ref() {
                return Ok(());
            }
        }
        let Some(snapshot) = state.snapshot else { return Ok(()) };
        self.published = state.published;
        self.handle(Input::Snapshot(snapshot))
    }

    fn sent(&mut self, response: &Response, bytes: usize) {
        let labels = TypeLabels::new(self.variant, &response.type_url);
        let metrics = &self.slot.shared().metrics;
        metrics.responses.get_or_create(&labels).inc();
        metrics.response_bytes.get_or_create(&labels).inc_by(bytes as u64);
        let times = self.types.entry(response.type_url.clone()).or_default();
        if let Some(asked) = times.asked.take() {
            observe(&metrics.first_answer, &labels, asked.elapsed());
        }
        // What had been published before the stream was opened says nothing about speed.
        times.published = self.published.filter(|published| *published > self.started);
        let limit = self.slot.shared().config.protocol.max_response_bytes;
        if bytes > limit && !std::mem::replace(&mut times.warned_of_size, true) {
            warn!(
                node = self.node_id(),
                type_url = %response.type_url,
                "a response of {bytes} bytes cannot be split; clients may refuse above {limit}"
            );
        }
        self.tell_sent(response, bytes);
    }

    fn tell_sent(&self, response: &Response, bytes: usize) {
        let resources = response.entries.len();
        debug!(
            stream = self.id,
            node = self.node_id(),
            r#type = response.type_url.short(),
            version = &*response.version,
            nonce = &*response.nonce,
            resources,
            removed = response.removed.len(),
            bytes,
            "sent"
        );
        let (type_url, version) = (&response.type_url, &*response.version);
        self.observe(Happened::Sent { type_url, version, resources, bytes });
    }

    /// One event, one log line, one metric, one call of the policy.
    fn tell(&mut self, event: &Event) {
        match event {
            Event::Subscribed { type_url, wildcard, names } => {
                let (wildcard, names) = (*wildcard, *names);
                let (stream, node, of) = (self.id, self.node_id(), type_url.short());
                debug!(stream, node, r#type = of, wildcard, names, "subscribed");
                if !self.types.contains_key(type_url) {
                    let asked = Some(Instant::now());
                    self.types.insert(type_url.clone(), Times { asked, ..Times::default() });
                }
                self.observe(Happened::Subscribed { type_url, wildcard, names });
            }
            Event::Acked { type_url, version, nonce, after } => {
                let (stream, node, of) = (self.id, self.node_id(), type_url.short());
                debug!(stream, node, r#type = of, version = &**version, nonce = &**nonce, "acked");
                let labels = TypeLabels::new(self.variant, type_url);
                let metrics = &self.slot.shared().metrics;
                metrics.acks.get_or_create(&labels).inc();
                observe(&metrics.ack_latency, &labels, *after);
                let times = self.types.get_mut(type_url);
                if let Some(published) = times.and_then(|times| times.published.take()) {
                    observe(&metrics.commit_to_ack, &labels, published.elapsed());
                }
                self.observe(Happened::Acknowledged { type_url, version, after: *after });
            }
            Event::Nacked { type_url, version, nonce, error } => {
                let (stream, node, of) = (self.id, self.node_id(), type_url.short());
                let (version, nonce) = (&**version, &**nonce);
                let (code, text) = (error.code, &*error.message);
                warn!(stream, node, r#type = of, version, nonce, code, text, "rejected");
                let labels = TypeLabels::new(self.variant, type_url);
                self.shared().metrics.nacks.get_or_create(&labels).inc();
                self.observe(Happened::Rejected { type_url, version, error });
            }
            Event::Stale { type_url, nonce } => {
                let (stream, node, of) = (self.id, self.node_id(), type_url.short());
                debug!(stream, node, r#type = of, nonce = &**nonce, "stale");
                let labels = TypeLabels::new(self.variant, type_url);
                self.shared().metrics.stale.get_or_create(&labels).inc();
                self.observe(Happened::Stale { type_url });
            }
            Event::Identified(_)
            | Event::Anonymous
            | Event::ParametersChanged(_)
            | Event::IdentityIgnored { .. } => {}
        }
    }

    fn observe(&self, what: Happened<'_>) {
        self.shared().policy.observe(&StreamEvent {
            stream: self.id,
            peer: &self.peer,
            node: self.node(),
            group: self.watch.as_ref().map(Watch::group),
            what,
        });
    }

    fn node(&self) -> Option<&Node> {
        match &self.identity {
            Identity::Known(node) => Some(node),
            Identity::Unheard | Identity::Anonymous => None,
        }
    }

    fn node_id(&self) -> &str {
        self.node().map_or("", |node| &node.id)
    }

    fn labels(&self) -> StreamLabels {
        StreamLabels::new(self.variant, self.only.as_ref())
    }

    fn now(&self) -> Time {
        Time(self.started.elapsed())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared().metrics.streams.get_or_create(&self.labels()).dec();
        let after = self.started.elapsed();
        debug!(stream = self.id, node = self.node_id(), code = self.ended, ?after, "gone");
        self.observe(Happened::Gone { code: self.ended, after });
    }
}

/// The one place where violations become gRPC statuses.
fn status_of(violation: &Violation) -> Status {
    if violation.is_limit() {
        Status::resource_exhausted(violation.to_string())
    } else {
        Status::invalid_argument(violation.to_string())
    }
}
