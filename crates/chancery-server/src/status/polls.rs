//! The clients that poll over REST, one entry for each of their subscriptions.
//!
//! A poll is no session: a client has what it was given when its next poll states the version (S-022), and
//! nobody knows that it is gone but by its silence. So this is a memory of the last polls, with bounds. Two
//! polls are of one subscription if they state the same node, come from the same address, and ask for the
//! same names of a type: an Envoy has a subscription for the endpoints of each cluster.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::{Names, Node, TypeUrl};
use tokio::time::Instant;

use super::bounds::StatusBounds;
use super::gone::GoneStream;
use super::poller::Poller;
use super::stream_status::StreamStatus;
use crate::policy::Peer;
use crate::store::AudienceName;

/// A poll that was decided.
pub(crate) struct DecidedPoll<'a> {
    /// When it came.
    pub(crate) began: Instant,
    pub(crate) node: &'a Arc<Node>,
    pub(crate) peer: &'a Arc<Peer>,
    pub(crate) type_url: &'a TypeUrl,
    /// The names that it asks for.
    pub(crate) names: &'a Names,
    pub(crate) audience: &'a AudienceName,
    /// The number of reassignments before the client asked for its audience.
    pub(crate) reassignments: u64,
    /// The last load that was shown before the snapshot was looked at.
    pub(crate) load: u64,
    /// The version that the client says it has.
    pub(crate) stated: &'a str,
    /// The version that it is given; `None` if it is current.
    pub(crate) given: Option<&'a str>,
}

/// The clients that poll. Keys are hashes of what a poll states.
#[derive(Default)]
pub(super) struct Polls {
    entries: HashMap<u64, Entry>,
    /// The keys by when the subscriptions were last heard of, and by their numbers.
    by_age: BTreeMap<(Instant, u64), u64>,
    by_address: HashMap<Option<IpAddr>, OfAddress>,
    clients: HashMap<u64, OfClient>,
    keys: RandomState,
    bytes: usize,
}

struct Entry {
    poller: Arc<Poller>,
    client: u64,
    bytes: usize,
}

/// The entries from one address.
#[derive(Default)]
struct OfAddress {
    by_age: BTreeMap<(Instant, u64), u64>,
    bytes: usize,
}

/// The entries of one client.
struct OfClient {
    entries: usize,
    habits: Habits,
}

/// The polls of one client, whatever they are for.
#[derive(Clone, Copy)]
pub(super) struct Habits {
    /// The last one.
    pub(super) heard: Instant,
    /// The longest time between two for the same, if there were two.
    pub(super) interval: Option<Duration>,
}

/// The subscriptions at one moment.
pub(super) struct PollList(Vec<(Arc<Poller>, Habits)>);

/// The bytes that all entries may take, about.
fn most_bytes(bounds: &StatusBounds) -> usize {
    bounds.polls.saturating_mul(BYTES_EACH)
}

/// The bytes of an entry on average, if there are as many as there may be.
const BYTES_EACH: usize = 2 * 1024;

/// One address may take that part of the book before it replaces its own entries.
const PARTS: usize = 8;

impl Polls {
    /// Takes in a poll. `id` is the number of the subscription if it is new.
    pub(super) fn decided(
        &mut self,
        poll: &DecidedPoll<'_>,
        id: impl FnOnce() -> u64,
        bounds: &StatusBounds,
    ) {
        let (now, address) = (Instant::now(), poll.peer.ip());
        let node = (&*poll.node.id, &*poll.node.cluster, address);
        let client = self.keys.hash_one(node);
        let key = self.keys.hash_one((node, poll.type_url, poll.names));
        let mut poller = match self.remove(key) {
            Some(known) => known,
            None => match Poller::new(id(), poll, now) {
                Some(new) => Arc::new(new),
                None => return,
            },
        };
        Arc::make_mut(&mut poller).decided(poll, now);
        self.insert(key, client, poller);
        while self.entries.len() > bounds.polls || self.bytes > most_bytes(bounds) {
            self.make_room(address, bounds);
        }
    }

    fn insert(&mut self, key: u64, client: u64, poller: Arc<Poller>) {
        let (age, bytes) = ((poller.last, poller.id), poller.bytes());
        self.bytes += bytes;
        self.by_age.insert(age, key);
        let of_address = self.by_address.entry(poller.peer.ip()).or_default();
        of_address.by_age.insert(age, key);
        of_address.bytes += bytes;
        let habits = Habits { heard: poller.last, interval: poller.interval };
        let of_client = self.clients.entry(client).or_insert(OfClient { entries: 0, habits });
        of_client.entries += 1;
        of_client.habits.heard = habits.heard.max(of_client.habits.heard);
        of_client.habits.interval = habits.interval.max(of_client.habits.interval);
        self.entries.insert(key, Entry { poller, client, bytes });
    }

    fn remove(&mut self, key: u64) -> Option<Arc<Poller>> {
        let Entry { poller, client, bytes } = self.entries.remove(&key)?;
        let (age, address) = ((poller.last, poller.id), poller.peer.ip());
        self.bytes -= bytes;
        self.by_age.remove(&age);
        if let Some(of_address) = self.by_address.get_mut(&address) {
            of_address.by_age.remove(&age);
            of_address.bytes -= bytes;
            if of_address.by_age.is_empty() {
                self.by_address.remove(&address);
            }
        }
        if let Some(of_client) = self.clients.get_mut(&client) {
            of_client.entries -= 1;
            if of_client.entries == 0 {
                self.clients.remove(&client);
            }
        }
        Some(poller)
    }

    /// Forgets the subscription that was heard of longest ago: of the same address, if that has more than its
    /// part.
    fn make_room(&mut self, address: Option<IpAddr>, bounds: &StatusBounds) {
        let mine = self.by_address.get(&address).filter(|of_address| {
            of_address.by_age.len() > bounds.polls / PARTS
                || of_address.bytes > most_bytes(bounds) / PARTS
        });
        let oldest = mine.map_or(&self.by_age, |mine| &mine.by_age).values().next();
        if let Some(key) = oldest.copied() {
            self.remove(key);
        }
    }

    /// The numbers of all subscriptions.
    pub(super) fn ids(&self) -> HashSet<u64> {
        self.entries.values().map(|entry| entry.poller.id).collect()
    }

    /// The subscriptions, in no order.
    pub(super) fn list(&self) -> PollList {
        let all = self.entries.values().filter_map(|Entry { poller, client, .. }| {
            Some((Arc::clone(poller), self.clients.get(client)?.habits))
        });
        PollList(all.collect())
    }
}

impl PollList {
    /// Those of clients that are not gone.
    pub(super) fn statuses(
        &self,
        bounds: &StatusBounds,
        reassignments: u64,
        now: Instant,
    ) -> impl Iterator<Item = StreamStatus> {
        self.0.iter().filter_map(move |(poller, habits)| {
            let status = poller.status(bounds, *habits, now)?;
            // It is asked for at each poll.
            let is_asking = poller.reassignments < reassignments;
            Some(StreamStatus { is_asking, ..status })
        })
    }

    /// Those of clients that are gone, as long as gone streams are remembered.
    pub(super) fn gone(&self, bounds: &StatusBounds, now: Instant) -> Vec<GoneStream> {
        self.0.iter().filter_map(|(poller, habits)| poller.gone(bounds, *habits, now)).collect()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::super::stream_status::StreamState;
    use super::*;

    struct Setup {
        polls: Polls,
        bounds: StatusBounds,
        last: u64,
        load: u64,
        /// The number of reassignments so far.
        reassignments: u64,
    }

    impl Setup {
        fn new(polls: usize) -> Self {
            let bounds = StatusBounds { polls, ..StatusBounds::default() };
            Self { polls: Polls::default(), bounds, last: 0, load: 1, reassignments: 0 }
        }

        fn poll(&mut self, from: u8, id: &str) {
            self.ask(from, id, "", ("", None));
        }

        /// A poll for a name, or for everything, that states a version and is given one.
        fn ask(&mut self, from: u8, id: &str, name: &str, versions: (&str, Option<&str>)) {
            let address = Some(([127, 0, 0, from], 1).into());
            let peer = Arc::new(Peer { address, tls: false, certificates: vec![vec![0; 1000]] });
            let node = Arc::new(Node { id: id.to_owned(), ..Node::default() });
            let names = Some(name).filter(|name| !name.is_empty());
            let poll = DecidedPoll {
                began: Instant::now(),
                node: &node,
                peer: &peer,
                type_url: &TypeUrl::new("envoy.config.endpoint.v3.ClusterLoadAssignment"),
                names: &names.iter().collect(),
                audience: &"all".into(),
                reassignments: self.reassignments,
                load: self.load,
                stated: versions.0,
                given: versions.1,
            };
            self.last += 1;
            self.polls.decided(&poll, || self.last, &self.bounds);
        }

        fn statuses(&self) -> Vec<StreamStatus> {
            self.polls.list().statuses(&self.bounds, self.reassignments, Instant::now()).collect()
        }

        fn ids(&self) -> Vec<String> {
            let mut ids: Vec<_> =
                self.statuses().iter().map(|it| it.node.as_ref().unwrap().id.clone()).collect();
            ids.sort();
            ids
        }

        fn states(&self) -> Vec<StreamState> {
            self.statuses().iter().map(|it| it.state).collect()
        }

        fn gone(&self) -> Vec<GoneStream> {
            self.polls.list().gone(&self.bounds, Instant::now())
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
    async fn a_client_asks_for_its_audience_with_the_next_poll() {
        let mut setup = Setup::new(16);
        setup.poll(1, "n");
        let asks = |setup: &Setup| setup.statuses()[0].is_asking;
        assert!(!asks(&setup));
        setup.reassignments += 1;
        assert!(asks(&setup), "nobody knows where it belongs");
        setup.poll(1, "n");
        assert!(!asks(&setup));
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_are_bounded_and_those_that_are_forgotten_leave_nothing() {
        let mut setup = Setup::new(100);
        for number in 0..1000 {
            setup.poll(1, &format!("{number}{}", "n".repeat(1700)));
        }
        let polls = &mut setup.polls;
        assert!(
            polls.bytes <= 204_800 && (50..100).contains(&polls.entries.len()),
            "{}",
            polls.entries.len()
        );
        let keys: Vec<_> = polls.entries.keys().copied().collect();
        keys.into_iter().for_each(|key| _ = polls.remove(key));
        assert_eq!(polls.bytes + polls.by_age.len(), 0);
        assert!(polls.by_address.is_empty() && polls.clients.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_polls_no_more_is_silent_and_then_gone() {
        let mut setup = Setup::new(16);
        setup.poll(1, "n");
        advance(Duration::from_secs(20)).await;
        setup.poll(1, "n");
        advance(Duration::from_secs(60)).await;
        assert_eq!(setup.states(), [StreamState::InStep]);
        advance(Duration::from_secs(1)).await;
        assert_eq!(setup.states(), [StreamState::Silent]);
        assert_eq!(setup.gone().len(), 0);
        advance(setup.bounds.grace).await;
        let gone = setup.gone();
        assert_eq!((gone.len(), gone[0].landed, setup.states()), (1, 1, vec![]));
        advance(setup.bounds.gone_for).await;
        assert_eq!(setup.gone().len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_polls_seldom_is_not_silent_between() {
        let mut setup = Setup::new(16);
        setup.poll(1, "n");
        for _ in 0..3 {
            advance(Duration::from_secs(100)).await;
            assert_eq!(setup.states(), [StreamState::InStep]);
            setup.poll(1, "n");
        }
        advance(Duration::from_secs(1000)).await;
        assert_eq!((setup.states().len(), setup.gone().len()), (0, 1));
        setup.poll(1, "n");
        advance(Duration::from_secs(1000)).await;
        assert_eq!((setup.states(), setup.gone().len()), (vec![StreamState::InStep], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_several_subscriptions_of_a_type_has_what_each_of_them_has() {
        // S-022
        let mut setup = Setup::new(16);
        let names = ["a", "b", "c"];
        for name in names {
            setup.ask(1, "n", name, ("", Some(&format!("{name}1"))));
        }
        for name in names {
            setup.ask(1, "n", name, (&format!("{name}1"), None));
        }
        assert_eq!(setup.states(), [StreamState::InStep; 3]);
        setup.load = 2;
        for name in names {
            setup.ask(1, "n", name, (&format!("{name}1"), Some(&format!("{name}2"))));
        }
        assert_eq!(setup.states(), [StreamState::Pending; 3]);
        setup.ask(1, "n", "a", ("a2", None));
        // One of the same id somewhere else.
        setup.ask(2, "n", "a", ("a2", None));
        let landed = setup.statuses().iter().filter(|it| it.landed == 2).count();
        assert_eq!((landed, setup.statuses().len()), (2, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_subscription_that_ended_is_not_waited_for() {
        let mut setup = Setup::new(16);
        for _ in 0..10 {
            setup.ask(1, "n", "a", ("1", None));
            setup.ask(1, "n", "b", ("1", None));
            advance(Duration::from_secs(5)).await;
        }
        for _ in 0..7 {
            setup.ask(1, "n", "a", ("1", None));
            assert_eq!(setup.states(), [StreamState::InStep; 2]);
            advance(Duration::from_secs(4)).await;
        }
        setup.ask(1, "n", "a", ("1", None));
        assert_eq!((setup.states().len(), setup.gone().len()), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_a_client_asked_for_once_are_not_waited_for_long() {
        let mut setup = Setup::new(16);
        setup.ask(1, "n", "a", ("", Some("1")));
        for _ in 0..4 {
            setup.ask(1, "n", "b", ("2", None));
            advance(Duration::from_secs(10)).await;
        }
        setup.ask(1, "n", "b", ("2", None));
        assert_eq!(setup.states(), [StreamState::InStep]);
    }

    #[tokio::test(start_paused = true)]
    async fn of_a_node_that_says_much_little_is_kept() {
        let mut setup = Setup::new(16);
        setup.poll(1, &"n".repeat(4000));
        assert_eq!(setup.ids(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn bounds_may_be_as_large_as_they_can_be() {
        let mut setup = Setup::new(16);
        setup.bounds.silent_after = Duration::MAX;
        setup.bounds.grace = Duration::MAX;
        setup.poll(1, "n");
        advance(Duration::from_secs(10_000)).await;
        assert_eq!((setup.states(), setup.gone().len()), (vec![StreamState::InStep], 0));
    }
}
