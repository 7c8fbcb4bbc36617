//! The clients that poll over REST, one for each node and type.
//!
//! A poll is no session: a client has what it was given when its next poll states the version (S-022), and
//! nobody knows that it is gone but by its silence. So this is a memory of the last polls, with bounds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use chancery_core::printable::MAX_NAME_BYTES;
use chancery_core::{Node, TypeUrl, Variant};
use tokio::time::Instant;

use super::bounds::StatusBounds;
use super::gone::{GoneKey, GoneStream};
use super::stream_status::{PollVersions, StreamState, StreamStatus};
use crate::policy::Peer;
use crate::store::AudienceName;

/// A poll that was decided.
pub(crate) struct DecidedPoll<'a> {
    pub(crate) node: &'a Arc<Node>,
    pub(crate) peer: &'a Arc<Peer>,
    pub(crate) type_url: &'a TypeUrl,
    pub(crate) audience: &'a AudienceName,
    /// The last load that was shown before the snapshot was looked at.
    pub(crate) load: u64,
    /// The version that the client says it has.
    pub(crate) stated: &'a str,
    /// The version that it is given; `None` if it is current.
    pub(crate) given: Option<&'a str>,
}

/// The clients that poll.
#[derive(Default)]
pub(super) struct Polls {
    entries: HashMap<GoneKey, Poller>,
    /// The number of them from each address.
    by_address: HashMap<Option<IpAddr>, usize>,
}

/// One client, of one type.
struct Poller {
    id: u64,
    node: Arc<Node>,
    peer: Arc<Peer>,
    audience: AudienceName,
    opened: Instant,
    last: Instant,
    /// The time between the last two polls.
    interval: Duration,
    since: Instant,
    stated: Arc<str>,
    /// The version that it was given last, until it states it.
    given: Option<Arc<str>>,
    /// The number of polls that stated another version than the one given before.
    refusals: u32,
    seen: u64,
    landed: u64,
}

/// The bytes of a node that are kept of a client that polls. Of a larger one the metadata are left out, and if
/// that is not enough, the client is not remembered.
const MOST_NODE_BYTES: usize = 2 * 1024;
/// The polls that state another version than the one given, after which the client counts as rejecting it. A
/// response may get lost.
const REFUSALS: u32 = 2;

impl Polls {
    /// Takes in a poll. `id` is the number of the client if it is new.
    pub(super) fn decided(
        &mut self,
        poll: &DecidedPoll<'_>,
        id: impl FnOnce() -> u64,
        bounds: &StatusBounds,
    ) {
        let now = Instant::now();
        let key = GoneKey::of(poll.node, Some(poll.type_url));
        if let Some(known) = self.entries.get_mut(&key) {
            return known.decided(poll, now);
        }
        if bounds.polls == 0 || short_node(poll.node).held_bytes() > MOST_NODE_BYTES {
            return;
        }
        let address = address_of(poll.peer);
        if self.entries.len() >= bounds.polls {
            self.make_room(address, bounds.polls);
        }
        *self.by_address.entry(address).or_default() += 1;
        let mut poller = Poller::new(id(), poll, now);
        poller.decided(poll, now);
        self.entries.insert(key, poller);
    }

    /// Forgets the client that was heard of longest ago: of the same address, if that has more than its part.
    fn make_room(&mut self, address: Option<IpAddr>, limit: usize) {
        let has_many = self.by_address.get(&address).is_some_and(|count| *count > limit / PARTS);
        let mine = |poller: &Poller| !has_many || address_of(&poller.peer) == address;
        let candidates = self.entries.iter().filter(|(_, poller)| mine(poller));
        let oldest = candidates.min_by_key(|(_, poller)| (poller.last, poller.id));
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &GoneKey) -> Option<Poller> {
        let poller = self.entries.remove(key)?;
        let address = address_of(&poller.peer);
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
        Some(poller)
    }

    /// Takes out the clients that are gone.
    pub(super) fn take_gone(&mut self, bounds: &StatusBounds, now: Instant) -> Vec<GoneStream> {
        let is_gone = |poller: &Poller| {
            now.saturating_duration_since(poller.last) > poller.patience(bounds) + bounds.grace
        };
        let gone = self.entries.iter().filter(|(_, poller)| is_gone(poller));
        let gone: Vec<_> = gone.map(|(key, _)| key.clone()).collect();
        let taken = gone.into_iter().filter_map(|key| {
            let poller = self.remove(&key)?;
            Some(poller.gone(key, bounds))
        });
        taken.collect()
    }

    /// The numbers of all clients.
    pub(super) fn ids(&self) -> HashSet<u64> {
        self.entries.values().map(|poller| poller.id).collect()
    }

    /// The clients, in no order.
    pub(super) fn statuses<'a>(
        &'a self,
        bounds: &'a StatusBounds,
        now: Instant,
    ) -> impl Iterator<Item = StreamStatus> + 'a {
        self.entries.iter().map(move |(key, poller)| poller.status(key, bounds, now))
    }
}

/// One address may take that part of the book before it replaces its own entries.
const PARTS: usize = 8;

impl Poller {
    fn new(id: u64, poll: &DecidedPoll<'_>, now: Instant) -> Self {
        Self {
            id,
            node: short_node(poll.node),
            peer: Arc::clone(poll.peer),
            audience: poll.audience.without_values(),
            opened: now,
            last: now,
            interval: Duration::ZERO,
            since: now,
            stated: "".into(),
            given: None,
            refusals: 0,
            seen: 0,
            landed: 0,
        }
    }

    fn decided(&mut self, poll: &DecidedPoll<'_>, now: Instant) {
        let was_landed = self.given.is_none();
        self.interval = now.saturating_duration_since(self.last).max(self.interval / 2);
        self.last = now;
        self.node = short_node(poll.node);
        self.peer = Arc::clone(poll.peer);
        self.audience = poll.audience.without_values();
        let accepts = self.given.as_ref().is_none_or(|given| **given == *poll.stated);
        self.refusals = if accepts { 0 } else { self.refusals.saturating_add(1) };
        self.stated = short(poll.stated);
        self.given = poll.given.map(short);
        self.seen = self.seen.max(poll.load);
        if self.given.is_none() {
            self.refusals = 0;
            self.landed = self.landed.max(poll.load);
        }
        if was_landed != self.given.is_none() {
            self.since = now;
        }
    }

    /// The time without a poll after which the client is silent.
    fn patience(&self, bounds: &StatusBounds) -> Duration {
        bounds.silent_after.max(3 * self.interval)
    }

    fn status(&self, key: &GoneKey, bounds: &StatusBounds, now: Instant) -> StreamStatus {
        let quiet = now.saturating_duration_since(self.last);
        let is_refused = self.refusals >= REFUSALS;
        let state = if is_refused {
            StreamState::Rejected
        } else if quiet > self.patience(bounds) {
            StreamState::Silent
        } else if self.given.is_none() {
            StreamState::InStep
        } else {
            StreamState::Pending
        };
        StreamStatus {
            id: self.id,
            node: Some(Arc::clone(&self.node)),
            peer: Arc::clone(&self.peer),
            audience: Some(self.audience.clone()),
            variant: Variant::Sotw,
            type_url: key.type_url.clone(),
            poll: Some(PollVersions {
                stated: Arc::clone(&self.stated),
                given: self.given.clone(),
            }),
            age: now.saturating_duration_since(self.opened),
            state,
            since: now.saturating_duration_since(self.since),
            seen: self.seen,
            landed: self.landed,
            rejected_types: u32::from(is_refused),
            unanswered: (self.given.is_some() && !is_refused).then_some(quiet),
            acknowledged: None,
            heard: Some(quiet),
        }
    }

    fn gone(self, key: GoneKey, bounds: &StatusBounds) -> GoneStream {
        let went = self.last + self.patience(bounds);
        let since = went.elapsed();
        GoneStream {
            id: self.id,
            node: key.node,
            cluster: key.cluster,
            peer: self.peer,
            audience: self.audience,
            variant: Variant::Sotw,
            type_url: key.type_url,
            at: SystemTime::now() - since,
            since,
            code: None,
            landed: self.landed,
            rejections: Vec::new(),
            went,
        }
    }
}

/// A node, without its metadata if it is large.
fn short_node(node: &Arc<Node>) -> Arc<Node> {
    if node.held_bytes() <= MOST_NODE_BYTES {
        return Arc::clone(node);
    }
    Arc::new(Node {
        metadata: Arc::default(),
        client_features: Arc::default(),
        dynamic_parameters: BTreeMap::new(),
        ..(**node).clone()
    })
}

/// A version, cut to the length of a name.
fn short(version: &str) -> Arc<str> {
    version[..version.floor_char_boundary(MAX_NAME_BYTES)].into()
}

fn address_of(peer: &Peer) -> Option<IpAddr> {
    peer.address.map(|address| address.ip().to_canonical())
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    struct Setup {
        polls: Polls,
        bounds: StatusBounds,
        last: u64,
    }

    impl Setup {
        fn new(polls: usize) -> Self {
            let bounds = StatusBounds { polls, ..StatusBounds::default() };
            Self { polls: Polls::default(), bounds, last: 0 }
        }

        fn poll(&mut self, from: u8, id: &str) {
            let address = Some(([127, 0, 0, from], 1).into());
            let peer = Arc::new(Peer { address, tls: false, certificates: Vec::new() });
            let node = Arc::new(Node { id: id.to_owned(), ..Node::default() });
            let type_url = TypeUrl::new("envoy.config.cluster.v3.Cluster");
            let poll = DecidedPoll {
                node: &node,
                peer: &peer,
                type_url: &type_url,
                audience: &"all".into(),
                load: 1,
                stated: "",
                given: None,
            };
            self.last += 1;
            self.polls.decided(&poll, || self.last, &self.bounds);
        }

        fn ids(&self) -> Vec<String> {
            let statuses = self.polls.statuses(&self.bounds, Instant::now());
            let mut ids: Vec<_> = statuses.map(|it| it.node.unwrap().id.clone()).collect();
            ids.sort();
            ids
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_with_many_names_replaces_its_own() {
        let mut setup = Setup::new(16);
        setup.poll(1, "honest");
        for number in 0..100 {
            setup.poll(2, &number.to_string());
        }
        let ids = setup.ids();
        assert_eq!(ids.len(), 16);
        assert!(ids.contains(&"honest".to_owned()) && ids.contains(&"99".to_owned()), "{ids:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_polls_no_more_is_silent_and_then_gone() {
        let mut setup = Setup::new(16);
        setup.poll(1, "n");
        advance(Duration::from_secs(20)).await;
        setup.poll(1, "n");
        let state = |setup: &Setup| {
            let mut all = setup.polls.statuses(&setup.bounds, Instant::now());
            all.next().map(|it| it.state)
        };
        advance(Duration::from_secs(60)).await;
        assert_eq!(state(&setup), Some(StreamState::InStep));
        advance(Duration::from_secs(1)).await;
        assert_eq!(state(&setup), Some(StreamState::Silent));
        assert_eq!(setup.polls.take_gone(&setup.bounds, Instant::now()).len(), 0);
        advance(setup.bounds.grace).await;
        let gone = setup.polls.take_gone(&setup.bounds, Instant::now());
        assert_eq!((gone.len(), gone[0].landed, state(&setup)), (1, 1, None));
        assert!(setup.polls.by_address.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_node_that_says_much_little_is_kept() {
        let mut setup = Setup::new(16);
        setup.poll(1, &"n".repeat(4000));
        assert_eq!(setup.ids(), [""; 0]);
    }
}
