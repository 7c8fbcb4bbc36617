//! The watches of a client: what each has heard, and what it has still to hear.
//!
//! ```text
//!   cache --changes, by name--> [Watchers] --next event--> the program
//!                                   |
//!                                   +--> the stream is read on once all of them have applied it
//! ```
//!
//! There is no queue. A watcher keeps the names it has news of, and its next event is made of what
//! is true when it asks: a slow watcher misses what came between, and nothing else. Until it has
//! applied what it heard, the stream that brought the news is read no further (C-038, as the read
//! delay of [gRFC A88]). That wait is bounded: a watcher that nobody reads costs the others time,
//! and no memory.
//!
//! Not here: what is true of a resource (`cache`).
//!
//! [gRFC A88]: https://github.com/grpc/proposal/blob/master/A88-xds-data-error-handling.md

mod event;
mod subject;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use self::event::WatchEvent;
pub(super) use self::subject::{EVERYTHING, WatchSubject, is_collection};
pub(super) use self::watcher::{ChangeKind, ResourceView};
use self::watcher::{Watcher, WatcherProgress};
use super::error::WatchError;
use super::ids::{StreamId, WatchId};
use crate::{ResourceName, Time};

/// All watchers.
#[derive(Debug, Default)]
pub(super) struct Watchers {
    active: BTreeMap<WatchId, Watcher>,
    /// Watches of what cannot be watched, until that has been told.
    failed: BTreeMap<WatchId, Arc<WatchError>>,
    last: u64,
    ready: BTreeSet<WatchId>,
    /// The streams that wait for watchers.
    waiting: BTreeMap<StreamId, StreamWait>,
    resumed: BTreeSet<StreamId>,
}

/// The wait of a stream for its watchers.
#[derive(Debug)]
struct StreamWait {
    watchers: usize,
    since: Time,
}

/// The stream on which news came, and the time.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewsOrigin<'a> {
    pub(super) stream: &'a StreamId,
    pub(super) now: Time,
}

/// Takes note of news for watchers, all of one origin.
#[derive(Debug)]
pub(super) struct Notifier<'a> {
    watchers: &'a mut Watchers,
    origin: Option<NewsOrigin<'a>>,
}

impl Watchers {
    pub(super) fn add(&mut self, subject: WatchSubject) -> WatchId {
        let id = self.next_id();
        self.active.insert(id, Watcher::new(subject));
        id
    }

    /// Adds a watch of what cannot be watched. It hears why.
    pub(super) fn add_failed(&mut self, error: WatchError) -> WatchId {
        let id = self.next_id();
        self.failed.insert(id, Arc::new(error));
        self.ready.insert(id);
        id
    }

    /// Ends a watch. Returns its subject, if it had one.
    pub(super) fn remove(&mut self, id: WatchId) -> Option<WatchSubject> {
        self.ready.remove(&id);
        self.failed.remove(&id);
        let watcher = self.active.remove(&id)?;
        self.release(watcher.delays);
        Some(watcher.subject)
    }

    /// Returns the subject of a watch.
    pub(super) fn subject(&self, id: WatchId) -> Option<&WatchSubject> {
        self.active.get(&id).map(|watcher| &watcher.subject)
    }

    /// Takes note of news that came with a response.
    pub(super) fn notifier<'a>(&'a mut self, origin: NewsOrigin<'a>) -> Notifier<'a> {
        Notifier { watchers: self, origin: Some(origin) }
    }

    /// Takes note of news for which no stream waits.
    pub(super) fn local_notifier(&mut self) -> Notifier<'_> {
        Notifier { watchers: self, origin: None }
    }

    /// Returns why a watch failed, once.
    pub(super) fn next_failure(&mut self, id: WatchId) -> Option<WatchEvent> {
        self.failed.remove(&id).map(|error| WatchEvent::Failed { error })
    }

    /// Returns the next event of a watch. `view` says what is true of a name.
    ///
    /// If nothing is left to hear, and the watcher has applied what it heard before, no stream
    /// waits for it any more.
    pub(super) fn next_event<'v>(
        &mut self,
        id: WatchId,
        view: impl Fn(&ResourceName) -> ResourceView<'v>,
    ) -> Option<WatchEvent> {
        let watcher = self.active.get_mut(&id)?;
        let event = watcher.next_event(view);
        if event.is_some() {
            watcher.progress = WatcherProgress::Applying;
        } else if watcher.progress == WatcherProgress::Idle {
            self.applied(id);
        }
        event
    }

    /// The watcher has applied all that it heard. News it has not heard yet keep its streams
    /// waiting (C-038).
    pub(super) fn applied(&mut self, id: WatchId) {
        if let Some(watcher) = self.active.get_mut(&id) {
            watcher.progress = WatcherProgress::Idle;
            if !watcher.has_news() {
                let delays = std::mem::take(&mut watcher.delays);
                self.release(delays);
            }
        }
    }

    /// Returns the time at which a stream stops waiting for its watchers.
    pub(super) fn deadline(&self, patience: Duration) -> Option<Time> {
        self.waiting.values().map(|wait| wait.since + patience).min()
    }

    /// Has the streams read on that have waited for too long.
    pub(super) fn stop_waiting(&mut self, now: Time, patience: Duration) {
        let late = self.waiting.iter().filter(|(_, wait)| wait.since + patience <= now);
        let late: Vec<_> = late.map(|(stream, _)| stream.clone()).collect();
        for stream in late {
            self.waiting.remove(&stream);
            for watcher in self.active.values_mut() {
                watcher.delays.retain(|delayed| *delayed != stream);
            }
            self.resumed.insert(stream);
        }
    }

    /// Has a stream read on for another reason.
    pub(super) fn resume(&mut self, stream: &StreamId) {
        self.resumed.insert(stream.clone());
    }

    /// Returns true if every watcher has applied what came on this stream.
    pub(super) fn have_applied(&self, stream: &StreamId) -> bool {
        !self.waiting.contains_key(stream)
    }

    /// Returns the next watcher that has news.
    pub(super) fn next_ready(&mut self) -> Option<WatchId> {
        self.ready.pop_first()
    }

    /// Returns the next stream that may be read again.
    pub(super) fn next_resumed(&mut self) -> Option<StreamId> {
        self.resumed.pop_first()
    }

    fn next_id(&mut self) -> WatchId {
        self.last += 1;
        WatchId::new(self.last)
    }

    fn release(&mut self, streams: Vec<StreamId>) {
        for stream in streams {
            let is_last = self.waiting.get_mut(&stream).is_some_and(|wait| {
                wait.watchers -= 1;
                wait.watchers == 0
            });
            if is_last {
                self.waiting.remove(&stream);
                self.resumed.insert(stream);
            }
        }
    }
}

impl Notifier<'_> {
    /// These watchers have news of `name`, if there is a change.
    pub(super) fn notify(
        &mut self,
        watchers: &[WatchId],
        name: &ResourceName,
        change: Option<ChangeKind>,
    ) {
        let Some(change) = change else { return };
        self.each(watchers, |watcher| watcher.note_change(name, change));
    }

    /// These watchers have heard of all members that their collection had when it was asked for.
    pub(super) fn mark_complete(&mut self, watchers: &[WatchId]) {
        self.each(watchers, |watcher| watcher.is_complete_due = true);
    }

    /// An earlier run told these watchers that there is this resource: if it is gone before they
    /// read, they have to hear of that.
    pub(super) fn assume_known(&mut self, watchers: &[WatchId], name: &ResourceName) {
        for id in watchers {
            if let Some(watcher) = self.watchers.active.get_mut(id) {
                watcher.known.insert(name.clone());
            }
        }
    }

    fn each(&mut self, ids: &[WatchId], mut act: impl FnMut(&mut Watcher)) {
        for id in ids {
            if let Some(watcher) = self.watchers.active.get_mut(id) {
                act(watcher);
                self.watchers.ready.insert(*id);
                if let Some(NewsOrigin { stream, now }) = self.origin
                    && !watcher.delays.contains(stream)
                {
                    watcher.delays.push(stream.clone());
                    let wait = self.watchers.waiting.entry(stream.clone());
                    wait.or_insert(StreamWait { watchers: 0, since: now }).watchers += 1;
                }
            }
        }
    }
}
