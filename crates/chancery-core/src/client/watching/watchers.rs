//! Who watches, and what each of them has not been told yet.
//!
//! There is no queue: a watcher keeps the names it has news of, and is told what is true when it
//! asks (a slow one misses what came between, and nothing else). Until it says that it has applied
//! what it was told, the stream the news came on reads no further (C-038). That wait is bounded:
//! as there is no queue, all that a watcher nobody reads can cost the others is time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::client::cache::entry::Change;
use crate::client::{AuthorityKey, StreamId, WatchError};
use crate::{ResourceName, Time, TypeUrl};

/// One watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

/// What somebody watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::client) struct WatchSubject {
    pub(in crate::client) authority: AuthorityKey,
    pub(in crate::client) type_url: TypeUrl,
    /// A resource, `*`, or the glob of a collection.
    pub(in crate::client) name: ResourceName,
}

impl WatchSubject {
    /// Whether more than one resource is watched.
    pub(in crate::client) fn is_group(&self) -> bool {
        is_group(&self.name)
    }
}

pub(in crate::client) fn is_group(name: &ResourceName) -> bool {
    name.as_str() == EVERYTHING || name.is_glob()
}

/// The name that stands for all resources of a type.
pub(in crate::client) const EVERYTHING: &str = "*";

/// What there is to say about one name.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::client) struct PendingNews {
    pub(in crate::client) changed: bool,
    pub(in crate::client) ambient: bool,
}

#[derive(Debug)]
pub(in crate::client) struct Watcher {
    /// What is watched, or why nothing is.
    pub(in crate::client) subject: Result<WatchSubject, Arc<WatchError>>,
    pub(in crate::client) pending: BTreeMap<ResourceName, PendingNews>,
    /// Of a group: whether to say that all there was has been told. Where nothing can be watched:
    /// whether to say why.
    pub(in crate::client) settled: bool,
    /// The names for which the watcher believes that something is wrong.
    pub(in crate::client) with_errors: BTreeSet<ResourceName>,
    /// Of a group: the names it believes to be there.
    pub(in crate::client) known: BTreeSet<ResourceName>,
    /// Whether it was told something that it has not applied yet.
    pub(in crate::client) is_busy: bool,
    /// The streams that wait for this watcher.
    owes: Vec<StreamId>,
}

/// All watchers.
#[derive(Debug, Default)]
pub(in crate::client) struct Watchers {
    all: BTreeMap<WatchId, Watcher>,
    last: u64,
    ready: BTreeSet<WatchId>,
    /// How many watchers a stream waits for, and since when.
    owed: BTreeMap<StreamId, (usize, Time)>,
    resumed: BTreeSet<StreamId>,
}

impl Watchers {
    pub(in crate::client) fn add(
        &mut self,
        subject: Result<WatchSubject, Arc<WatchError>>,
    ) -> WatchId {
        self.last += 1;
        let id = WatchId(self.last);
        if subject.is_err() {
            self.ready.insert(id);
        }
        let settled = subject.is_err();
        self.all.insert(
            id,
            Watcher {
                subject,
                pending: BTreeMap::new(),
                settled,
                with_errors: BTreeSet::new(),
                known: BTreeSet::new(),
                is_busy: false,
                owes: Vec::new(),
            },
        );
        id
    }

    pub(in crate::client) fn remove(&mut self, id: WatchId) -> Option<Watcher> {
        self.ready.remove(&id);
        let mut watcher = self.all.remove(&id)?;
        self.release(std::mem::take(&mut watcher.owes));
        Some(watcher)
    }

    pub(in crate::client) fn get_mut(&mut self, id: WatchId) -> Option<&mut Watcher> {
        self.all.get_mut(&id)
    }

    /// Some watchers have news of `name`, which came on `stream`.
    pub(in crate::client) fn notify(
        &mut self,
        ids: &[WatchId],
        name: &ResourceName,
        news: Change,
        stream: Option<(&StreamId, Time)>,
    ) {
        if news == Change::None {
            return;
        }
        for id in ids {
            let Some(watcher) = self.all.get_mut(id) else { continue };
            let untold = watcher.pending.entry(name.clone()).or_default();
            untold.changed |= news == Change::Changed;
            untold.ambient |= news == Change::Ambient;
            self.wake(*id, stream);
        }
    }

    /// An earlier run told that there is this member of a group: if it is gone before these watchers
    /// read, they have to hear of that.
    pub(in crate::client) fn assume_known(&mut self, ids: &[WatchId], name: &ResourceName) {
        for id in ids {
            if let Some(watcher) = self.all.get_mut(id) {
                watcher.known.insert(name.clone());
            }
        }
    }

    /// All that a group had when it was asked for has been told.
    pub(in crate::client) fn mark_complete(
        &mut self,
        ids: &[WatchId],
        stream: Option<(&StreamId, Time)>,
    ) {
        for id in ids {
            let Some(watcher) = self.all.get_mut(id) else { continue };
            watcher.settled = true;
            self.wake(*id, stream);
        }
    }

    fn wake(&mut self, id: WatchId, stream: Option<(&StreamId, Time)>) {
        self.ready.insert(id);
        let (Some((stream, now)), Some(watcher)) = (stream, self.all.get_mut(&id)) else { return };
        if !watcher.owes.contains(stream) {
            watcher.owes.push(stream.clone());
            self.owed.entry(stream.clone()).or_insert((0, now)).0 += 1;
        }
    }

    /// The watcher has applied all it was told, if it was told all there is.
    pub(in crate::client) fn applied(&mut self, id: WatchId) {
        let Some(watcher) = self.all.get_mut(&id) else { return };
        watcher.is_busy = false;
        if watcher.pending.is_empty() && !watcher.settled {
            let owes = std::mem::take(&mut watcher.owes);
            self.release(owes);
        }
    }

    fn release(&mut self, owes: Vec<StreamId>) {
        for stream in owes {
            let Some((owed, _)) = self.owed.get_mut(&stream) else { continue };
            *owed -= 1;
            if *owed == 0 {
                self.owed.remove(&stream);
                self.resumed.insert(stream);
            }
        }
    }

    /// When a stream stops waiting for its watchers.
    pub(in crate::client) fn deadline(&self, patience: Duration) -> Option<Time> {
        self.owed.values().map(|(_, since)| *since + patience).min()
    }

    /// Streams that have waited for too long read on.
    pub(in crate::client) fn stop_waiting(&mut self, now: Time, patience: Duration) {
        let late = self.owed.iter().filter(|(_, (_, since))| *since + patience <= now);
        let late: Vec<_> = late.map(|(stream, _)| stream.clone()).collect();
        for stream in late {
            self.owed.remove(&stream);
            for watcher in self.all.values_mut() {
                watcher.owes.retain(|owed| *owed != stream);
            }
            self.resumed.insert(stream);
        }
    }

    /// A stream may be read again, for another reason.
    pub(in crate::client) fn resume(&mut self, stream: &StreamId) {
        self.resumed.insert(stream.clone());
    }

    /// Whether no watcher has still to apply what came on this stream.
    pub(in crate::client) fn have_applied(&self, stream: &StreamId) -> bool {
        !self.owed.contains_key(stream)
    }

    /// The next watcher that has news.
    pub(in crate::client) fn next_ready(&mut self) -> Option<WatchId> {
        self.ready.pop_first()
    }

    /// The next stream that may be read again.
    pub(in crate::client) fn next_resumed(&mut self) -> Option<StreamId> {
        self.resumed.pop_first()
    }
}
