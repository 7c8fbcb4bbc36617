//! The machine of one stream: it owns the subscriptions of all types, and keeps the rules between
//! types.
//!
//! Removals wait for what uses the resource, changed routes wait for their clusters, and what a new
//! cluster needs is sent again. Nothing is queued: a response is derived when the driver polls. Not
//! here: the rules of one type (`subscription`), the clusters that warm (`warming`), and which
//! types use which (`order`).

use std::sync::Arc;

use super::asking::Asking;
use super::node_limits::{check_node, check_node_bytes};
use super::order::{points_at_clusters, users};
use super::subscriptions::Subscriptions;
use super::warming::Warming;
use crate::server::subscription::{
    AckOrNack, NextResponse, ReadResponse, ResponseVerdict, Subscription,
};
use crate::server::{Event, Input, Response, Settings, TypeStatus, Violation, Wanted};
use crate::{Api, Features, Node, Request, Scope, Snapshot, Time, TypeUrl, Variant};

/// The server's half of one stream, aggregated or of one type, SotW or delta.
///
/// ```
/// use std::sync::Arc;
/// use chancery_core::{Request, Scope, Snapshot, SotwRequest, Time, Variant};
/// use chancery_core::server::{Input, Machine, Settings};
///
/// let mut stream = Machine::new(Variant::Sotw, Scope::Aggregated, Arc::new(Settings::default()));
/// let now = Time::default();
/// stream.handle(now, Input::Snapshot(Arc::new(Snapshot::new())))?;
/// stream.handle(now, Input::Request(Request::Sotw(SotwRequest {
///     type_url: "type.googleapis.com/envoy.config.cluster.v3.Cluster".into(),
///     ..SotwRequest::default()
/// })))?;
/// let response = stream.poll(now).expect("a wildcard is answered even if nothing matches");
/// assert!(response.entries.is_empty());
/// # Ok::<(), chancery_core::server::Violation>(())
/// ```
#[derive(Debug)]
pub struct Machine {
    variant: Variant,
    scope: Scope,
    settings: Arc<Settings>,
    identity: ClientIdentity,
    /// The bytes that are kept of the node.
    node_bytes: usize,
    features: Features,
    snapshot: Option<Arc<Snapshot>>,
    subscriptions: Subscriptions,
    warming: Warming,
    asking: Asking,
    /// True if a response with clusters was sent on this stream.
    clusters_sent: bool,
    /// True if the driver has got [`Event::Landed`] since the last snapshot or change of a
    /// subscription.
    landed: bool,
    /// The number of the last nonce. No nonce is used twice on a stream (S-028, [basic
    /// protocol](https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#basic-protocol-overview)).
    nonce: u64,
    /// The reason why nothing more is sent, if there is one. The machine holds nothing then.
    refusal: Option<Box<Violation>>,
}

/// The identity of the client, which its first message states (S-023).
#[derive(Debug)]
enum ClientIdentity {
    Unknown,
    Anonymous,
    Known(Arc<Node>),
}

impl Machine {
    /// A machine for a stream that was just opened.
    pub fn new(variant: Variant, scope: Scope, settings: Arc<Settings>) -> Self {
        Self {
            variant,
            scope,
            settings,
            identity: ClientIdentity::Unknown,
            node_bytes: 0,
            features: Features::default(),
            snapshot: None,
            subscriptions: Subscriptions::default(),
            warming: Warming::default(),
            asking: Asking::default(),
            clusters_sent: false,
            landed: false,
            nonce: 0,
            refusal: None,
        }
    }

    /// Takes one input, and returns the events that follow from it.
    ///
    /// # Errors
    /// Fails if the client broke the protocol or a limit. The driver has to close the stream then.
    pub fn handle(&mut self, now: Time, input: Input) -> Result<Vec<Event>, Violation> {
        if let Some(refusal) = &self.refusal {
            return Err(Violation::clone(refusal));
        }
        let mut events = Vec::new();
        match input {
            Input::Snapshot(snapshot) => {
                self.landed = false;
                self.set_snapshot(snapshot, &mut events);
            }
            Input::Request(request) if request.variant() == self.variant => {
                self.identify(request.node(), &mut events)?;
                self.request(now, &request, &mut events)?;
                let asks = |event: &Event| matches!(event, Event::Subscribed { .. });
                self.landed &= !events.iter().any(asks);
            }
            Input::Request(_) => return Err(Violation::WrongVariant),
        }
        Ok(events)
    }

    /// The next response to send, if there is one. The driver calls this only when the connection
    /// has room for a response: a change that was not polled yet costs no memory, and newer changes
    /// replace it. If there is none, the driver looks whether there will never be one
    /// ([`refusal`](Self::refusal)).
    pub fn poll(&mut self, now: Time) -> Option<Response> {
        let snapshot = self.snapshot.as_ref()?;
        let mut from_before = Vec::new();
        for (at, subscription) in self.subscriptions.iter_mut().enumerate() {
            let comes_back = subscription.advance(now, &self.settings, snapshot);
            if comes_back && subscription.api().leads_on() {
                from_before.push(at);
            }
        }
        from_before.into_iter().for_each(|at| self.has_from_before(now, at));
        self.asking.look(now, &self.subscriptions);
        self.owe_removals(now);
        self.remove_usable_clusters(now);
        for at in 0..self.subscriptions.len() {
            if let Some(reply) = self.poll_type(now, at) {
                return Some(reply.response);
            }
        }
        None
    }

    /// The reason to close the stream, if the next response holds a secret and the client may have
    /// none (S-137). Nothing is sent from then on.
    pub fn refusal(&self) -> Option<&Violation> {
        self.refusal.as_deref()
    }

    /// Refuses a client that may have no secrets because of one in the next response. The machine holds
    /// nothing from then on.
    #[cold]
    fn refuse(&mut self, type_url: TypeUrl, name: Arc<str>) {
        self.refusal = Some(Box::new(Violation::Withheld { type_url, name }));
        self.snapshot = None;
        self.subscriptions = Subscriptions::default();
        self.warming = Warming::default();
        self.asking = Asking::default();
    }

    /// Returns [`Event::Landed`] if the client has acknowledged all it is owed, and is not about to ask for what that
    /// leads to: once for each
    /// snapshot, and once after each change of a subscription. The driver calls this when
    /// [`poll`](Self::poll) has nothing to send.
    pub fn landed(&mut self) -> Option<Event> {
        if self.landed || self.snapshot.is_none() || self.subscriptions.len() == 0 {
            return None;
        }
        self.landed =
            !self.asking.is_awaited() && self.subscriptions.iter().all(Subscription::has_landed);
        self.landed.then_some(Event::Landed)
    }

    /// The time at which the driver calls [`poll`](Self::poll) again if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        let warm = self.warming.next_check(&self.settings);
        let routes_wait = self.routes_wait();
        let types = self.subscriptions.iter().filter_map(|subscription| {
            let waits = routes_wait && points_at_clusters(subscription.api());
            subscription.deadline(&self.settings, waits)
        });
        types.chain(warm).min()
    }

    /// The time at which the stream may have [landed](Self::landed) although nothing happens before: the client is
    /// not expected any more to ask for what it accepted leads to. The driver calls [`poll`](Self::poll) then, too.
    pub fn landing_deadline(&self) -> Option<Time> {
        self.asking.deadline()
    }

    /// The names and wildcards that the client asked for, of one type.
    pub fn wanted(&self, type_url: &TypeUrl) -> Option<Wanted<'_>> {
        let at = self.subscriptions.find(type_url.as_str())?;
        self.subscriptions.at(at).map(|subscription| Wanted(subscription.interest()))
    }

    /// The snapshot that the client should see; `None` before the first.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// The bytes that the stream keeps on behalf of its peer, about: its node, and the names and keys
    /// of all types with their texts. Resources are not among them. It takes a few steps for each
    /// type, and none for each name or response under way.
    pub fn held_bytes(&self) -> usize {
        let types = self.subscriptions.iter().map(Subscription::held_bytes);
        size_of::<Self>() + self.node_bytes + self.asking.held_bytes() + types.sum::<usize>()
    }

    /// Returns true if [`Event::Landed`] has come since the last snapshot or change of a subscription.
    pub fn has_landed(&self) -> bool {
        self.landed
    }

    /// The time of the oldest response that the client has not answered. It takes a few steps for each
    /// type.
    pub fn unanswered_since(&self) -> Option<Time> {
        self.subscriptions.iter().filter_map(Subscription::unanswered_since).min()
    }

    /// The number of types of which rejected content is waiting for a change, and nothing else is to be sent.
    pub fn rejected_types(&self) -> usize {
        let is_stuck = |one: &&Subscription| one.is_rejected() && !one.is_behind();
        self.subscriptions.iter().filter(is_stuck).count()
    }

    /// Returns true if the client has answered all that was sent of a type, and no rejected content is waiting
    /// for a change.
    pub fn is_repaired(&self, type_url: &TypeUrl) -> bool {
        let found = self.subscriptions.find(type_url.as_str());
        found.and_then(|at| self.subscriptions.at(at)).is_none_or(Subscription::is_repaired)
    }

    /// The status of each type the client asked for, in sending order.
    pub fn status(&self) -> impl Iterator<Item = TypeStatus<'_>> {
        let warming = self.warming.deadline(self.endpoints(), &self.settings);
        self.subscriptions.iter().map(move |subscription| {
            let clusters = warming.filter(|_| points_at_clusters(subscription.api()));
            subscription.status(&self.settings, clusters)
        })
    }

    /// The next response of one type. All responses come by here, so that a secret that the client may
    /// not have is found however it asked for the resource (S-137).
    ///
    /// Changed routes wait for the clusters they may point to. A
    /// client that asks for routes is answered as soon as the clusters were sent, because it may
    /// need the routes to go on.
    fn poll_type(&mut self, now: Time, at: usize) -> Option<NextResponse> {
        let waits = points_at_clusters(self.subscriptions.at(at)?.api()) && self.routes_wait();
        let clusters_behind = waits && self.clusters_behind();
        let subscription = self.subscriptions.at_mut(at)?;
        let nonce = self.nonce + 1;
        let reply = if waits && (clusters_behind || !subscription.has_unanswered_request()) {
            subscription.beat(now, nonce)?
        } else {
            subscription.poll(now, nonce, &self.settings)?
        };
        self.nonce = nonce;
        if !self.settings.secrets_allowed
            && let Some(name) = subscription.secret_in(&reply.response)
        {
            let (type_url, name) = (reply.response.type_url.clone(), name.shared());
            self.refuse(type_url, name);
            return None;
        }
        self.follow_up(now, &reply);
        Some(reply)
    }

    /// Takes over the snapshot that the client should see from now on.
    fn set_snapshot(&mut self, snapshot: Arc<Snapshot>, events: &mut Vec<Event>) {
        for subscription in self.subscriptions.iter_mut() {
            subscription.set_target(&snapshot);
            events.extend(subscription.take_unnamed_event());
        }
        if let Some(before) = self.snapshot.replace(snapshot) {
            self.resend_cleared_hosts(&before);
        }
    }

    fn is_denied(&self, type_url: &TypeUrl) -> bool {
        type_url.api() == Api::Sds && !self.settings.secrets_allowed
    }

    /// Sends all virtual hosts of a route configuration again if its `vhds` field changed, because
    /// the client drops its virtual hosts then (S-094,
    /// [VHDS](https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_conn_man/vhds)).
    fn resend_cleared_hosts(&mut self, before: &Snapshot) {
        let Some(snapshot) = &self.snapshot else { return };
        for subscription in self.subscriptions.iter_mut().filter(|one| one.api() == Api::Vhds) {
            for type_url in snapshot.types().filter(|type_url| type_url.api() == Api::Rds) {
                for change in before.set(type_url).diff(snapshot.set(type_url)) {
                    let vhds = |route: &Option<Arc<crate::Resource>>| {
                        route.as_ref().and_then(|route| route.facts().vhds)
                    };
                    if vhds(&change.new).is_some() && vhds(&change.old) != vhds(&change.new) {
                        subscription.resend_below(&format!("{}/", change.name));
                    }
                }
            }
        }
    }

    /// Takes the identity from the first message, for all types of the stream (S-023). A later
    /// message may change the dynamic parameters, and nothing else (S-025).
    fn identify(
        &mut self,
        node: Option<&Arc<Node>>,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        match (&self.identity, node) {
            (ClientIdentity::Unknown, Some(node)) if !node.id.is_empty() => {
                self.features = node.features();
                self.node_bytes = check_node(node, &self.settings)?;
                self.identity = ClientIdentity::Known(Arc::clone(node));
                events.push(Event::Identified(Arc::clone(node)));
            }
            (ClientIdentity::Unknown, _) => {
                self.identity = ClientIdentity::Anonymous;
                events.push(Event::Anonymous);
            }
            (ClientIdentity::Known(known), Some(node)) if node.id == known.id => {
                if node.dynamic_parameters != known.dynamic_parameters {
                    let changed = Node {
                        dynamic_parameters: node.dynamic_parameters.clone(),
                        ..(**known).clone()
                    };
                    let changed = Arc::new(changed);
                    self.node_bytes -= known.parameter_bytes();
                    self.node_bytes += changed.parameter_bytes();
                    check_node_bytes(self.node_bytes, &self.settings)?;
                    self.identity = ClientIdentity::Known(Arc::clone(&changed));
                    events.push(Event::ParametersChanged(changed));
                }
            }
            (ClientIdentity::Known(_) | ClientIdentity::Anonymous, Some(node))
                if !node.id.is_empty() =>
            {
                events.push(Event::IdentityIgnored { claimed: node.id.clone() });
            }
            (ClientIdentity::Known(_) | ClientIdentity::Anonymous, _) => {}
        }
        Ok(())
    }

    /// Takes in a request: first its answer to an earlier response, then its names.
    fn request(
        &mut self,
        now: Time,
        request: &Request,
        events: &mut Vec<Event>,
    ) -> Result<(), Violation> {
        let (at, is_first) = self.find_or_insert(request.type_url())?;
        if !is_first {
            self.receive(now, at, request, events);
        }
        let Some(subscription) = self.subscriptions.at_mut(at) else { return Ok(()) };
        let subscribed = match request {
            Request::Sotw(request) => {
                subscription.request_sotw(now, request, is_first, &self.settings)
            }
            Request::Delta(request) => {
                subscription.request_delta(now, request, is_first, &self.settings)
            }
        };
        let is_changed = subscribed.is_some();
        events.extend(subscribed);
        if is_first {
            events.extend(subscription.take_unnamed_event());
        }
        if is_changed { self.check_names(at) } else { Ok(()) }
    }

    /// Compares the names of all types with the limits of the stream. A product of limits is none:
    /// the types share what one of them may have.
    fn check_names(&self, at: usize) -> Result<(), Violation> {
        let sizes = self.subscriptions.iter().map(Subscription::name_sizes);
        let (names, bytes) = sizes.fold((0, 0), |(names, bytes), of| (names + of.0, bytes + of.1));
        let Settings { max_names, max_name_bytes, .. } = *self.settings;
        let type_url = || self.subscriptions.at(at).map(|one| one.type_url().clone());
        match type_url().filter(|_| names > max_names || bytes > max_name_bytes) {
            Some(type_url) if names > max_names => {
                Err(Violation::TooManyNames { type_url, found: names, limit: max_names })
            }
            Some(type_url) => {
                Err(Violation::TooManyNameBytes { type_url, found: bytes, limit: max_name_bytes })
            }
            None => Ok(()),
        }
    }

    /// Returns the place of the subscription that a request is for, and true if the request is the
    /// first of its type. The first one is an initial request whatever nonce it has (S-029, T-02).
    fn find_or_insert(&mut self, stated: &Arc<str>) -> Result<(usize, bool), Violation> {
        if let Some(at) = self.subscriptions.find(stated) {
            return Ok((at, false));
        }
        let type_url = match &self.scope {
            Scope::Aggregated if stated.is_empty() => return Err(Violation::NoType),
            Scope::Aggregated => TypeUrl::new(stated),
            Scope::Only(expected) if stated.is_empty() || **stated == *expected.as_str() => {
                expected.clone()
            }
            Scope::Only(expected) => {
                let (found, expected) = (Arc::clone(stated), expected.clone());
                return Err(Violation::WrongType { found, expected });
            }
        };
        // A request may also leave out the type, or its prefix.
        if let Some(at) = self.subscriptions.find(type_url.as_str()) {
            return Ok((at, false));
        }
        let limit = self.settings.max_types;
        if self.subscriptions.len() >= limit {
            return Err(Violation::TooManyTypes { limit });
        }
        let mut subscription = Subscription::new(type_url.clone(), self.variant, self.features);
        if self.is_denied(&type_url) {
            subscription.deny_permission();
        }
        if let Some(snapshot) = &self.snapshot {
            subscription.set_target(snapshot);
        }
        Ok((self.subscriptions.insert(subscription), true))
    }

    fn receive(&mut self, now: Time, at: usize, request: &Request, events: &mut Vec<Event>) {
        let Some(subscription) = self.subscriptions.at_mut(at) else { return };
        let api = subscription.api();
        let ack_or_nack = AckOrNack { nonce: request.nonce(), error: request.error().cloned() };
        let (skipped, answered) = subscription.receive(now, ack_or_nack, events);
        for read in skipped.into_iter().chain(answered) {
            self.record_read(now, api, &read);
        }
    }

    /// Takes in that a client that comes back has what it wants of a type from an earlier stream, or some of it.
    fn has_from_before(&mut self, now: Time, at: usize) {
        if self.scope == Scope::Aggregated
            && let Some(subscription) = self.subscriptions.at(at)
        {
            self.asking.accepted(now, subscription.wanted_resources(), &self.subscriptions);
        }
    }

    /// Tells the warming clusters of a response that the client has read.
    fn record_read(&mut self, now: Time, api: Api, answered: &ReadResponse) {
        let is_accepted = answered.verdict == ResponseVerdict::Accepted;
        if is_accepted && api.leads_on() && self.scope == Scope::Aggregated {
            self.asking.accepted(now, answered.resources(), &self.subscriptions);
        }
        if api == Api::Cds {
            self.warming.clusters_read(now, answered);
        } else if api == Api::Eds {
            self.warming.endpoints_read(answered);
        }
    }

    /// Takes in the effects of a response on other types: new clusters warm, and resources that
    /// their clients need again are owed.
    fn follow_up(&mut self, now: Time, reply: &NextResponse) {
        let NextResponse { response, given } = reply;
        if response.type_url.api() != Api::Cds {
            return;
        }
        self.warming.add_batch(now, &response.nonce, given);
        // A changed cluster warms until its endpoints come (S-099). A delta client that asked for
        // endpoints or secrets before its clusters does not ask again (S-100).
        let is_first = !std::mem::replace(&mut self.clusters_sent, true);
        if self.subscriptions.len() == 1 {
            return; // No other type is subscribed to.
        }
        for (link, is_new) in given.links() {
            let follows = match link.type_url.api() {
                Api::Eds => true,
                Api::Sds => is_new || is_first,
                Api::Cds
                | Api::Leds
                | Api::Lds
                | Api::Fcds
                | Api::Srds
                | Api::Rds
                | Api::Vhds
                | Api::Ecds
                | Api::Rtds
                | Api::Other => false,
            };
            if follows && let Some(subscription) = self.subscriptions.get_mut(&link.type_url) {
                subscription.resend(&link.name);
            }
        }
    }

    /// Ends the wait of removals whose resources are not used any more: the client has acknowledged
    /// what stopped using them, or a bound has passed (S-098).
    fn owe_removals(&mut self, now: Time) {
        for at in 0..self.subscriptions.len() {
            let Some(waiting) = self.subscriptions.at(at).filter(|one| one.has_waiting_removals())
            else {
                continue;
            };
            let unused = users(waiting.api()).iter().all(|user| self.is_acknowledged(*user));
            if let Some(subscription) = self.subscriptions.at_mut(at) {
                subscription.owe_removals(now, &self.settings, unused);
            }
        }
    }

    /// Returns true if the client has acknowledged all it should see of one API.
    fn is_acknowledged(&self, api: Api) -> bool {
        self.subscriptions.of(api).all(Subscription::is_acknowledged)
    }

    /// Returns true if there are clusters that routes may point to and that the client was not sent
    /// yet, or cannot use yet.
    fn routes_wait(&self) -> bool {
        self.warming.holds_routes() || self.clusters_behind()
    }

    fn clusters_behind(&self) -> bool {
        self.subscriptions.of(Api::Cds).any(Subscription::is_behind)
    }

    fn remove_usable_clusters(&mut self, now: Time) {
        let endpoints = self.subscriptions.of(Api::Eds).next();
        self.warming.remove_usable(now, endpoints, &self.settings);
    }

    fn endpoints(&self) -> Option<&Subscription> {
        self.subscriptions.of(Api::Eds).next()
    }
}
