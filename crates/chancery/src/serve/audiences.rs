//! The audiences somebody belongs to, and what each of them sees.
//!
//! ```text
//!   client --> Grouping --> group --+--> Audience --> name in the Store
//!                  node id ---------+        |
//!                                            +------> Catalog: its snapshot, published
//! ```
//!
//! An audience is published when its first client asks, and again after each load; one that had
//! no stream and no question between two loads is withdrawn. So the store holds what is watched
//! and not every combination of group and node.
//!
//! Catalog and store are looked at under one lock: else a client that asks while a load comes in
//! could put the older snapshot over the newer one.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chancery_server::{Client, GroupName, Happened, Policy, Refusal, Store, StreamEvent};
use chancery_sources::{Audience, Catalog};

use super::grouping::Grouping;

/// The policy of the daemon. Clones are the same.
#[derive(Clone)]
pub(crate) struct Audiences {
    store: Arc<Store>,
    catalog: Catalog,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    grouping: Arc<Grouping>,
    /// The groups and nodes with overlays, as of the last load.
    known: Known,
    seats: BTreeMap<GroupName, Seat>,
    /// The audience each open stream belongs to.
    streams: HashMap<u64, GroupName>,
}

#[derive(Default, PartialEq)]
struct Known {
    groups: Arc<[Arc<str>]>,
    nodes: Arc<[Arc<str>]>,
}

/// One audience that is published.
struct Seat {
    audience: Audience,
    streams: usize,
    /// Whether a client was put here since the last load.
    asked: bool,
}

impl Audiences {
    /// Nobody belongs anywhere yet.
    pub(crate) fn new(store: Arc<Store>, catalog: Catalog, grouping: Grouping) -> Self {
        let known = Known::of(&catalog);
        let inner = Inner {
            grouping: Arc::new(grouping),
            known,
            seats: BTreeMap::new(),
            streams: HashMap::new(),
        };
        Self { store, catalog, inner: Arc::new(Mutex::new(inner)) }
    }

    /// Brings everybody to what the catalog says now, and to other rules if there are any.
    ///
    /// Streams are told to ask again before anything is published: a node that moves to another
    /// audience must not be shown for a moment what its former one sees from now on.
    pub(crate) fn follow(&self, grouping: Option<Grouping>) {
        let mut inner = self.lock();
        let known = Known::of(&self.catalog);
        let mut moved = known != inner.known;
        inner.known = known;
        if let Some(grouping) = grouping {
            moved |= grouping != *inner.grouping;
            inner.grouping = Arc::new(grouping);
        }
        moved |= self.sweep(&mut inner);
        if moved {
            self.store.regroup();
        }
        for (name, seat) in &inner.seats {
            self.publish(name, &seat.audience);
        }
    }

    /// Withdraws the audiences nobody belongs to; whether there were any.
    ///
    /// A client may have been put there and not be watching yet: regrouping makes it ask again.
    fn sweep(&self, inner: &mut Inner) -> bool {
        let before = inner.seats.len();
        inner.seats.retain(|name, seat| {
            let kept = seat.streams > 0 || std::mem::take(&mut seat.asked);
            if !kept {
                self.store.withdraw(name);
            }
            kept
        });
        inner.seats.len() < before
    }

    /// Publishes what an audience sees, unless no load so far had it whole.
    fn publish(&self, name: &GroupName, audience: &Audience) {
        let Audience { group, node } = audience;
        if let Some(snapshot) = self.catalog.snapshot(group.as_deref(), node.as_deref()) {
            self.store.publish(name, snapshot);
        }
    }

    /// Makes sure an audience is published.
    fn seat(&self, inner: &mut Inner, audience: Audience) -> GroupName {
        let name = name_of(&audience);
        if let Some(seat) = inner.seats.get_mut(&name) {
            seat.asked = true;
            return name;
        }
        self.publish(&name, &audience);
        inner.seats.insert(name.clone(), Seat { audience, streams: 0, asked: true });
        name
    }

    /// No code panics with the lock held, and what it guards would be whole even then.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Policy for Audiences {
    fn group(&self, client: &Client<'_>) -> Result<GroupName, Refusal> {
        let (grouping, groups) = {
            let inner = self.lock();
            (Arc::clone(&inner.grouping), Arc::clone(&inner.known.groups))
        };
        let group = match client.node {
            Some(node) => grouping.of_node(node, &groups)?,
            None => grouping.of_nobody()?,
        };
        let node = client.node.map(|node| node.id.as_str());
        let mut inner = self.lock();
        let audience = self.catalog.audience(group.as_deref(), node);
        Ok(self.seat(&mut inner, audience))
    }

    fn observe(&self, event: &StreamEvent<'_>) {
        match (&event.what, event.group) {
            (Happened::Grouped, Some(group)) => self.lock().joined(event.stream, group.clone()),
            (Happened::Gone { .. }, _) => self.lock().left(event.stream),
            _ => {}
        }
    }
}

impl Inner {
    fn joined(&mut self, stream: u64, group: GroupName) {
        self.left(stream);
        if let Some(seat) = self.seats.get_mut(&group) {
            seat.streams += 1;
            self.streams.insert(stream, group);
        }
    }

    fn left(&mut self, stream: u64) {
        let Some(group) = self.streams.remove(&stream) else { return };
        if let Some(seat) = self.seats.get_mut(&group) {
            seat.streams = seat.streams.saturating_sub(1);
        }
    }
}

impl Known {
    fn of(catalog: &Catalog) -> Self {
        Self { groups: catalog.known_groups().into(), nodes: catalog.known_nodes().into() }
    }
}

/// The name of an audience in the store and in log lines. Slashes and percent signs inside of
/// names are encoded, as in the directory, so that no two audiences share a name.
fn name_of(audience: &Audience) -> GroupName {
    let encoded = |name: &str| name.replace('%', "%25").replace('/', "%2F");
    match (&audience.group, &audience.node) {
        (None, None) => "base".into(),
        (Some(group), None) => format!("groups/{}", encoded(group)).into(),
        (None, Some(node)) => format!("nodes/{}", encoded(node)).into(),
        (Some(group), Some(node)) => {
            format!("groups/{}+nodes/{}", encoded(group), encoded(node)).into()
        }
    }
}
