//! The account of one stream: each event becomes a log line, metrics, and a call of the observers.
//!
//! Texts of the client are cut, and lines that it can repeat pass the limiter of the log. Bodies are
//! neither logged nor given to observers (S-138).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::server::{Event, Machine, NamesEdit, Response, Violation};
use chancery_core::{Api, ErrorDetail, Node, TypeUrl, Variant};
use tokio::time::Instant;
use tracing::{Level, debug, enabled, info, warn};

use super::rejection;
use crate::budget::PeerShare;
use crate::event::{StreamEvent, StreamEventKind};
use crate::log_limiter::{LineOrigin, PeerLine, message, name};
use crate::metrics::{Metrics, SECRET, StreamLabels, TypeCounters, TypeLabels, observe};
use crate::policy::{Client, Peer, Refusal};
use crate::server_state::{ServerState, StreamPermit};
use crate::status::{MachineState, RejectionNote, StreamCard};
use crate::store::{AudienceName, Caller, Watch};

/// The words for those who withhold secrets without wanting to.
const TO_HAVE_SECRETS: &str = "they are sent only over mutual TLS, a Unix socket or loopback; give the client a \
     certificate, and the server `--tls-client-ca`, or set `secrets-anywhere`";

/// The number of secrets that are named in a line.
const MOST_NAMED: usize = 3;

/// One stream, as logs, metrics and observers see it.
pub(crate) struct Account {
    permit: StreamPermit,
    card: Arc<StreamCard>,
    started: Instant,
    node: Option<Arc<Node>>,
    audience: Option<AudienceName>,
    /// The time at which the snapshot that the client should see was published.
    published: Option<Instant>,
    /// The types of the stream, a handful. They are a list, because an idle stream should cost
    /// little memory.
    types: Vec<(TypeUrl, TypeStats)>,
    /// The status with which the server ended the stream.
    ended: Option<i32>,
    /// True if the client has acknowledged a response.
    proven: bool,
    /// True if a line said that the stream was opened.
    told: bool,
}

/// The measurements of one type.
struct TypeStats {
    counters: Arc<TypeCounters>,
    /// The time of the first request, until it is answered.
    asked: Option<Instant>,
    /// The time at which the content of the last response was published, until the client accepts
    /// it.
    published: Option<Instant>,
    warned_of_size: bool,
}

impl Account {
    pub(crate) fn open(
        permit: StreamPermit,
        peer: Arc<Peer>,
        variant: Variant,
        only: Option<TypeUrl>,
    ) -> Self {
        let id = permit.shared().next_stream();
        let card = permit.shared().book().opened(id, &peer, variant, only);
        let account = Self {
            card,
            permit,
            started: Instant::now(),
            node: None,
            audience: None,
            published: None,
            types: Vec::new(),
            ended: None,
            proven: false,
            told: false,
        };
        let labels = account.labels();
        account.metrics().streams.get_or_create(&labels).inc();
        account.metrics().streams_opened.get_or_create(&labels).inc();
        account
            .observe(StreamEventKind::Connected { variant, type_url: account.card.only.as_ref() });
        account
    }

    /// The client, as the store knows it.
    pub(crate) fn caller(&self) -> Caller {
        let (node, peer) = (self.node.clone(), Arc::clone(&self.card.peer));
        Caller { node, peer, since: self.started, is_poll: false }
    }

    /// Notes the node of the client.
    pub(crate) fn identified(&mut self, node: Arc<Node>) {
        self.card.identified(&node);
        self.node = Some(node);
    }

    /// Has the card of the stream follow the watch of an audience.
    pub(crate) fn placed(&self, watch: &mut Watch) {
        watch.tell(&self.card);
        self.shared().book().placed(&self.card, watch.place());
    }

    /// Notes that the client takes a part of a large response.
    pub(crate) fn takes(&self, now: Instant) {
        self.shared().book().takes(&self.card, now);
    }

    /// Notes that the client said something.
    pub(crate) fn heard(&self, now: Instant) {
        self.shared().book().heard(&self.card, now);
    }

    /// Notes what the machine says after it did something.
    pub(crate) fn note(&self, machine: &Machine, state: MachineState, now: Instant) {
        let book = self.shared().book();
        // The client accepted what was changed, does not want it any more, or it is gone.
        for type_url in self.card.rejected_types().iter().filter(|it| machine.is_repaired(it)) {
            book.repaired(&self.card, type_url);
        }
        book.note(&self.card, state, now);
    }

    /// The card of the stream.
    pub(crate) fn card(&self) -> &StreamCard {
        &self.card
    }

    /// Notes the audience that the policy chose.
    pub(crate) fn assigned(&mut self, audience: &AudienceName) {
        let moved = self.audience.replace(audience.clone()).is_some();
        let (stream, group) = (self.card.id, name(audience.as_str()));
        let what = if moved { "stream moved" } else { "stream opened" };
        if self.node.as_ref().is_some_and(|node| node.only_looks()) {
            let (node, group, peer) = (&*self.node_id(), &*group, &self.card.peer);
            if self.shared().log_limiter.admits_look(peer.address, Instant::now()) {
                info!(%peer, "a client looks at what nodes are given; its streams are told at debug");
            }
            debug!(stream, node, group, %peer, "{what}");
        } else if self.admits(PeerLine::StreamChanged, "", "") {
            let (node, group) = (&*self.node_id(), &*group);
            info!(stream, node, group, peer = %self.card.peer, "{what}");
            self.told = true;
        }
        self.observe(StreamEventKind::Assigned);
    }

    /// Notes when the snapshot that the client should see was published.
    pub(crate) fn published(&mut self, at: Option<Instant>) {
        self.published = at;
    }

    /// Notes a response that was sent.
    pub(crate) fn sent(&mut self, response: &Response, bytes: usize) {
        let Response { type_url, version, nonce, entries, removed, .. } = response;
        let (stream, node, of) = (self.card.id, self.node_id(), name(type_url.short()));
        let (version, nonce, resources, removed) =
            (&**version, &**nonce, entries.len(), removed.len());
        let (node, of) = (&*node, &*of);
        debug!(stream, node, r#type = of, version, nonce, resources, removed, bytes, "sent");
        self.measure(type_url, bytes);
        self.observe(StreamEventKind::Sent { type_url, version, resources, bytes });
    }

    /// Notes an event of the machine.
    pub(crate) fn record(&mut self, event: &Event, now: Instant, machine: &Machine) {
        match event {
            Event::Subscribed { demand, names } => {
                self.subscribed(&demand.type_url, demand.wildcard, *names);
                if demand.type_url.api() == Api::Sds {
                    self.asked_for_secrets(&demand.names);
                }
            }
            Event::Unnamed { type_url, resources } => self.unnamed(type_url, *resources),
            Event::Acked { type_url, version, nonce, after } => {
                self.acked(type_url, version, nonce, *after, now);
            }
            Event::Nacked { type_url, version, nonce, error, resources } => {
                let reason =
                    || rejection::reason(&self.shared().schema, type_url, error, resources);
                self.nacked((type_url, version, nonce), (error, &reason), machine, now);
            }
            Event::Landed => self.landed(),
            Event::Skipped { type_url, nonce } => self.skipped(type_url, nonce),
            Event::Stale { type_url, nonce } => self.stale(type_url, nonce),
            Event::IdentityIgnored { claimed } => self.identity_ignored(claimed),
            // The session acts on the events of the identity, and records what it did.
            _ => {}
        }
    }

    /// Logs that the server ends the stream through the fault of the client. The reason may quote the
    /// client, so it is logged as text, which is escaped.
    pub(crate) fn client_fault(&self, why: &impl std::fmt::Display) {
        let why = why.to_string();
        if self.admits(PeerLine::StreamRefused, "", &why) {
            let (stream, node, why) = (self.card.id, self.node_id(), message(&why));
            warn!(stream, node = &*node, peer = %self.card.peer, why = &*why, "stream closed");
        }
    }

    /// Logs and counts that the policy refuses the client.
    pub(crate) fn refused(&self, refusal: &Refusal) {
        self.metrics().client_refused(refusal.name());
        self.client_fault(refusal);
    }

    /// Logs and counts that the next response has a secret, which the client may not have.
    pub(crate) fn may_not_have(&self, refusal: &Violation) {
        self.metrics().client_refused(SECRET);
        self.client_fault(refusal);
    }

    /// Notes the status with which the server ends the stream.
    pub(crate) fn ends(&mut self, code: i32) {
        self.ended = Some(code);
    }

    /// The client, as the policy should see it.
    pub(crate) fn client(&self) -> Client<'_> {
        Client { node: self.node.as_deref(), peer: &self.card.peer }
    }

    /// The share of its peer of what clients may hold.
    pub(crate) fn share(&self) -> &Arc<PeerShare> {
        self.permit.share()
    }

    pub(crate) fn shared(&self) -> &Arc<ServerState> {
        self.permit.shared()
    }

    pub(crate) fn started(&self) -> Instant {
        self.started
    }

    fn identity_ignored(&self, claimed: &str) {
        if self.admits(PeerLine::IdentityIgnored, "", "") {
            let (stream, node, claimed) = (self.card.id, self.node_id(), name(claimed));
            let (node, claimed) = (&*node, &*claimed);
            warn!(stream, node, claimed, "another identity on the same stream: ignored");
        }
    }

    fn landed(&self) {
        debug!(stream = self.card.id, node = &*self.node_id(), "landed");
        self.observe(StreamEventKind::Landed);
    }

    fn subscribed(&mut self, type_url: &TypeUrl, wildcard: bool, names: usize) {
        let (stream, node, of) = (self.card.id, self.node_id(), name(type_url.short()));
        debug!(stream, node = &*node, r#type = &*of, wildcard, names, "subscribed");
        self.stats(type_url);
        self.observe(StreamEventKind::Subscribed { type_url, wildcard, names });
    }

    /// Logs and counts names of secrets, if the client may have none: it waits for them, and nothing else
    /// would show why.
    fn asked_for_secrets(&self, names: &NamesEdit) {
        let (NamesEdit::All(names) | NamesEdit::Change { added: names, .. }) = names;
        if names.is_empty() || self.shared().settings(&self.card.peer).secrets_allowed {
            return;
        }
        self.metrics().client_refused(SECRET);
        if self.admits(PeerLine::SecretWithheld, "", "") {
            let named = names.iter().take(MOST_NAMED).map(|it| name(it)).collect::<Vec<_>>();
            let (stream, node, count) = (self.card.id, self.node_id(), names.len());
            let (node, names) = (&*node, &*named.join(", "));
            warn!(stream, node, peer = %self.card.peer, count, names, "secrets are withheld: {TO_HAVE_SECRETS}");
        }
    }

    /// Logs that the client names no resource. Some clients never do, and nothing else would show
    /// that they wait.
    fn unnamed(&self, type_url: &TypeUrl, resources: usize) {
        if !self.admits(PeerLine::Unnamed, type_url.short(), "") {
            return;
        }
        let (stream, node, of) = (self.card.id, self.node_id(), name(type_url.short()));
        info!(
            stream,
            node = &*node,
            r#type = &*of,
            resources,
            "the client names no resource and is sent none; `limits.wildcard-types` would send all"
        );
    }

    fn acked(
        &mut self,
        type_url: &TypeUrl,
        version: &str,
        nonce: &str,
        after: Duration,
        now: Instant,
    ) {
        let (stream, node, of) = (self.card.id, self.node_id(), name(type_url.short()));
        debug!(stream, node = &*node, r#type = &*of, version, nonce, ?after, "acked");
        self.proven = true;
        self.shared().book().acknowledged(&self.card, now);
        let TypeStats { counters, published, .. } = self.stats(type_url);
        counters.acks.inc();
        counters.ack_latency.observe(after.as_secs_f64());
        if let Some(published) = published.take() {
            let since = now.saturating_duration_since(published);
            counters.commit_to_ack.observe(since.as_secs_f64());
        }
        self.observe(StreamEventKind::Acknowledged { type_url, version, after });
    }

    /// Notes a rejection. The reason costs something to find, so it is asked for if somebody wants it.
    fn nacked(
        &self,
        (type_url, version, nonce): (&TypeUrl, &str, &str),
        (as_sent, reason): (&ErrorDetail, &dyn Fn() -> ErrorDetail),
        machine: &Machine,
        now: Instant,
    ) {
        let labels = TypeLabels::new(self.card.variant, type_url);
        self.metrics().nacks.get_or_create(&labels).inc();
        let is_first = self.admits(PeerLine::Rejected, type_url.short(), version);
        let book = self.shared().book();
        let mark = rejection::mark(machine, type_url, as_sent);
        let is_noted = self.card.knows_rejection(type_url, version, mark)
            || !book.admits_rejection(&self.card, now);
        if !is_first && is_noted && !enabled!(Level::DEBUG) && !self.shared().is_observed() {
            return;
        }
        let error = &reason();
        let suspects = rejection::suspects(machine, type_url, as_sent);
        let resources = is_first.then(|| {
            let named = rejection::named(as_sent, |word| self.origin(type_url, word));
            match named.is_empty() {
                true => rejection::placed(&suspects, |name| self.origin(type_url, name)),
                false => named,
            }
        });
        if !is_noted {
            let is_known = |word: &str| {
                suspects.iter().any(|name| **name == *word) || self.origin(type_url, word).is_some()
            };
            let named = rejection::names(as_sent, is_known);
            let mut note = RejectionNote::new(type_url, version, error, mark);
            (note.named, note.suspects) = (named, suspects);
            book.rejected(&self.card, note);
        }
        let (stream, node, of) = (self.card.id, self.node_id(), name(type_url.short()));
        let (node, of, code, text) = (&*node, &*of, error.code, &*error.message);
        if let Some(resources) = resources {
            let resources = &*resources;
            warn!(stream, node, r#type = of, version, nonce, code, resources, text, "rejected");
        } else {
            debug!(stream, node, r#type = of, version, nonce, code, text, "rejected once more");
        }
        self.observe(StreamEventKind::Rejected { type_url, version, error });
    }

    /// The place that a resource comes from which the client sees.
    fn origin(&self, type_url: &TypeUrl, name: &str) -> Option<String> {
        self.shared().policy.origin(self.audience.as_ref()?, type_url, name)
    }

    fn skipped(&self, type_url: &TypeUrl, nonce: &str) {
        let (stream, node, of) = (self.card.id, self.node_id(), name(type_url.short()));
        debug!(
            stream,
            node = &*node,
            r#type = &*of,
            nonce,
            "skipped: a later response was answered"
        );
        let labels = TypeLabels::new(self.card.variant, type_url);
        self.metrics().skipped.get_or_create(&labels).inc();
        self.observe(StreamEventKind::Skipped { type_url });
    }

    fn stale(&self, type_url: &TypeUrl, nonce: &str) {
        let (stream, node, of) = (self.card.id, self.node_id(), name(type_url.short()));
        debug!(stream, node = &*node, r#type = &*of, nonce = &*name(nonce), "stale");
        let labels = TypeLabels::new(self.card.variant, type_url);
        self.metrics().stale.get_or_create(&labels).inc();
        self.observe(StreamEventKind::Stale { type_url });
    }

    fn measure(&mut self, type_url: &TypeUrl, bytes: usize) {
        // A snapshot from before the stream was opened says nothing about speed.
        let published = self.published.filter(|published| *published > self.started);
        let limit = self.shared().config.protocol.max_response_bytes;
        let stats = self.stats(type_url);
        stats.counters.responses.inc();
        stats.counters.response_bytes.inc_by(bytes as u64);
        stats.published = published;
        let first = stats.asked.take();
        let warns = bytes > limit && !std::mem::replace(&mut stats.warned_of_size, true);
        if let Some(asked) = first {
            let labels = TypeLabels::new(self.card.variant, type_url);
            observe(&self.metrics().first_answer, &labels, asked.elapsed());
        }
        if warns && self.admits(PeerLine::TooLarge, type_url.short(), "") {
            let (node, of) = (self.node_id(), name(type_url.short()));
            warn!(
                node = &*node,
                r#type = &*of,
                bytes,
                limit,
                "large and not to be split: clients may refuse it"
            );
        }
    }

    /// The measurements of a type, which begin now if there are none.
    fn stats(&mut self, type_url: &TypeUrl) -> &mut TypeStats {
        let known = self.types.iter().position(|(known, _)| known == type_url);
        let at = known.unwrap_or_else(|| {
            let counters = self.metrics().type_counters(self.card.variant, type_url);
            let asked = Some(Instant::now());
            let stats = TypeStats { counters, asked, published: None, warned_of_size: false };
            self.types.push((type_url.clone(), stats));
            self.types.len() - 1
        });
        &mut self.types[at].1
    }

    fn observe(&self, kind: StreamEventKind<'_>) {
        self.shared().observe(&StreamEvent {
            stream: self.card.id,
            peer: &self.card.peer,
            node: self.node.as_deref(),
            audience: self.audience.as_ref(),
            kind,
        });
    }

    fn metrics(&self) -> &Metrics {
        &self.permit.shared().metrics
    }

    /// The id of the node, cut to the length of a log line.
    fn node_id(&self) -> Cow<'_, str> {
        self.node.as_ref().map_or(Cow::Borrowed(""), |node| name(&node.id))
    }

    /// Returns true if a line is to be logged that the client can cause again and again.
    fn admits(&self, line: PeerLine, of: &str, detail: &str) -> bool {
        let (peer, proven) = (self.card.peer.address, self.proven);
        let node = self.node.as_ref().map_or("", |node| &*node.id);
        let origin = LineOrigin { peer, proven, node, of, detail };
        self.shared().log_limiter.admits(line, &origin, Instant::now())
    }

    fn labels(&self) -> StreamLabels {
        StreamLabels::new(self.card.variant, self.card.only.as_ref())
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.metrics().streams.get_or_create(&self.labels()).dec();
        let after = self.started.elapsed();
        let (stream, node) = (self.card.id, self.node_id());
        if self.told {
            let (code, seconds) = (self.ended, after.as_secs());
            info!(stream, node = &*node, code, seconds, "stream closed");
        } else {
            debug!(stream, node = &*node, code = self.ended, ?after, "gone");
        }
        self.observe(StreamEventKind::Gone { code: self.ended, after });
        self.shared().book().closed(&self.card, self.ended);
    }
}
