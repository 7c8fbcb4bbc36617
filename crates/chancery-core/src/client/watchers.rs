//! Who watches, and what each of them has not been told yet.
//!
//! There is no queue: a watcher keeps the names it has news of, and is told what is true when it
//! asks (a slow one misses what came between, and nothing else). Until it has asked again it owes
//! an application of what it was told to the stream the news came on, and that stream reads no
//! further (C-038).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::entry::News;
use super::{AuthorityKey, StreamId, WatchError};
use crate::{ResourceName, TypeUrl};

/// One watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WatchId(u64);

/// What somebody watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) authority: AuthorityKey,
    pub(super) type_url: TypeUrl,
    /// A resource, `*`, or the glob of a collection.
    pub(super) name: ResourceName,
}

impl Subject {
    /// Whether more than one resource is watched.
    pub(super) fn is_group(&self) -> bool {
        is_group(&self.name)
    }
}

pub(super) fn is_group(name: &ResourceName) -> bool {
    name.as_str() == EVERYTHING || name.is_glob()
}

/// The name that stands for all resources of a type.
pub(super) const EVERYTHING: &str = "*";

/// What there is to say about one name.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Untold {
    pub(super) changed: bool,
    pub(super) ambient: bool,
}

#[derive(Debug)]
pub(super) struct Watcher {
    /// What is watched, or why nothing is.
    pub(super) subject: Result<Subject, Arc<WatchError>>,
    pub(super) untold: BTreeMap<ResourceName, Untold>,
    /// Of a group: whether to say that all there was has been told.
    pub(super) settled: bool,
    /// The names for which the watcher believes that something is wrong.
    pub(super) troubled: BTreeSet<ResourceName>,
    /// Of a group: the names it believes to be there.
    pub(super) known: BTreeSet<ResourceName>,
    /// The streams that wait for this watcher.
    owes: Vec<StreamId>,
}

/// All watchers.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: BTreeMap<WatchId, Watcher>,
    last: u64,
    ready: BTreeSet<WatchId>,
    /// How many watchers a stream waits for.
    owed: BTreeMap<StreamId, usize>,
    resumed: BTreeSet<StreamId>,
}

impl Watchers {
    pub(super) fn add(&mut self, subject: Result<Subject, Arc<WatchError>>) -> WatchId {
        self.last += 1;
        let id = WatchId(self.last);
        if subject.is_err() {
            self.ready.insert(id);
        }
        self.all.insert(
            id,
            Watcher {
                subject,
                untold: BTreeMap::new(),
                settled: false,
                troubled: BTreeSet::new(),
                known: BTreeSet::new(),
                owes: Vec::new(),
            },
        );
        id
    }

    pub(super) fn remove(&mut self, id: WatchId) -> Option<Watcher> {
        self.applied(id);
        self.ready.remove(&id);
        self.all.remove(&id)
    }

    pub(super) fn get_mut(&mut self, id: WatchId) -> Option<&mut Watcher> {
        self.all.get_mut(&id)
    }

    /// Some watchers have news of `name`, which came on `stream`.
    pub(super) fn tell(
        &mut self,
        ids: &[WatchId],
        name: &ResourceName,
        news: News,
        stream: Option<&StreamId>,
    ) {
        if news == News::None {
            return;
        }
        for id in ids {
            let Some(watcher) = self.all.get_mut(id) else { continue };
            let untold = watcher.untold.entry(name.clone()).or_default();
            untold.changed |= news == News::Changed;
            untold.ambient |= news == News::Ambient;
            self.wake(*id, stream);
        }
    }

    /// All that a group had when it was asked for has been told.
    pub(super) fn settle(&mut self, ids: &[WatchId], stream: Option<&StreamId>) {
        for id in ids {
            let Some(watcher) = self.all.get_mut(id) else { continue };
            watcher.settled = true;
            self.wake(*id, stream);
        }
    }

    fn wake(&mut self, id: WatchId, stream: Option<&StreamId>) {
        self.ready.insert(id);
        let (Some(stream), Some(watcher)) = (stream, self.all.get_mut(&id)) else { return };
        if !watcher.owes.contains(stream) {
            watcher.owes.push(stream.clone());
            *self.owed.entry(stream.clone()).or_default() += 1;
        }
    }

    /// The watcher has done with all it was told.
    pub(super) fn applied(&mut self, id: WatchId) {
        let Some(watcher) = self.all.get_mut(&id) else { return };
        for stream in watcher.owes.drain(..) {
            let Some(owed) = self.owed.get_mut(&stream) else { continue };
            *owed -= 1;
            if *owed == 0 {
                self.owed.remove(&stream);
                self.resumed.insert(stream);
            }
        }
    }

    /// Whether no watcher has still to apply what came on this stream.
    pub(super) fn have_applied(&self, stream: &StreamId) -> bool {
        !self.owed.contains_key(stream)
    }

    /// The next watcher that has news.
    pub(super) fn next_ready(&mut self) -> Option<WatchId> {
        self.ready.pop_first()
    }

    /// The next stream that may be read again.
    pub(super) fn next_resumed(&mut self) -> Option<StreamId> {
        self.resumed.pop_first()
    }
}
