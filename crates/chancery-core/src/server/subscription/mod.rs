//! The server's half of one resource type on one stream, SotW or delta.
//!
//! ```text
//!   request: names, ACK, NACK                           what the client should see
//!        |                                                   |
//!        v                                                   v
//!   +--------------------- Subscription ------------------------+
//!   | Interest: what the client asked for                       |
//!   | Ledger:    what it was brought to, is owed, keeps, refused |
//!   | Flight:   responses it has not answered                   |
//!   +------------------------------------------------------------+
//!        |
//!        v   one response at a time; the rest waits as state, never as a queue
//! ```
//!
//! The two variants differ in how a request states the subscription (`sotw.rs`, `delta.rs`) and in
//! what a response says (`respond.rs`). What a client is owed is the same for both.
//!
//! A NACK leaves the ledger alone, because the client keeps what it has and must not be sent the
//! refused content again until it changes (S-033).
//!
//! Not here: the order between types and the waiting of removals, which take more than one type
//! to know ([`crate::server`]); encoding (`chancery-proto`).

mod beat;
mod delta;
mod demand;
mod flight;
mod given_clusters;
mod initial_versions;
mod interest;
mod ledger;
mod merge_lookup;
mod pending;
mod receive;
mod respond;
mod shared_response;
mod sotw;
mod status;

use std::collections::BTreeMap;
use std::sync::Arc;

use self::flight::Flight;
pub(crate) use self::given_clusters::GivenClusters;
use self::initial_versions::InitialVersions;
use self::interest::Lookup;
pub(crate) use self::interest::{Interest, Spelling};
use self::ledger::{ClientCopy, Ledger};
use self::merge_lookup::MergeLookup;
use self::pending::SourceWaits;
pub(crate) use self::receive::{AckOrNack, ReadResponse, Verdict};
pub(crate) use self::respond::NextResponse;
use crate::server::{Event, Rejection, Settings, Violation};
use crate::{Api, Features, Resource, Snapshot, Time, TypeUrl, Variant};

/// The server's half of one resource type on one stream.
#[derive(Debug)]
pub(crate) struct Subscription {
    type_url: TypeUrl,
    variant: Variant,
    features: Features,
    interest: Interest,
    /// A digest of the names of the last SotW request, which mostly are those of the one before.
    names_digest: Option<u128>,
    /// What the first request said of earlier streams, until there is something to compare it to.
    first_request: Option<Box<FirstRequest>>,
    /// Whether a snapshot was ever given.
    has_snapshot: bool,
    ledger: Ledger,
    flight: Flight,
    /// The single names that do not exist (S-068).
    missing_names: BTreeMap<Spelling, Reported>,
    /// The next answer is due even if it is empty (S-054).
    must_respond: bool,
    /// A request is waiting for an answer.
    has_unanswered_request: bool,
    /// The first request named nothing and is answered by nothing, and nobody was told.
    unnamed_event_due: bool,
    /// The peer may not have resources of this type (S-137).
    permission_denied: bool,
    /// The client accepted something on an earlier stream, nobody knows what.
    reconnected: bool,
    /// The last rejection, until the client has accepted all again.
    rejection: Option<Box<Rejection>>,
    /// What is waited for because the source cannot tell yet.
    source_waits: SourceWaits,
    /// When the next heartbeat is due (S-087).
    beat_at: Option<Time>,
    /// The number of names that may be added until a demand edit states all names again; `None` if
    /// the next one does.
    demand_room: Option<usize>,
}

/// The state of the report that a name does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reported {
    /// The client was told why it does not get the name.
    Yes,
    /// The client is still to be told.
    NotYet,
}

/// What the first request of a type said of earlier streams.
#[derive(Debug)]
enum FirstRequest {
    /// The version the client accepted last, on whatever stream.
    Sotw(Arc<str>),
    /// What the client holds: names and versions.
    Delta(InitialVersions),
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

    /// What the client asked for.
    pub(crate) fn interest(&self) -> &Interest {
        &self.interest
    }

    /// The client should see its part of this from now on.
    pub(crate) fn set_target(&mut self, snapshot: &Snapshot) {
        self.has_snapshot = true;
        if !self.permission_denied {
            self.ledger.set_target(snapshot.set(&self.type_url));
        }
    }

    /// Tells, once, of a client that named nothing though there is something. On-demand virtual
    /// hosts begin so (T-20).
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

    /// The peer may not have resources of this type.
    pub(crate) fn deny_permission(&mut self) {
        self.permission_denied = true;
    }

    /// Works out what the client is owed, unless it has to answer first.
    pub(crate) fn advance(&mut self, now: Time, settings: &Settings, snapshot: &Snapshot) {
        if !self.has_snapshot || !self.flight.is_clear(now, settings.ack_wait) {
            return;
        }
        if let Some(first) = self.first_request.take() {
            self.begin(&first, snapshot);
        }
        if self.shared_step(settings).is_none() {
            self.ledger.advance(now, &self.interest);
        }
    }

    /// Whether a request is waiting for an answer.
    pub(crate) fn has_unanswered_request(&self) -> bool {
        self.has_unanswered_request
    }

    /// Whether the client may not be where it should be.
    pub(crate) fn is_behind(&self) -> bool {
        self.ledger.is_behind()
    }

    /// Whether the client has acknowledged all it should see, and nothing waits to be removed.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.ledger.is_at_target() && self.flight.is_empty()
    }

    /// Returns true if nothing is owed, and all that was has been acknowledged.
    pub(crate) fn has_landed(&self) -> bool {
        self.is_acknowledged() && self.first_request.is_none() && !self.must_respond
    }

    /// Whether removals wait.
    pub(crate) fn has_waiting_removals(&self) -> bool {
        self.ledger.keeps_any()
    }

    /// Owes the client the removals that have waited long enough, or all of them.
    pub(crate) fn owe_removals(&mut self, now: Time, settings: &Settings, all: bool) {
        self.ledger.owe_removals(|since| all || now >= since + settings.removal_wait);
    }

    /// Sends a name again although it did not change, if it is subscribed to.
    pub(crate) fn resend(&mut self, name: &crate::ResourceName) {
        let named = self.interest.spelling_of(name.as_str());
        let spanned = || self.interest.includes_member(name).then(|| name.shared());
        if let Some(key) = named.or_else(spanned) {
            self.ledger.owe_again(&key);
        }
    }

    /// Sends again all names below a prefix (S-094).
    pub(crate) fn resend_below(&mut self, prefix: &str) {
        for key in self.interest.names().iter().filter(|key| key.starts_with(prefix)) {
            self.ledger.owe_again(key);
        }
    }

    /// Whether the client asked for this resource.
    pub(crate) fn wants(&self, name: &crate::ResourceName) -> bool {
        self.interest.includes_member(name) || self.interest.spelling_of(name.as_str()).is_some()
    }

    /// Returns true if the client was told of this resource and has not answered, or is still to be
    /// told.
    pub(crate) fn will_deliver(&self, name: &crate::ResourceName) -> bool {
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

    /// When to look again if nothing happens before; what waits for other types is theirs to say.
    pub(crate) fn deadline(&self, settings: &Settings, waits: bool) -> Option<Time> {
        let unanswered = self.flight.deadline(settings.ack_wait);
        let unanswered = unanswered.filter(|_| self.is_behind() && !waits);
        let removals = self.ledger.kept_since().map(|since| since + settings.removal_wait);
        let pending = self.source_waits.deadline(settings).filter(|_| !waits);
        let pending = pending.map(|until| {
            self.flight.clear_at(settings.ack_wait).map_or(until, |clear| clear.max(until))
        });
        removals.into_iter().chain(unanswered).chain(self.beat_at).chain(pending).min()
    }

    /// Whether a response is the whole state, so that absence deletes (S-056, S-059).
    fn is_full_state(&self) -> bool {
        self.variant == Variant::Sotw && self.type_url.rules().full_state
    }

    fn view(&self, key: &str) -> Option<&Arc<Resource>> {
        self.ledger.view(key, &self.interest)
    }

    /// Compares what the client said of earlier streams with what it should see now.
    fn begin(&mut self, first: &FirstRequest, snapshot: &Snapshot) {
        if self.interest.is_by_host() && !self.interest.ever_named() {
            self.subscribe_to_base_hosts(snapshot);
        }
        let lookup = MergeLookup::new(&self.interest, self.ledger.target(), self.interest.len());
        self.interest.respell(lookup.shared_spellings());
        match first {
            FirstRequest::Sotw(version) => self.begin_sotw(version),
            FirstRequest::Delta(held) => self.begin_delta(held),
        }
    }

    /// A VHDS stream starts without a name (T-20): one host of each route configuration that is
    /// completed on demand lets the client finish its start-up, and is all it gets.
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

    fn check_size(&self, settings: &Settings) -> Result<(), Violation> {
        let (found, limit) = (self.interest.len(), settings.max_names);
        if found <= limit {
            return Ok(());
        }
        Err(Violation::TooManyNames { type_url: self.type_url.clone(), found, limit })
    }
}

/// Whether a first request without names means everything (S-050, S-053).
pub(crate) fn empty_means_everything(type_url: &TypeUrl, settings: &Settings) -> bool {
    let mut overrides = settings.legacy_wildcard.iter();
    let set = overrides.find(|(overridden, _)| overridden == type_url);
    set.map_or_else(|| type_url.rules().legacy_wildcard, |(_, on)| *on)
}
