//! The server's half of one resource type on one stream, SotW or delta.
//!
//! ```text
//!   request: names, ACK, NACK              snapshot: the set that the client should see
//!        |                                                   |
//!        v                                                   v
//!   +---------------------- Subscription -----------------------+
//!   | Interest: the names and wildcards the client asked for    |
//!   | Ledger:   the set the client was brought to, and the keys |
//!   |           it is owed, keeps for a while, and refused      |
//!   | Flight:   the responses the client has not answered       |
//!   +-----------------------------------------------------------+
//!        |
//!        v
//!   one response at a time; the rest waits as state, never as a queue
//! ```
//!
//! The two variants differ in how a request states the subscription (`sotw.rs`, `delta.rs`) and in
//! what a response says (`respond.rs`). The keys that a client is owed are the same for both.
//!
//! A NACK does not make the ledger owe anything: the client keeps the resources it has, and the
//! server does not send the rejected content again until it changes (S-033, [when to send an
//! update]).
//!
//! The order between types and the waiting of removals need more than one type and are in
//! [`crate::server`]. Encoding is in `chancery-proto`.
//!
//! [when to send an update]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#when-to-send-an-update

mod beat;
mod delta;
mod demand;
mod flight;
mod given_clusters;
mod initial_versions;
mod interest;
mod key_map;
mod ledger;
mod merge_lookup;
mod owed;
mod parsed_names;
mod pending;
mod receive;
mod resources;
mod respond;
mod shared_response;
mod sotw;
mod status;

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

use self::flight::Flight;
pub(crate) use self::given_clusters::GivenClusters;
use self::initial_versions::InitialVersions;
use self::interest::Lookup;
pub(crate) use self::interest::{Interest, Spelling};
use self::ledger::Ledger;
use self::merge_lookup::MergeLookup;
use self::owed::ClientCopy;
use self::pending::SourceWaits;
pub(crate) use self::receive::{AckOrNack, ReadResponse, ResponseVerdict};
pub(crate) use self::respond::NextResponse;
use crate::server::{Event, Rejection, Response, Settings, held_bytes};
use crate::{Api, Features, Resource, ResourceName, Snapshot, Time, TypeUrl, Variant};

/// The server's half of one resource type on one stream.
#[derive(Debug)]
pub(crate) struct Subscription {
    type_url: TypeUrl,
    variant: Variant,
    features: Features,
    interest: Interest,
    /// The digest of the names of the last SotW request. Most requests repeat these names, and an
    /// equal digest saves the comparison. As bytes it has no need of places of its own.
    names_digest: Option<[u8; 16]>,
    /// The claims of the first request about earlier streams. They are kept until there is a
    /// snapshot to compare them with.
    first_request: Option<Box<FirstRequest>>,
    /// True once the driver has given a snapshot.
    has_snapshot: bool,
    ledger: Ledger,
    flight: Flight,
    /// The subscribed names that name no resource, globs included if they have no member (S-068,
    /// [xRFC TP3](https://github.com/cncf/xds/blob/main/proposals/TP3-xds-error-propagation.md)).
    missing_names: BTreeMap<Spelling, Reported>,
    /// True if the next response is sent even if it has nothing to say (S-054).
    must_respond: bool,
    /// True if the newest response with something owed was cut at the limit of its size (S-110).
    is_cut: bool,
    /// True if the client has asked for something since the last response.
    has_unanswered_request: bool,
    /// True if the first request named nothing, which subscribes to nothing, and the driver has not
    /// been told so ([`Event::Unnamed`]).
    unnamed_event_due: bool,
    /// True if the peer may not have resources of this type (S-137). Names are answered with
    /// PERMISSION_DENIED.
    permission_denied: bool,
    /// True if the client says that it accepted a version on an earlier stream. Nobody knows which
    /// resources that version had.
    reconnected: bool,
    /// The last rejection. It is dropped when no rejected content is waiting for a change.
    rejection: Option<Box<Rejection>>,
    /// The names that wait because the source does not know yet whether they exist.
    source_waits: SourceWaits,
    /// The time of the next heartbeat (S-087).
    beat_at: Option<Time>,
    /// The number of names that may be added before a demand edit has to state all names again;
    /// `None` if the next edit has to.
    demand_room: Option<usize>,
}

/// The state of the error that says why a name is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    /// The error was in a response.
    Yes,
    /// The error goes into the next response that can carry it.
    NotYet,
}

/// The claims of the first request of a type about earlier streams.
#[derive(Debug)]
enum FirstRequest {
    /// The version that the client accepted last on any stream; empty if there is none.
    Sotw(Arc<str>),
    /// The names and versions of the resources that the client holds.
    Delta(InitialVersions),
}

impl FirstRequest {
    /// Returns true if the client says that it has something from an earlier stream.
    fn is_of_one_who_comes_back(&self) -> bool {
        match self {
            Self::Sotw(version) => !version.is_empty(),
            Self::Delta(versions) => !versions.is_empty(),
        }
    }
}

impl Subscription {
    pub(crate) fn new(type_url: TypeUrl, variant: Variant, features: Features) -> Self {
        let lookup = if type_url.api() == Api::Vhds { Lookup::ByHost } else { Lookup::ByName };
        Self {
            type_url,
            variant,
            features,
            interest: Interest::new(lookup),
            names_digest: None,
            first_request: None,
            has_snapshot: false,
            ledger: Ledger::default(),
            flight: Flight::default(),
            missing_names: BTreeMap::new(),
            must_respond: false,
            is_cut: false,
            has_unanswered_request: false,
            unnamed_event_due: false,
            permission_denied: false,
            reconnected: false,
            rejection: None,
            source_waits: SourceWaits::default(),
            beat_at: None,
            demand_room: None,
        }
    }

    pub(crate) fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    pub(crate) fn api(&self) -> Api {
        self.type_url.api()
    }

    /// The names and wildcards that the client asked for.
    pub(crate) fn interest(&self) -> &Interest {
        &self.interest
    }

    /// The number of names that the client asked for, and their bytes. Names that it has unsubscribed
    /// are among them as long as it is owed them.
    pub(crate) fn name_sizes(&self) -> (usize, usize) {
        let (count, bytes) = self.ledger.unsubscribed_sizes();
        (self.interest.len() + count, self.interest.name_bytes() + bytes)
    }

    /// Makes the resources of this type in a snapshot the set that the client should see. A peer
    /// without permission sees none of them.
    pub(crate) fn set_target(&mut self, snapshot: &Snapshot) {
        self.has_snapshot = true;
        if !self.permission_denied {
            self.ledger.set_target(snapshot.set(&self.type_url));
        }
    }

    /// Returns, once, the event that a client named nothing although there are resources for it.
    /// VHDS streams begin without names, so they are left out (T-20).
    pub(crate) fn take_unnamed_event(&mut self) -> Option<Event> {
        let resources = self.ledger.target().len();
        let unnamed =
            self.unnamed_event_due && !self.interest.ever_named() && !self.interest.is_by_host();
        if !unnamed || resources == 0 {
            return None;
        }
        self.unnamed_event_due = false;
        Some(Event::Unnamed { type_url: self.type_url.clone(), resources })
    }

    /// States that the peer may not have resources of this type (S-137).
    pub(crate) fn deny_permission(&mut self) {
        self.permission_denied = true;
    }

    /// The name of a resource with a secret in a response, if there is one. A type without any is
    /// not searched.
    pub(crate) fn secret_in<'a>(&self, response: &'a Response) -> Option<&'a ResourceName> {
        let may_be = self.ledger.target().may_be_sensitive() || self.ledger.keeps_any();
        may_be.then(|| response.entries.sensitive()).flatten().map(|resource| resource.name())
    }

    /// Brings the ledger up to the target, unless an unanswered response has to be answered first. Returns true if the
    /// client has just said that it has something from an earlier stream.
    pub(crate) fn advance(&mut self, now: Time, settings: &Settings, snapshot: &Snapshot) -> bool {
        if !self.has_snapshot || !self.flight.may_send_next(now, settings.ack_wait) {
            return false;
        }
        let first = self.first_request.take();
        if let Some(first) = &first {
            self.compare_with_first(first, snapshot);
        }
        if self.shared_step(settings).is_none() {
            self.ledger.advance(now, &self.interest);
        }
        first.is_some_and(|first| first.is_of_one_who_comes_back())
    }

    /// The resources of the target that the client wants.
    pub(crate) fn wanted_resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let (everything, names) = (self.interest.wildcard(), self.interest.all_names());
        let target = self.ledger.target();
        let all = everything.then(|| target.iter()).into_iter().flatten();
        let named = names.filter(move |_| !everything).filter_map(|name| target.get(name));
        all.chain(named)
    }

    /// Returns true if the client has asked for something since the last response.
    pub(crate) fn has_unanswered_request(&self) -> bool {
        self.has_unanswered_request
    }

    /// Returns true if the client is owed something, or the target has changed since the ledger was
    /// brought up to it.
    pub(crate) fn is_behind(&self) -> bool {
        self.ledger.is_behind()
    }

    /// Returns true if the client has acknowledged all it should see, and no removal waits.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.ledger.is_at_target() && self.flight.is_empty()
    }

    /// Returns true if the client has acknowledged all it should see, and no request waits for its
    /// first response.
    pub(crate) fn has_landed(&self) -> bool {
        self.ledger.is_at_target()
            && !self.awaits_answer()
            && self.first_request.is_none()
            && !self.must_respond
    }

    /// The time of the oldest response that the client has not answered and still has to.
    pub(crate) fn unanswered_since(&self) -> Option<Time> {
        self.flight.oldest().filter(|_| self.awaits_answer())
    }

    /// Returns true if the client has a response to answer. One that has unsubscribed everything may never
    /// answer the last one (T-03).
    fn awaits_answer(&self) -> bool {
        let wants_nothing = !self.interest.wildcard() && self.interest.len() == 0;
        !self.flight.is_empty() && !wants_nothing
    }

    /// Returns true if rejected content is waiting for a change.
    pub(crate) fn is_rejected(&self) -> bool {
        !self.ledger.has_no_refused()
    }

    /// Returns true if the client has answered all that was sent, and no rejected content is waiting for a
    /// change, or to be sent again.
    pub(crate) fn is_repaired(&self) -> bool {
        !self.is_rejected() && !self.is_behind() && !self.awaits_answer()
    }

    /// Returns true if the client keeps resources whose removal waits.
    pub(crate) fn has_waiting_removals(&self) -> bool {
        self.ledger.keeps_any()
    }

    /// Ends the wait of removals that have waited for `removal_wait`, or of all removals: from now
    /// on the client is owed them.
    pub(crate) fn owe_removals(&mut self, now: Time, settings: &Settings, all: bool) {
        self.ledger.owe_removals(|since| all || now >= since + settings.removal_wait);
    }

    /// Owes the client a resource again although it did not change, if the client is subscribed to
    /// it.
    pub(crate) fn resend(&mut self, name: &ResourceName) {
        let named = self.interest.spelling_of(name.as_str());
        let spanned = || self.interest.includes_member(name).then(|| name.shared());
        if let Some(key) = named.or_else(spanned) {
            self.ledger.owe_again(key);
        }
    }

    /// Owes the client again all names with a prefix (S-094).
    pub(crate) fn resend_below(&mut self, prefix: &str) {
        let names = self.interest.names().range::<str, _>((Included(prefix), Unbounded));
        for key in names.take_while(|key| key.starts_with(prefix)) {
            self.ledger.owe_again(Arc::clone(key));
        }
    }

    /// Returns true if the client is subscribed to this resource, by name or as a member.
    pub(crate) fn wants(&self, name: &ResourceName) -> bool {
        self.interest.includes_member(name) || self.interest.spelling_of(name.as_str()).is_some()
    }

    /// Returns true if this resource is in a response that the client has not answered, or will be
    /// in a later one.
    pub(crate) fn will_deliver(&self, name: &ResourceName) -> bool {
        let target = self.ledger.target();
        let Some(resource) = target.get(name.as_str()).filter(|_| self.wants(name)) else {
            return target.is_pending(name.as_str()) && self.wants(name);
        };
        let named = self.interest.spelling_of(name.as_str());
        let key = named.as_deref().unwrap_or(name.as_str());
        self.ledger.sent().get(name.as_str()) != Some(resource)
            || self.ledger.owes(key)
            || self.flight.mentions(key)
    }

    /// The time at which the subscription has something to do if nothing happens before. `waits` is
    /// true if the type waits for other types; the machine knows the end of that wait.
    pub(crate) fn deadline(&self, settings: &Settings, waits: bool) -> Option<Time> {
        let unanswered = self.flight.deadline(settings.ack_wait);
        let unanswered = unanswered.filter(|_| self.is_behind() && !waits);
        let removals = self.ledger.kept_since().map(|since| since + settings.removal_wait);
        let pending = self.source_waits.deadline(settings).filter(|_| !waits);
        let pending = pending.map(|until| {
            self.flight.may_send_next_at(settings.ack_wait).map_or(until, |clear| clear.max(until))
        });
        removals.into_iter().chain(unanswered).chain(self.beat_at).chain(pending).min()
    }

    /// Returns true if a response is the whole state, so that the client deletes what it leaves out
    /// (S-056, S-059, [grouping
    /// resources](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#grouping-resources-into-responses)).
    fn is_full_state(&self) -> bool {
        self.variant == Variant::Sotw && self.type_url.rules().full_state
    }

    /// The bytes that are kept for the client, about, in a few steps.
    pub(crate) fn held_bytes(&self) -> usize {
        let first = self.first_request.as_deref().map_or(0, |first| match first {
            FirstRequest::Sotw(version) => held_bytes::text(version.len()),
            FirstRequest::Delta(held) => held.held_bytes(),
        });
        let rejection = self.rejection.as_deref().map_or(0, |it| it.error.message.capacity());
        let missing = size_of::<Spelling>() + size_of::<Reported>();
        size_of::<Self>()
            + held_bytes::text(self.type_url.as_str().len())
            + self.interest.held_bytes()
            + self.ledger.held_bytes()
            + self.flight.held_bytes()
            + held_bytes::tree(self.missing_names.len(), missing)
            + self.source_waits.held_bytes()
            + first
            + rejection
    }

    fn view(&self, key: &str) -> Option<&Arc<Resource>> {
        self.ledger.view(key, &self.interest)
    }

    /// Compares what the first request says about earlier streams with what the client should see
    /// now.
    fn compare_with_first(&mut self, first: &FirstRequest, snapshot: &Snapshot) {
        if self.interest.is_by_host() && !self.interest.ever_named() {
            self.subscribe_to_base_hosts(snapshot);
        }
        let lookup = MergeLookup::new(&self.interest, self.ledger.target(), self.interest.len());
        let (names, shared) = lookup.shared_spellings();
        self.interest.respell(names, shared);
        self.ledger.set_respelled(shared);
        match first {
            FirstRequest::Sotw(version) => self.begin_sotw(version),
            FirstRequest::Delta(held) => self.begin_delta(held),
        }
    }

    /// Subscribes a VHDS client that named nothing to one virtual host of each route configuration
    /// with a `vhds` field. A VHDS stream starts without names, and these hosts let the client
    /// finish its start-up (T-20).
    fn subscribe_to_base_hosts(&mut self, snapshot: &Snapshot) {
        self.must_respond = true;
        let hosts = self.ledger.target();
        let routes: Vec<String> = snapshot
            .types()
            .filter(|type_url| type_url.api() == Api::Rds)
            .flat_map(|type_url| snapshot.set(type_url).iter())
            .filter(|route| route.facts().vhds.is_some())
            .map(|route| format!("{}/", route.name()))
            .collect();
        let base: Vec<Spelling> = routes
            .iter()
            .filter_map(|route| hosts.with_prefix(route).next())
            .map(|host| host.name().shared())
            .collect();
        self.names_digest = None;
        for name in self.interest.extend(base, &self.type_url) {
            self.ledger.owe(&name);
        }
    }

    fn subscribed(&mut self, added: Vec<Spelling>, removed: Vec<Spelling>) -> Event {
        Event::Subscribed { demand: self.demand_edit(added, removed), names: self.interest.len() }
    }
}

/// Returns true if a first request without names is a wildcard (S-050, S-053, [how the client
/// specifies
/// resources](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#how-the-client-specifies-what-resources-to-return)).
pub(crate) fn empty_means_everything(type_url: &TypeUrl, settings: &Settings) -> bool {
    let mut overrides = settings.legacy_wildcard.iter();
    let set = overrides.find(|(overridden, _)| overridden == type_url);
    set.map_or_else(|| type_url.rules().legacy_wildcard, |(_, on)| *on)
}
