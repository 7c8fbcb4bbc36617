//! What a watcher is told: derived from what is true when it asks.
//!
//! A change comes before what is wrong with it, and takes back what was wrong before (C-047,
//! C-048). A watcher of a group hears of each member by its name, and of trouble with the servers
//! under the name of the group.

use std::sync::Arc;

use crate::ResourceName;
use crate::client::cache::authority::TypeCache;
use crate::client::cache::entry::CacheEntry;
use crate::client::watching::watchers::{PendingNews, WatchSubject, Watcher};
use crate::client::{CachedResource, ErrorKind, Machine, WatchError, WatchId};

/// What a watcher is told.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// There is a new value; or there is none, and what was there must not be used any more.
    Changed {
        /// Of which resource.
        name: Arc<str>,
        /// The value, or why there is none.
        value: Result<CachedResource, Arc<WatchError>>,
    },
    /// What is wrong although the value can be used; or that nothing is any more.
    Ambient {
        /// With which resource, or which group.
        name: Arc<str>,
        /// What, if anything.
        error: Option<Arc<WatchError>>,
    },
    /// All that a group had when it was first asked for has been told.
    Complete,
    /// Nothing can be watched: the name is none or nobody is responsible for it, or the client itself
    /// has come to an end. This is the last event of the watch.
    Failed {
        /// The reason.
        error: Arc<WatchError>,
    },
}

impl Machine {
    /// The next thing to tell a watcher. If what there was to tell is not true any more, and it has
    /// applied what it was told before, nobody waits for it.
    pub fn event(&mut self, id: WatchId) -> Option<WatchEvent> {
        let event = self.next_event(id);
        let watcher = self.watchers.get_mut(id)?;
        watcher.is_busy |= event.is_some();
        if !watcher.is_busy {
            self.watchers.applied(id);
        }
        event
    }

    /// A watcher has applied what it was told. What it has not been told yet keeps its stream
    /// waiting (C-038).
    pub fn applied(&mut self, id: WatchId) {
        self.watchers.applied(id);
    }

    fn next_event(&mut self, id: WatchId) -> Option<WatchEvent> {
        let watcher = self.watchers.get_mut(id)?;
        let subject = match &watcher.subject {
            Ok(subject) => subject.clone(),
            Err(error) => {
                let error = Arc::clone(error);
                return watcher.refusal(error);
            }
        };
        let shelf = self.authorities.get(&subject.authority)?.types.get(&subject.type_url)?;
        while let Some((name, untold)) = watcher.pending.pop_first() {
            let event = if subject.is_group() {
                watcher.of_group(shelf, &subject, &name, untold)
            } else {
                let entry = shelf.slots.get(&name).map(|slot| &slot.entry);
                entry.and_then(|entry| {
                    let error = entry.reason(shelf.outage.as_ref());
                    watcher.of_entry(entry, error, &name, untold)
                })
            };
            if event.is_some() {
                return event;
            }
        }
        std::mem::take(&mut watcher.settled).then_some(WatchEvent::Complete)
    }
}

impl Watcher {
    /// Nothing can be watched: it is said once.
    fn refusal(&mut self, error: Arc<WatchError>) -> Option<WatchEvent> {
        if !std::mem::take(&mut self.settled) {
            return None;
        }
        Some(WatchEvent::Failed { error })
    }

    /// What there is to tell of a resource with which this is wrong.
    fn of_entry(
        &mut self,
        entry: &CacheEntry,
        error: Option<&Arc<WatchError>>,
        name: &ResourceName,
        untold: PendingNews,
    ) -> Option<WatchEvent> {
        match (entry.cached(), error) {
            (Some(held), _) if untold.changed => Some(self.changed(name, Ok(held.clone()), error)),
            (None, Some(error)) if untold.changed => {
                Some(self.changed(name, Err(Arc::clone(error)), None))
            }
            (Some(_), error) => self.ambient(name, error),
            (None, _) => None,
        }
    }

    fn of_group(
        &mut self,
        shelf: &TypeCache,
        subject: &WatchSubject,
        name: &ResourceName,
        untold: PendingNews,
    ) -> Option<WatchEvent> {
        if *name == subject.name {
            let group = shelf.collections.get(name);
            let error = group.and_then(|group| group.error.as_ref().or(group.rejected.as_ref()));
            // A server that is away has said nothing since.
            let error = shelf.outage.as_ref().or(error).or(shelf.unusable.as_ref());
            return self.ambient(name, error);
        }
        let members = shelf.collections.get(&subject.name).map(|group| &group.members);
        let slot = shelf.slots.get(name).filter(|_| members.is_some_and(|all| all.contains(name)));
        let Some(entry) = slot.map(|slot| &slot.entry) else { return self.gone(subject, name) };
        let event = self.of_entry(entry, entry.error(), name, untold);
        match event {
            Some(WatchEvent::Changed { value: Ok(_), .. }) => self.known.insert(name.clone()),
            Some(WatchEvent::Changed { value: Err(_), .. }) => self.known.remove(name),
            Some(WatchEvent::Ambient { .. } | WatchEvent::Complete | WatchEvent::Failed { .. })
            | None => false,
        };
        event
    }

    /// A change; what is wrong all the same is told next.
    fn changed(
        &mut self,
        name: &ResourceName,
        value: Result<CachedResource, Arc<WatchError>>,
        ambient: Option<&Arc<WatchError>>,
    ) -> WatchEvent {
        self.with_errors.remove(name);
        if ambient.is_some() {
            self.pending.insert(name.clone(), PendingNews { changed: false, ambient: true });
        }
        WatchEvent::Changed { name: name.shared(), value }
    }

    fn ambient(
        &mut self,
        name: &ResourceName,
        error: Option<&Arc<WatchError>>,
    ) -> Option<WatchEvent> {
        let news = match error {
            Some(_) => {
                self.with_errors.insert(name.clone());
                true
            }
            None => self.with_errors.remove(name),
        };
        news.then(|| WatchEvent::Ambient { name: name.shared(), error: error.cloned() })
    }

    /// A member of the group is no more. Who never heard of it hears nothing.
    fn gone(&mut self, subject: &WatchSubject, name: &ResourceName) -> Option<WatchEvent> {
        self.with_errors.remove(name);
        if !self.known.remove(name) {
            return None;
        }
        let text = format!("{} `{name}` was removed", subject.type_url.short()).into();
        let (kind, server) = (ErrorKind::Missing, None);
        let error = WatchError { kind, text, server, is_nameless: false };
        Some(WatchEvent::Changed { name: name.shared(), value: Err(Arc::new(error)) })
    }
}
